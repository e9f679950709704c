"""`grep` finds what no state has: questions, errors and writes that were never merged."""

from pathlib import Path
from typing import Any

import pytest

from ckpt_backends.protocol import Store
from ckpt_cli.queries.grep import Searched, grep_thread
from tests.commands.words import refusals
from tests.kit.cases import cases
from tests.kit.command import SAMPLE, ckpt


def grep(store: Path, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ckpt("-s", store, "grep", *words, "-o", "json").json
    return found


ASKED = ("question", "ask_approval", "__interrupt__[0].value.options[1]")
FAILED = ("error", "match_supplier", "__error__")
HOTEL = ("value", None, "hotel")
WAITS = ("write", "extract_lines", "lines[1].item")


@cases(
    "words place",
    (["^reject", "refund-4711"], ASKED),
    (["is ambiguous", "invoice-import"], FAILED),
    (["Gateway", "invoice-import"], WAITS),
    (["Gateway", "invoice-import", "--head-only"], WAITS),
    (["Gateway", "--match", "inv*", "--channel", "lines"], WAITS),
    (["^Hotel Kanra", "trip-to-kyoto", "--channel", "hotel", "--head-only"], HOTEL),
)
def test_it_is_found_once(words: list[str], place: tuple[str | None, ...]) -> None:
    (hit,) = grep(SAMPLE, *words)
    assert (hit["in"], hit["node"], hit["path"]) == place


def test_it_exits_as_grep_does_and_a_table_says_where_a_text_stands() -> None:
    ckpt("-s", SAMPLE, "grep", "Kyoto", code=0)
    nothing = ckpt("-s", SAMPLE, "grep", "no such words", "-o", "json")
    assert (nothing.code, nothing.json) == (1, [])
    missing = ckpt("-s", SAMPLE, "grep", "Kyoto", "trip-to-kyoto", "--ns", "nosuch")
    assert (missing.code, "no namespace 'nosuch' in" in missing.err) == (3, True)
    head, line = ckpt("-s", SAMPLE, "grep", "is ambiguous", "-o", "table").out.splitlines()
    assert head.split() == ["THREAD", "REF", "IN", "NODE", "PATH", "TEXT"]
    assert line.split()[2:4] == ["error", "match_supplier"]


def test_a_thread_that_could_not_be_searched_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(store: Store, thread_id: str, *more: Any) -> Searched:
        if thread_id == "refund-4711":
            raise KeyError
        return grep_thread(store, thread_id, *more)

    monkeypatch.setattr("ckpt_cli.queries.grep.grep_thread", failing)
    answer = ckpt("-s", SAMPLE, "grep", ".", code=7, says="left out thread 'refund-4711'")
    assert "trip-to-kyoto" in answer.out


@pytest.mark.parametrize("channel", ["messages", "__interrupt__", "nosuch"])
def test_a_channel_that_nothing_has_is_told(channel: str) -> None:
    answer = ckpt("-s", SAMPLE, "grep", "xyzzy", "--channel", channel, code=1)
    assert ("no channel" in answer.err) == (channel == "nosuch")


test_wrong_words_are_refused = refusals(
    ("grep", 2, "missing argument"),
    ("grep ( -n 1", 2, "cannot read the pattern '('"),
    ("grep a --jobs 0", 2, "--jobs"),
    ("grep a refund-4711 --match *", 2, "cannot be combined with --match"),
    ("grep a refund-4711 nobody", 3, "no thread 'nobody'"),
)
