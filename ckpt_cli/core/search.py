"""Finding text in values, and telling what is new along a branch."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ckpt_backends.codec.values import Cut, Opaque, Tagged, Value
from ckpt_backends.errors import UsageError
from ckpt_cli.core.messages import as_message
from ckpt_cli.core.paths import Path

Find = Callable[[str], re.Match[str] | None]
Known = Mapping[int, int]
"""Hash of a match's place and line, to how many such were told of on this branch."""


@dataclass(frozen=True, slots=True)
class Match:
    """A line of a value that the pattern fits."""

    path: Path
    """Inside the channel."""
    place: tuple[str | int, ...]
    """The path with a message's id in place of its index, and no index of other lists: what
    stays the same while items come and go before it."""
    line: str
    number: int
    """Of the line, from 1."""
    start: int
    end: int
    """Where in the line the pattern fits first."""


def compile_pattern(pattern: str, *, fixed: bool, ignore_case: bool) -> Find:
    """What finds a pattern in a line. Raises `UsageError`."""
    try:
        found = re.compile(
            re.escape(pattern) if fixed else pattern, re.IGNORECASE if ignore_case else 0
        )
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(
            f"cannot read the pattern '{pattern}': {error}",
            hint="-F searches for the text as it is",
        ) from None
    return found.search


def search(value: Value, find: Find) -> Iterator[Match]:
    """The matching lines of a value, in order. Never recurses.

    Text and numbers are searched, at any depth; keys and field names are not.
    """
    todo: list[tuple[Path, tuple[str | int, ...], Value]] = [((), (), value)]
    while todo:
        path, place, item = todo.pop()
        while isinstance(item, Tagged | Cut):
            item = item.payload if isinstance(item, Tagged) else item.kept
        text = _text(item)
        if text is not None:
            yield from _lines(path, place, text, find)
        elif isinstance(item, list):
            todo += reversed(
                [
                    ((*path, index), (*place, _identity(part)), part)
                    for index, part in enumerate(item)
                ]
            )
        elif isinstance(item, dict):
            for key, part in reversed(item.items()):
                name = key if isinstance(key, str | int) else str(key)
                todo.append(((*path, name), (*place, name), part))


def is_unread(value: Value) -> bool:
    """Whether a value, as a whole, could not be read or was cut."""
    return isinstance(value, Opaque | Cut)


def unseen(channel: str, matches: Sequence[Match], known: Known) -> tuple[list[Match], Known]:
    """The matches that were not told of on this branch, and what is known after them.

    Equal lines at equal places are counted: of three where two are known, the last is new.
    """
    here: Counter[int] = Counter()
    fresh: list[Match] = []
    for match in matches:
        key = hash((channel, match.place, match.line))
        here[key] += 1
        if here[key] > known.get(key, 0):
            fresh.append(match)
    if not fresh:
        return fresh, known
    return fresh, {**known, **{key: max(n, known.get(key, 0)) for key, n in here.items()}}


def _lines(path: Path, place: tuple[str | int, ...], text: str, find: Find) -> Iterator[Match]:
    for number, one in enumerate(text.split("\n"), 1):
        if (found := find(one)) is not None:
            yield Match(path, place, one, number, *found.span())


def _identity(item: Value) -> str:
    message = as_message(item)
    return "" if message is None or message.id is None else message.id


def _text(value: Value) -> str | None:
    """A leaf as text; None for what holds others, and for what has no text."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if value.bit_length() < 10_000 else hex(value)
    return repr(value) if isinstance(value, float) else None
