"""Which rows of a table a query can use, as far as the filters of its plan tell for certain."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from typing import TypeAlias, TypeVar

from ckpt_backends.model import Thread

Texts: TypeAlias = frozenset[str]
_Value = TypeVar("_Value")
_BOTH = 2


@dataclass(frozen=True, slots=True)
class RowBounds:
    """Conditions that each row fulfils that a query uses. None: there is no such condition."""

    thread_ids: Texts | None = None
    first_id: str | None = None
    """The least thread id, in the order of UTF-8 bytes."""
    last_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    """Bounds of `ts`, both inclusive."""
    channels: Texts | None = None
    heads_only: bool = False

    def admits(self, thread: Thread) -> bool:
        """Return whether a thread may have such rows."""
        name = text_in_duckdb(thread.thread_id)
        if self.thread_ids is not None and name not in self.thread_ids:
            return False
        if self.first_id is not None and _bytes(name) < _bytes(self.first_id):
            return False
        if self.last_id is not None and _bytes(name) > _bytes(self.last_id):
            return False
        if self.since is not None and thread.last_at is not None and thread.last_at < self.since:
            return False
        return self.until is None or thread.first_at is None or thread.first_at <= self.until

    def holds(self, at: datetime) -> bool:
        """Return whether a time is within `since` and `until`."""
        return (self.since is None or self.since <= at) and (self.until is None or at <= self.until)

    def both(self, other: RowBounds) -> RowBounds:
        """Return the bounds of rows that fulfil both."""
        return RowBounds(
            _meet(self.thread_ids, other.thread_ids),
            max(_known(self.first_id, other.first_id), key=_bytes, default=None),
            min(_known(self.last_id, other.last_id), key=_bytes, default=None),
            max(_known(self.since, other.since), default=None),
            min(_known(self.until, other.until), default=None),
            _meet(self.channels, other.channels),
            self.heads_only or other.heads_only,
        )

    def either(self, other: RowBounds) -> RowBounds:
        """Return bounds of all rows that fulfil one of both."""

        def joined(one: Texts | None, two: Texts | None) -> Texts | None:
            return None if one is None or two is None else one | two

        firsts, lasts = _known(self.first_id, other.first_id), _known(self.last_id, other.last_id)
        since, until = _known(self.since, other.since), _known(self.until, other.until)
        return RowBounds(
            joined(self.thread_ids, other.thread_ids),
            min(firsts, key=_bytes) if len(firsts) == _BOTH else None,
            max(lasts, key=_bytes) if len(lasts) == _BOTH else None,
            min(since) if len(since) == _BOTH else None,
            max(until) if len(until) == _BOTH else None,
            joined(self.channels, other.channels),
            self.heads_only and other.heads_only,
        )


ALL_ROWS = RowBounds()


def bounds_of(filters: Iterable[str]) -> RowBounds:
    """Return the bounds in the filters of one scan, as DuckDB prints them.

    A filter that is not understood bounds nothing.
    """
    return reduce(RowBounds.both, map(_bounds_in, filters), ALL_ROWS)


def _bounds_in(text: str) -> RowBounds:
    tokens = list(_tokens(text))
    try:
        found, rest = _disjunction(tokens, 0)
    except (_NotUnderstood, IndexError):
        return ALL_ROWS
    return found if rest == len(tokens) else ALL_ROWS


class _NotUnderstood(Exception):
    pass


_TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<word>[A-Za-z_][A-Za-z_0-9]*)|(?P<sign><=|>=|::|[()<>=,:])"
    r"|(?P<other>\S))"
)


def _tokens(text: str) -> Iterator[str]:
    return (found[found.lastgroup or "other"] for found in _TOKEN.finditer(text))


def columns_named_in(text: str) -> set[str]:
    """Return all words of a filter outside of its texts: the columns that it names, and others."""
    words = {one for one in _tokens(text) if not one.startswith("'")}
    return words | set(re.findall(r'"([^"]+)"', text))


def _disjunction(tokens: list[str], place: int) -> tuple[RowBounds, int]:
    found, place = _conjunction(tokens, place)
    while place < len(tokens) and tokens[place] == "OR":
        other, place = _conjunction(tokens, place + 1)
        found = found.either(other)
    return found, place


def _conjunction(tokens: list[str], place: int) -> tuple[RowBounds, int]:
    found, place = _condition(tokens, place)
    while place < len(tokens) and tokens[place] == "AND":
        other, place = _condition(tokens, place + 1)
        found = found.both(other)
    return found, place


def _condition(tokens: list[str], place: int) -> tuple[RowBounds, int]:
    if tokens[place] == "(":
        found, place = _disjunction(tokens, place + 1)
        if tokens[place] != ")":
            raise _NotUnderstood
        return found, place + 1
    if tokens[place : place + 2] == ["optional", ":"]:
        return _condition(tokens, place + 2)
    column = tokens[place]
    if column == "is_head":
        if tokens[place + 1 : place + 3] == ["=", "true"]:
            place += 2
        return RowBounds(heads_only=True), place + 1
    if column not in {"thread_id", "channel", "ts"}:
        raise _NotUnderstood
    if tokens[place + 1] == "IN":
        texts, place = _list(tokens, place + 2)
        return _equal(column, texts), place
    sign, value, place = tokens[place + 1], _text(tokens[place + 2]), place + 3
    if column == "ts":
        place = _end_of_time(tokens, place)
        return _time_bounds(sign, value), place
    if sign == "=":
        return _equal(column, frozenset({value})), place
    if column == "thread_id" and sign in {">", ">="}:
        return RowBounds(first_id=value), place
    if column == "thread_id" and sign in {"<", "<="}:
        return RowBounds(last_id=value), place
    raise _NotUnderstood


def _list(tokens: list[str], place: int) -> tuple[Texts, int]:
    if tokens[place] != "(":
        raise _NotUnderstood
    end = tokens.index(")", place) if ")" in tokens[place:] else len(tokens)
    inside = tokens[place + 1 : end]
    if any(one != "," for one in inside[1::2]) or end == len(tokens):
        raise _NotUnderstood
    return frozenset(map(_text, inside[::2])), end + 1


def _equal(column: str, texts: Texts) -> RowBounds:
    if column == "thread_id":
        return RowBounds(thread_ids=texts)
    if column == "channel":
        return RowBounds(channels=texts)
    raise _NotUnderstood


def _end_of_time(tokens: list[str], place: int) -> int:
    cast = ["::", "TIMESTAMP", "WITH", "TIME", "ZONE"]
    if tokens[place : place + len(cast)] != cast:
        raise _NotUnderstood
    return place + len(cast)


def _time_bounds(sign: str, text: str) -> RowBounds:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise _NotUnderstood from None
    if at.tzinfo is None:
        raise _NotUnderstood
    at = at.astimezone(UTC)
    match sign:
        case "=":
            return RowBounds(since=at, until=at)
        case ">" | ">=":
            return RowBounds(since=at)
        case "<" | "<=":
            return RowBounds(until=at)
    raise _NotUnderstood


def _text(token: str) -> str:
    if not token.startswith("'"):
        raise _NotUnderstood
    return token[1:-1].replace("''", "'")


def text_in_duckdb(text: str) -> str:
    """Return a text as DuckDB holds it: what is not Unicode becomes a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _known(*values: _Value | None) -> list[_Value]:
    return [one for one in values if one is not None]


def _bytes(text: str) -> bytes:
    return text.encode()


def _meet(one: Texts | None, two: Texts | None) -> Texts | None:
    if one is None or two is None:
        return two if one is None else one
    return one & two
