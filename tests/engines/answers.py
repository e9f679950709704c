"""What tests ask the command line again and again."""

from pathlib import Path
from typing import Any

from tests.engines.commands import COMMANDS, PLANNED
from tests.kit.command import CommandResult, ckpt

Word = str | Path


def succeeds(url: Word, *words: Word) -> CommandResult:
    """Assert that a command ends without an error, and return its answer."""
    answer = ckpt("-s", url, *words)
    assert answer.code == 0, answer.err
    return answer


def refuses(url: Word, *words: Word, says: str, code: int = 4) -> CommandResult:
    """Assert that a command ends with a code and says why, and return its answer."""
    answer = ckpt("-s", url, *words)
    assert (answer.code, says in answer.err) == (code, True), answer.err
    return answer


def threads_of(url: Word) -> list[str]:
    """Return the threads that `ckpt` lists."""
    return [one["thread_id"] for one in ckpt("-s", url, "threads", "list", "-o", "json").json]


def items_of(url: Word, thread_id: str) -> Any:
    """Return the channel `items` at the head of a thread, as `ckpt` shows it."""
    return ckpt("-s", url, "show", thread_id, "-o", "json").json["values"]["items"]


def check_damaged(url: Word, first: int = 0, step: int = 1) -> None:
    """Assert that damage in the thread `trip` ends no command, and that the thread can go.

    Of all commands, every so many are tried.
    """
    for words in [*COMMANDS, *PLANNED][first::step]:
        ckpt("-s", url, *words).ends_cleanly(0, 1, 3, 4, 5, 7)
    assert items_of(url, "other")[0] == "in other"
    succeeds(url, "threads", "delete", "trip", "--yes")
