"""Every command shows or names hostile rows, runs nothing of them, and changes nothing."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.security.corpus import build_store
from tests.support import ckpt

FORBIDDEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200c\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
"""What a terminal may obey, or a reader may be fooled by. Tab and newline are ours, and an emoji
may keep its joiner (U+200D)."""

EVERY_ROW = [
    ["show", "--writes", "--metadata"],
    ["show", "-o", "json"],
]
OTHERS = [
    ["show"],
    ["show", "-o", "tsv"],
    ["show", "--tree"],
    ["show", "--tree", "--all-ns", "--unfold", "--ascii"],
    ["show", "--mermaid"],
    ["show", "--where"],
    ["history", "--all-ns"],
    ["history", "-o", "table"],
    ["diff"],
    ["diff", "--stat"],
    ["diff", "-o", "json"],
    ["interrupts"],
    ["threads", "show"],
    ["messages"],
    ["messages", "--full"],
    ["messages", "-o", "json"],
    ["messages", "--stat"],
    ["du"],
    ["du", "--by", "channel", "-o", "table"],
]
WHOLE = [
    ["threads", "list"],
    ["threads", "list", "--long", "--all", "-o", "json"],
    ["threads", "list", "--limit", "1000", "-o", "table"],
    ["threads", "list", "--where", "metadata.user=1", "--all"],
    ["threads", "list", "--status", "done", "--all"],
    ["interrupts", "-o", "json"],
    ["grep", "."],
    ["grep", "-i", "e", "-o", "table", "--limit", "500"],
    ["grep", ".", "-o", "json", "--head-only"],
    ["du", "-o", "json"],
    ["du", "--by", "channel", "--top", "1000"],
    ["du", "--by", "thread", "--top", "1000", "-o", "table"],
    ["stores"],
]


@dataclass(frozen=True)
class Hostile:
    store: Path
    marker: Path
    threads: list[str]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Hostile:
    folder = tmp_path_factory.mktemp("hostile")
    store, marker = folder / "store.db", folder / "payload-ran"
    return Hostile(store, marker, build_store(store, marker))


def check(hostile: Hostile, words: list[str]) -> str:
    """Run one command line: a clean end, clean text, nothing run."""
    answer = ckpt("-s", hostile.store, *words)
    assert answer.code in {0, 3}, (words, answer.err)
    assert "Traceback" not in answer.err
    for text in (answer.out, answer.err):
        found = FORBIDDEN.search(text)
        assert found is None, (words, text[max(found.start() - 40, 0) : found.end() + 40])
    assert not hostile.marker.exists(), words
    return answer.out


def test_the_corpus_is_large_enough(hostile: Hostile) -> None:
    assert len(hostile.threads) >= 25


def foreign_modules() -> set[str]:
    """What is imported, but for what is late by design: our own modules, Python's encodings."""
    return {name for name in sys.modules if not name.startswith(("ckpt_", "encodings."))}


def check_threads(hostile: Hostile, words: list[str], threads: list[str]) -> None:
    before = hashlib.sha256(hostile.store.read_bytes()).hexdigest()
    check(hostile, [*words, "--", hostile.threads[0]])
    modules = foreign_modules()
    for thread_id in threads:
        out = check(hostile, [*words, "--", thread_id])
        if "json" in words and out:  # nothing is printed of a thread without messages
            json.loads(out)
    assert foreign_modules() == modules
    assert hashlib.sha256(hostile.store.read_bytes()).hexdigest() == before


@pytest.mark.parametrize("words", EVERY_ROW, ids=" ".join)
def test_every_row_is_shown_or_named(hostile: Hostile, words: list[str]) -> None:
    check_threads(hostile, words, hostile.threads)


@pytest.mark.parametrize("place", range(len(OTHERS)), ids=[" ".join(words) for words in OTHERS])
def test_a_share_of_the_rows_goes_through_each_other_command(hostile: Hostile, place: int) -> None:
    share = [one for n, one in enumerate(hostile.threads) if n % len(OTHERS) == place]
    check_threads(hostile, OTHERS[place], share)


@pytest.mark.slow
@pytest.mark.parametrize("words", OTHERS, ids=" ".join)
def test_every_row_goes_through_every_command(hostile: Hostile, words: list[str]) -> None:
    check_threads(hostile, words, hostile.threads)


@pytest.mark.parametrize("words", WHOLE, ids=" ".join)
def test_the_whole_store_is_listed(hostile: Hostile, words: list[str]) -> None:
    out = check(hostile, words)
    if "json" in words:
        json.loads(out)


def test_every_thread_is_listed_under_its_own_id(hostile: Hostile) -> None:
    out = check(hostile, ["threads", "list", "--all", "-o", "json"])
    assert sorted(row["thread_id"] for row in json.loads(out)) == sorted(hostile.threads)
