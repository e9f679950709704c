"""Every command shows or names hostile rows, runs nothing of them, and changes nothing."""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.kit.command import ckpt
from tests.kit.hostile.corpus import build_odd_store, build_store, hostile_rows
from tests.kit.hostile.watched import FORBIDDEN

EVERY_ROW = [["show", "--writes", "--metadata"], ["show", "-o", "json"]]
OTHERS = [
    ["show"],
    ["show", "-o", "tsv"],
    ["show", "--writes", "-o", "ndjson"],
    ["show", "--tree"],
    ["show", "--tree", "--all-ns", "--unfold", "--ascii"],
    ["show", "--mermaid"],
    ["show", "--where"],
    ["history", "--all-ns"],
    ["history", "-o", "table"],
    ["diff"],
    ["diff", "--stat"],
    ["diff", "-o", "json"],
    ["diff", "--writes"],
    ["diff", "--writes", "-o", "json"],
    ["replay"],
    ["replay", "--verify", "-o", "json"],
    ["replay", "--verify", "-o", "table"],
    ["timeline"],
    ["timeline", "-o", "json"],
    ["stats"],
    ["stats", "--by", "node,channel,thread,day,user"],
    ["stats", "--by", "model,node,thread,day,user"],
    ["interrupts"],
    ["errors", "--history"],
    ["show", "--long"],
    ["messages"],
    ["messages", "--full"],
    ["messages", "-o", "json"],
    ["messages", "--stat"],
    ["rollback", "--steps", "1", "--dry-run"],
    ["rollback", "--at", "head", "--dry-run", "-o", "json"],
    ["fork", "--at", "head", "--dry-run"],
    ["copy", "--at", "head", "--as", "another thread", "--dry-run", "-o", "json"],
    ["fork", "--at", "head", "--append", "messages=1", "--dry-run"],
    ["undo", "--dry-run"],
    ["du"],
    ["du", "--by", "channel", "-o", "table"],
    ["show", "--svg", "--all-ns", "--unfold"],
    ["report", "--all-ns"],
]
WHOLE = [
    ["threads", "list"],
    ["threads", "list", "--long", "--all", "-o", "json"],
    ["threads", "list", "--limit", "1000", "-o", "table"],
    ["threads", "list", "--where", "metadata.user=1", "--all"],
    ["threads", "list", "--status", "done", "--all"],
    ["interrupts", "-o", "json"],
    ["errors", "--history", "-o", "json"],
    ["errors", "--by", "error", "-o", "table"],
    ["grep", "."],
    ["grep", "-i", "e", "-o", "table", "--limit", "500"],
    ["grep", ".", "-o", "json", "--head-only"],
    ["replay", "--all", "-o", "json"],
    ["replay", "--all", "-o", "table"],
    ["stats", "-o", "json"],
    ["stats", "--by", "user,day", "-o", "json"],
    ["stats", "--by", "model", "-o", "json"],
    ["du", "-o", "json"],
    ["du", "--by", "channel", "--top", "1000"],
    ["du", "--by", "thread", "--top", "1000", "-o", "table"],
    ["stores"],
]


CODES = {
    "grep": {0, 1, 7},
    "replay": {0, 1, 3, 4},
    "rollback": {0, 3, 4, 5},
    "fork": {0, 2, 3, 4, 5},
    "undo": {0, 3, 4, 5},
}
"""Exit codes of the commands that may end otherwise than with 0, 3 or 4."""
HEAVY = {
    "hostile write: pickle laughs of objects",
    "hostile write: too many empty maps",
    "hostile state: too many empty maps",
    "hostile state: too many empty lists",
    "hostile state: ext types and wrong claims",
    "hostile state: 17 MiB of text",
}
"""Threads that take seconds each, as their limits allow; the slow cases show them too."""
_PER_STORE = 6
"""Threads of one store: some answers look into other threads of the same store."""


@dataclass(frozen=True)
class Hostile:
    marker: Path
    stores: dict[str, Path]
    """Thread id to the small store that it is in."""
    whole: Path
    """Most of them in one store."""
    listed: list[str]
    """The threads of that store."""

    @property
    def threads(self) -> list[str]:
        return list(self.stores)


def by_weight(lines: list[list[str]]) -> list[Any]:
    """Return command lines as parameters; those that decode every value are marked."""
    searches = [words for words in lines if words[0] == "grep"]
    marks = {" ".join(words): pytest.mark.slow for words in searches}
    return [pytest.param(words, marks=marks.get(" ".join(words), ())) for words in lines]


def by_place(lines: list[list[str]]) -> list[Any]:
    """Return command lines as parameters; every third is tested by default."""
    return [
        pytest.param(words, marks=pytest.mark.slow if place % 3 else ())
        for place, words in enumerate(lines)
    ]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Hostile:
    folder = tmp_path_factory.mktemp("hostile")
    marker = folder / "payload-ran"
    rows = hostile_rows(marker)
    stores: dict[str, Path] = {}
    for start in range(0, len(rows), _PER_STORE):
        path = folder / f"{start}.db"
        stores |= dict.fromkeys(build_store(path, rows[start : start + _PER_STORE]), path)
    whole = folder / "whole.db"
    # What a channel holds is also in a write, and a list of threads reads neither.
    listed = build_store(whole, [row for row in rows if not row.name.startswith("state: ")])
    return Hostile(marker, stores, whole, listed)


