"""`du` adds up to what the threads have, however it is divided."""

from pathlib import Path

from tests.commands.words import refusals
from tests.kit.command import ckpt


def test_du_adds_up(sample: Path) -> None:
    listed = ckpt("-s", sample, "threads", "list", "--all", "--long", "-o", "json").json
    sizes = {one["thread_id"]: one["bytes"] for one in listed}
    whole = ckpt("-s", sample, "du", "--top", "1000", "-o", "json").json
    assert whole["bytes"] == sum(sizes.values())
    for key in ("tables", "threads", "namespaces", "channels", "types"):
        assert sum(one["bytes"] for one in whole[key]) == whole["bytes"], key
    assert {one["thread_id"]: one["bytes"] for one in whole["threads"]} == sizes
    words = ("--by", "channel", "--top", "1000", "-o", "json", "trip-to-kyoto")
    rows = ckpt("-s", sample, "du", *words).json
    assert sum(one["bytes"] for one in rows) == sizes["trip-to-kyoto"]
    named = {one["bytes"]: one["channel"] for one in rows if one["channel"]}
    assert named[max(named)] == "messages"


test_wrong_words_are_refused = refusals(
    ("du --by colour", 2, "'colour' is not one of 'thread', 'channel'"),
    ("du --top 0", 2, "--top"),
    ("du nobody", 3, "no thread 'nobody'"),
    ("du trip-to-kyoto --match t*", 2, "cannot be combined with --match"),
)
