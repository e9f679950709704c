"""`du` tells what takes room in a store."""

from pathlib import Path
from typing import Any

from tests.commands.words import refusals
from tests.kit.cases import cases
from tests.kit.command import ckpt


def du(store: Path, *words: str) -> Any:
    return ckpt("-s", store, "du", *words, "-o", "json").json


@cases("by part", ("thread", "threads"), ("ns", "namespaces"), ("type", "types"))
def test_each_part_holds_every_byte_once(sample: Path, by: str, part: str) -> None:
    whole = du(sample)
    rows = du(sample, "--by", by)
    assert sum(one["bytes"] for one in rows) == whole["bytes"] > 0
    assert rows[: len(whole[part])] == whole[part]
    assert du(sample, "--by", by, "--top", "1") == rows[:1]
    (kyoto,) = du(sample, "trip-to-kyoto", "--by", "thread")
    assert sum(one["bytes"] for one in du(sample, "trip-to-kyoto", "--by", by)) == kyoto["bytes"]


test_wrong_words_are_refused = refusals(
    ("du --by colour", 2, "'colour' is not one of 'thread', 'channel'"),
    ("du --top 0", 2, "--top"),
    ("du nobody", 3, "no thread 'nobody'"),
    ("du trip-to-kyoto --match t*", 2, "cannot be combined with --match"),
)
