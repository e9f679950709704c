"""`diff` shows what changed between two checkpoints, and with `--writes` what each write did."""

from pathlib import Path
from typing import Any

import pytest

from tests.commands.words import refusals
from tests.kit.cases import cases
from tests.kit.command import FIXTURES, ckpt, copy_store

OLD, NEW = "trip-to-kyoto@step:8", "trip-to-kyoto@step:10"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return copy_store(FIXTURES / "lg-1.2.22" / "store.db", tmp_path)


def diff(store: Path, *words: str) -> Any:
    return ckpt("-s", store, "diff", *words, "-o", "json").json


@cases(
    "words expected",
    (["trip-to-kyoto"], (11, 12)),
    (["trip-to-kyoto@step:10"], (9, 10)),
    (["trip-to-kyoto", "step:8"], (8, 12)),
    (["trip-to-kyoto", "step:10", "step:8"], (10, 8)),
    (["trip-to-kyoto@step:10", "step:8"], (10, 8)),
    (["trip-to-kyoto", OLD], (12, 8)),
    ([NEW, OLD], (10, 8)),
    (["trip-to-kyoto", "support-live-chat"], (12, 14)),
)
def test_it_goes_from_a_to_b(sample: Path, words: list[str], expected: tuple[int, int]) -> None:
    found = diff(sample, *words)
    assert (found["from"]["step"], found["to"]["step"]) == expected


def test_a_channel_that_no_compared_checkpoint_has_is_named(sample: Path) -> None:
    answer = ckpt("-s", sample, "diff", "trip-to-kyoto@step:0", "--channel", "hotel")
    assert "note: no channel 'hotel' at these checkpoints\n" in answer.err
    answer = ckpt("-s", sample, "diff", "trip-to-kyoto", "--channel", "hotel", "--exit-code")
    assert (answer.code, answer.err) == (0, "note: no changes\n")
    ckpt("-s", sample, "diff", "trip-to-kyoto", "--exit-code", code=1)


def test_writes_are_shown_with_what_they_did(store: Path) -> None:
    found = diff(store, "--writes", "reducers@step:1")
    facts = found["channels"]["facts"]
    assert [(one["node"], one["added"], one["changed"]) for one in facts["writes"]] == [
        ("one", 2, 0),
        ("two", 1, 1),
    ]
    assert (facts["before"], facts["rebuilt"]) == ({"seed": True}, facts["stored"])
    assert facts["verdict"] == "match"
    assert {one["effect"] for one in found["channels"]["worst"]["writes"]} == {"duplicate"}
    assert {one["effect"] for one in found["others"]} == {"special"}
    assert "← two 3 +1 ~1" in ckpt("-s", store, "diff", "--writes", "reducers@step:1").out
    only = diff(store, "--writes", "reducers@step:1", "--channel", "total")
    assert (list(only["channels"]), only["others"]) == (["total"], [])


def test_a_delta_channel_did_not_become_null(sample: Path) -> None:
    answer = ckpt("-s", sample, "diff", "--writes", "support-live-chat", "-o", "table")
    block = answer.out.partition("\nmessages")[2].splitlines()
    assert block[1] == "  reducer add_messages, confirmed by 1 step"
    assert block[3] == "  became not stored"


def test_a_write_is_not_called_ignored_where_the_checkpoint_cannot_be_read(tmp_path: Path) -> None:
    store = copy_store(FIXTURES / "lg-1.2.22-serde" / "store.db", tmp_path)
    assert [one["effect"] for one in diff(store, "--writes", "aes-chat")["others"]] == ["unknown"]


test_wrong_words_are_refused = refusals(
    ("diff trip-to-kyoto@head step:1 step:2", 2, "cannot compare three"),
    ("diff trip-to-kyoto head~1 --writes", 2, "--writes"),
    ("diff nobody", 3, "no thread 'nobody'"),
    ("diff trip-to-kyoto zzzz", 3, "newest first:"),
    ("diff trip-to-kyoto --channel nosuch", 3, "'nosuch' in"),
)
