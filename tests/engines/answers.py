"""What tests ask the command line again and again, and commands that every store must answer."""

from pathlib import Path
from typing import Any

from tests.kit.command import CommandResult, ckpt

Word = str | Path
COMMANDS = [
    ["threads", "list", "--long", "-o", "json"],
    ["threads", "list", "--all", "-o", "json"],
    ["show", "--long", "trip"],
    ["show", "trip", "--writes", "--metadata"],
    ["show", "trip", "--tree", "--all-ns", "--unfold"],
    ["show", "trip", "--raw"],
    ["show", "trip", "--where"],
    ["history", "trip", "--all-ns"],
    ["diff", "trip"],
    ["interrupts"],
    ["messages", "trip"],
    ["grep", "from"],
    ["blame", "trip", "items"],
    ["du"],
    ["du", "trip", "--by", "channel"],
    ["diff", "trip", "--writes"],
    ["replay", "trip", "--verify"],
    ["replay", "--all", "--verify"],
    ["stats"],
    ["stores"],
    ["doctor", "--deep"],
]
"""Commands that read, of stores with a thread `trip`."""
PLANNED = [
    ["replay", "trip", "--repair", "--dry-run"],
    ["rollback", "trip", "head", "--force", "--dry-run"],
    ["copy", "trip@head", "--as", "new", "--dry-run"],
    ["migrate", "trip", "--rename-channel", "items=things", "--dry-run"],
]
"""Changes that are planned, for which a store must have a history."""


def succeeds(url: Word, *words: Word) -> CommandResult:
    """Assert that a command ends without an error, and return its answer."""
    return ckpt("-s", url, *words, code=0)


def refuses(url: Word, *words: Word, says: str, code: int = 4) -> CommandResult:
    """Assert that a command ends with a code and says why, and return its answer."""
    return ckpt("-s", url, *words, code=code, says=says)


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


def without(found: Any, *keys: str) -> Any:
    """Return an answer without keys that differ from store to store."""
    if isinstance(found, list):
        return [without(one, *keys) for one in found]
    if isinstance(found, dict):
        return {name: without(one, *keys) for name, one in found.items() if name not in keys}
    return found
