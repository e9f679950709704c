"""Which rows of a table a query can use, as far as the filters of its plan tell for certain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from typing import Any, TypeAlias, TypeVar

from ckpt_backends.model import Thread

Texts: TypeAlias = frozenset[str]
_Value = TypeVar("_Value")
_BOTH = 2
_GREATER = ("COMPARE_GREATERTHAN", "COMPARE_GREATERTHANOREQUALTO")
_LESS = ("COMPARE_LESSTHAN", "COMPARE_LESSTHANOREQUALTO")


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


def bounds_in(condition: Any) -> RowBounds:
    """Return the bounds in a condition, in the form of `json_serialize_sql`.

    What is not understood bounds nothing.
    """
    match condition:
        case {"type": "CONJUNCTION_AND", "children": [*parts]}:
            return reduce(RowBounds.both, map(bounds_in, parts), ALL_ROWS)
        case {"type": "CONJUNCTION_OR", "children": [*parts]}:
            return reduce(RowBounds.either, map(bounds_in, parts))
        case {"column_names": ["is_head"]} | {
            "type": "COMPARE_EQUAL",
            "left": {"column_names": ["is_head"]},
            "right": {"literal": {"text": "true"}},
        }:
            return RowBounds(heads_only=True)
        case {"type": "COMPARE_IN", "children": [{"column_names": [column]}, *values]}:
            return _equal(column, list(map(_text, values)))
        case {"type": "COMPARE_EQUAL", "left": {"column_names": [column]}, "right": right} if (
            column != "ts"
        ):
            return _equal(column, [_text(right)])
        case {"type": str(sign), "left": {"column_names": ["thread_id"]}, "right": right}:
            return _id_bounds(sign, _text(right))
        case {
            "type": str(sign),
            "left": {"column_names": ["ts"]},
            "right": {"child": right, "type_expr": {"type_name": "TIMESTAMP WITH TIME ZONE"}},
        }:
            return _time_bounds(sign, _text(right))
    return ALL_ROWS


def columns_in(condition: Any) -> set[str]:
    """Return the names of all columns in a condition, and of fields inside them."""
    if isinstance(condition, list):
        return set().union(*map(columns_in, condition))
    if not isinstance(condition, dict):
        return set()
    return columns_in(list(condition.values())).union(condition.get("column_names", ()))


def _text(value: Any) -> str | None:
    """Return a text that stands in a query; None for anything else."""
    match value:
        case {"type": "VALUE_CONSTANT", "literal": {"kind": "STRING", "text": str(text)}}:
            return text
    return None


def _equal(column: str, texts: Sequence[str | None]) -> RowBounds:
    known = frozenset(one for one in texts if one is not None)
    if len(known) < len(set(texts)):
        return ALL_ROWS
    if column == "thread_id":
        return RowBounds(thread_ids=known)
    return RowBounds(channels=known) if column == "channel" else ALL_ROWS


def _id_bounds(sign: str, text: str | None) -> RowBounds:
    if sign in _GREATER:
        return RowBounds(first_id=text)
    return RowBounds(last_id=text) if sign in _LESS else ALL_ROWS


def _time_bounds(sign: str, text: str | None) -> RowBounds:
    try:
        at = datetime.fromisoformat(text or "")
    except ValueError:
        return ALL_ROWS
    if at.tzinfo is None:
        return ALL_ROWS
    at = at.astimezone(UTC)
    since = at if sign in {"COMPARE_EQUAL", *_GREATER} else None
    until = at if sign in {"COMPARE_EQUAL", *_LESS} else None
    return RowBounds(since=since, until=until)


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
