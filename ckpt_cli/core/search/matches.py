"""Find text in values, and find out what is new along a branch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from ckpt_backends.codec.values import Cut, Opaque, Tagged, Value, items_of
from ckpt_cli.core.conversation.messages import as_message
from ckpt_cli.core.search.patterns import Finder
from ckpt_cli.core.values.paths import Path


@dataclass(frozen=True, slots=True)
class Match:
    """A line of a value that matches the pattern."""

    path: Path
    """Path inside the channel."""
    place: tuple[str | int, ...]
    """The path with a message's id in place of its index, and without other list indexes: it stays
    the same when items are inserted or removed before it.
    """
    line: str
    number: int
    """Number of the line, from 1."""
    start: int
    end: int
    """Start and end of the first match in the line."""


@dataclass(slots=True)
class SeenMatches:
    """What was found on a branch so far; each match is a hash of its place and line."""

    reported: dict[int, int] = field(default_factory=dict)
    """Number of times that each match was reported."""
    here: dict[str, Counter[int]] = field(default_factory=dict)
    """For each channel, the number of times that its last value contains each match."""
    lines: set[int] = field(default_factory=set)
    """All lines that matched: hashes of (channel, text) and of (None, text)."""

    def copy(self) -> SeenMatches:
        """Return a copy for another branch."""
        here = {name: one.copy() for name, one in self.here.items()}
        return SeenMatches(self.reported.copy(), here, self.lines.copy())

    def has(self, channel: str | None, line: str) -> bool:
        """Return whether a value of the channel (of any channel, if None) contained this line."""
        return hash((channel, line)) in self.lines


def search(value: Value, find: Finder, first: int = 0) -> Iterator[Match | None]:
    """Yield the matching lines of a value, in order; None for a part that could not be read.

    Texts and numbers are searched at any depth; keys and field names are not. Of a list, items from
    index `first` on are searched. Not recursive.
    """
    todo: list[tuple[Path, tuple[str | int, ...], Value]] = [((), (), value)]
    if first and isinstance(value, list):
        todo = [((n,), (_identity(value[n]),), value[n]) for n in range(first, len(value))]
        todo.reverse()
    while todo:
        path, place, item = todo.pop()
        while isinstance(item, Tagged | Cut):
            if isinstance(item, Cut) or _is_raw(item):
                yield None
            item = item.payload if isinstance(item, Tagged) else item.kept
        if isinstance(item, Opaque):
            yield None
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


def search_questions(value: Value, find: Finder) -> Iterator[Match | None]:
    """Yield the matching lines of the questions in an `__interrupt__` write."""
    raised = value.kept if isinstance(value, Cut) else value
    items = items_of(raised)
    for number, item in enumerate([raised] if items is None else items):
        payload = item.payload if isinstance(item, Tagged) else item
        path: Path = () if items is None else (number,)
        asked: Value = item
        if isinstance(payload, dict) and "value" in payload:
            path, asked = (*path, "value"), payload["value"]
        for match in search(asked, find):
            yield None if match is None else replace(match, path=(*path, *match.path))
    if isinstance(value, Cut):
        yield None


def appended_from(before: Value, after: Value) -> int:
    """Return the number of earlier items if a list was only appended to; otherwise 0."""
    if not isinstance(before, list) or not isinstance(after, list) or len(before) > len(after):
        return 0
    return len(before) if all(map(_alike, before, after)) else 0


def new_matches(
    channel: str, matches: Iterable[Match], known: SeenMatches, *, added: bool
) -> list[Match]:
    """Return the matches that were not reported on this branch yet, and add them to `known`.

    Equal lines at equal places are counted: of three, if two are known, the last is new. With
    `added`, the matches are only those of items that the last value did not have.
    """
    if not added:
        known.here[channel] = Counter()
    here = known.here.setdefault(channel, Counter())
    fresh: list[Match] = []
    for match in matches:
        key = hash((channel, match.place, match.line))
        here[key] += 1
        known.lines |= {hash((channel, match.line)), hash((None, match.line))}
        if here[key] > known.reported.get(key, 0):
            known.reported[key] = here[key]
            fresh.append(match)
    return fresh


def _is_raw(value: Tagged) -> bool:
    """Return whether it is an extension type with a payload that could not be decoded."""
    return value.type.startswith("ext:") and isinstance(value.payload, bytes)


def _alike(one: Value, other: Value) -> bool:
    """Compare strictly; faster than numbering values if most of them are equal."""
    if one is other:  # Objects that were decoded once.
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, Tagged) and isinstance(other, Tagged):
        return one.type == other.type and _alike(one.payload, other.payload)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_alike(one[key], other[key]) for key in one)
    return one == other


def _lines(path: Path, place: tuple[str | int, ...], text: str, find: Finder) -> Iterator[Match]:
    for number, one in enumerate(text.split("\n"), 1):
        if (found := find(one)) is not None:
            yield Match(path, place, one, number, *found)


def _identity(item: Value) -> str:
    message = as_message(item)
    return "" if message is None or message.id is None else message.id


def _text(value: Value) -> str | None:
    """Return a leaf as text; None for containers and for values without text."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if value.bit_length() < 10_000 else hex(value)
    return repr(value) if isinstance(value, float) else None