def check(store: Path | str, marker: Path, words: list[str]) -> str:
    """Run one command line: a clean end, clean text, nothing run."""
    answer = ckpt("-s", store, *words)
    assert answer.code in CODES.get(words[0], {0, 3, 4}), (words, answer.err)
    assert "Traceback" not in answer.err
    for text in (answer.out, answer.err):
        found = FORBIDDEN.search(text)
        assert found is None, (words, text[max(found.start() - 40, 0) : found.end() + 40])
    assert not marker.exists(), words
    return answer.out


def test_the_corpus_is_large_enough(hostile: Hostile) -> None:
    assert len(hostile.threads) >= 350


LATE = {"pickle", "_compat_pickle", "_pickle", "pickletools"}
"""Python's reader of opcodes, loaded with the first pickled value."""


def foreign_modules() -> set[str]:
    """What is imported, but for what is late by design.

    These are our own modules, Python's encodings, and the table of widths of characters.
    """
    late = ("ckpt_", "encodings.", "rich._unicode_data.")
    return {name for name in sys.modules if not name.startswith(late)}


def check_threads(hostile: Hostile, words: list[str], threads: list[str]) -> None:
    before = hashes(hostile)
    check(hostile.stores[threads[0]], hostile.marker, [*words, "--", threads[0]])
    modules = foreign_modules()
    for thread_id in threads:
        out = check(hostile.stores[thread_id], hostile.marker, [*words, "--", thread_id])
        if "json" in words and out:  # nothing is printed of a thread without messages
            json.loads(out)
        if "ndjson" in words:
            list(map(json.loads, out.splitlines()))
    assert foreign_modules() - LATE == modules - LATE
    assert hashes(hostile) == before


def hashes(hostile: Hostile) -> list[str]:
    paths = dict.fromkeys([*hostile.stores.values(), hostile.whole])
    return [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths]


@pytest.mark.engines
@pytest.mark.parametrize("words", EVERY_ROW, ids=" ".join)
def test_half_of_the_rows_are_shown_or_named(hostile: Hostile, words: list[str]) -> None:
    """Every other row in one of the forms; the slow cases show all rows in all forms."""
    threads = [one for one in hostile.threads if one not in HEAVY]
    check_threads(hostile, words, threads[2 * EVERY_ROW.index(words) + 1 :: 2 * len(EVERY_ROW)])


@pytest.mark.engines
def test_a_third_of_the_rows_is_searched(hostile: Hostile) -> None:
    """The slow cases search all."""
    heavy = {hostile.stores[name] for name in HEAVY if name in hostile.stores}
    for store in [*dict.fromkeys(hostile.stores.values())][::3]:
        if store not in heavy:
            check(store, hostile.marker, ["grep", "."])


@pytest.mark.parametrize("words", EVERY_ROW, ids=" ".join)
def test_a_tenth_of_the_rows_is_shown_or_named(hostile: Hostile, words: list[str]) -> None:
    threads = [one for one in hostile.threads if one not in HEAVY]
    check_threads(hostile, words, threads[EVERY_ROW.index(words) :: 10])


@pytest.mark.parametrize(
    "place",
    [
        pytest.param(at, id=" ".join(words), marks=() if at % 3 == 0 else pytest.mark.slow)
        for at, words in enumerate(OTHERS)
    ],
)
def test_a_share_of_the_rows_goes_through_each_other_command(hostile: Hostile, place: int) -> None:
    threads = [one for one in hostile.threads if one not in HEAVY]
    check_threads(hostile, OTHERS[place], threads[place :: len(OTHERS)])


@pytest.mark.slow
@pytest.mark.parametrize("words", [*EVERY_ROW, *OTHERS], ids=" ".join)
def test_every_row_goes_through_every_command(hostile: Hostile, words: list[str]) -> None:
    check_threads(hostile, words, hostile.threads)


@pytest.mark.parametrize("words", by_weight(WHOLE), ids=" ".join)
def test_the_whole_store_is_listed(hostile: Hostile, words: list[str]) -> None:
    out = check(hostile.whole, hostile.marker, words)
    if "json" in words:
        json.loads(out)


def test_every_thread_is_listed_under_its_own_id(hostile: Hostile) -> None:
    out = check(hostile.whole, hostile.marker, ["threads", "list", "--all", "-o", "json"])
    assert sorted(row["thread_id"] for row in json.loads(out)) == sorted(hostile.listed)


@pytest.mark.parametrize("words", WHOLE, ids=" ".join)
def test_a_store_of_wrong_types_is_listed(tmp_path: Path, words: list[str]) -> None:
    build_odd_store(tmp_path / "odd.db")
    check(tmp_path / "odd.db", tmp_path / "marker", words)


@pytest.mark.parametrize("words", [*EVERY_ROW, *by_place(OTHERS)], ids=" ".join)
def test_threads_of_wrong_types_are_shown(tmp_path: Path, words: list[str]) -> None:
    threads = build_odd_store(tmp_path / "odd.db")
    place = [*EVERY_ROW, *OTHERS].index(words)
    share = threads if words in EVERY_ROW else threads[place % 5 :: 5]
    for thread_id in share:
        check(tmp_path / "odd.db", tmp_path / "marker", [*words, "--", thread_id])
