"""What command lines do with the sample store."""

import shlex
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.kit.command import CommandResult, ckpt


def refuses(store: Path | str, words: str, code: int, said: str) -> None:
    """Fail the test unless `ckpt` refuses a command line, as in a shell, in one line with at most a
    hint.
    """
    answer = ckpt("-s", store, *shlex.split(words))
    lines = [line for line in answer.err.splitlines() if not line.startswith("note: ")]
    assert (answer.code, answer.out) == (code, ""), answer.err
    assert [line.partition(": ")[0] for line in lines] in (["ckpt"], ["ckpt", "hint"]), answer.err
    assert said.lower() in answer.err.lower()


def refusals(*rows: tuple[str, int, str]) -> Callable[[Path, str, int, str], None]:
    """Return a test that the sample store gets these command lines refused: each with its exit code
    and a part of what is said.
    """

    @pytest.mark.parametrize(("words", "code", "said"), rows)
    def test(sample: Path, words: str, code: int, said: str) -> None:
        refuses(sample, words, code, said)

    return test


def contents(store: Path) -> list[str]:
    """Return all rows of a SQLite file, as statements."""
    with closing(sqlite3.connect(store)) as connection:
        return list(connection.iterdump())


def asks_first(store: Path, words: str) -> CommandResult:
    """Fail the test unless a command line writes if it is confirmed, and only then."""
    before, command = contents(store), ["-s", str(store), *shlex.split(words)]
    shown = ckpt(*command, "--dry-run")
    assert (shown.code, "dry run: nothing was " in shown.err) == (0, True), shown.err
    refused = ckpt(*command)
    assert (refused.code, "confirmation needed" in refused.err) == (5, True), refused.err
    assert contents(store) == before
    done = ckpt(*command, "--yes")
    assert done.code == 0, done.err
    assert contents(store) != before
    return done
