"""`undo` on the command line, of each kind of change; see tests/operations, too."""

import shlex
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.commands.words import refusals
from tests.kit.cases import cases
from tests.kit.command import CommandResult, ckpt


def contents(store: Path) -> list[str]:
    """Return all rows of a SQLite file, as statements."""
    with closing(sqlite3.connect(store)) as connection:
        return sorted(connection.iterdump())


@cases(
    "words",
    *("rollback trip-to-kyoto step:10", "rollback trip-to-kyoto --steps 2"),
    """fork trip-to-kyoto step:3 --replace 'destination="Nara"'""",
    *("copy refund-4711 --as again", "threads delete refund-4711 --archive archive"),
    *("purge --older-than 0s --archive archive", "purge --keep-last 2 --match trip-* --archive a"),
)
def test_a_change_is_asked_for_made_taken_back_and_made_again(
    sample: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.chdir(sample.parent)

    def run(line: str) -> CommandResult:
        return ckpt("-s", sample, *shlex.split(line))

    before = contents(sample)
    shown, refused = run(f"{words} --dry-run"), run(words)
    assert (shown.code, "dry run: nothing was " in shown.err) == (0, True), shown.err
    assert (refused.code, "confirmation needed" in refused.err) == (5, True), refused.err
    assert contents(sample) == before
    assert run(f"{words} --yes").code == 0
    after = contents(sample)
    assert run("undo --yes").code == 0
    assert (contents(sample) == before, after == before) == (True, False)
    assert run("redo --yes").code == 0
    assert contents(sample) == after


test_wrong_words_are_refused = refusals(
    ("undo", 3, "nothing to undo"),
    ("undo nobody", 3, "no thread 'nobody'"),
    ("undo trip-to-kyoto", 3, "nothing"),
)
