"""The rows of a result as records: plain JSON values, with values of type JSON as they are."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING, Any

from ckpt_backends.errors import UsageError
from ckpt_cli.render.table import iso

if TYPE_CHECKING:
    from ckpt_cli.sql.database import BoundedAnswer

_AT_ONCE = 1_000
_EXACT = 2**53
_DIGITS = 15
"""Digits that a JSON number keeps."""


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """One column of a result."""

    key: str
    """Unique: of columns with one name, the second is `NAME_2`."""
    type: str


class QueryResult:
    """The rows of a query, read once."""

    def __init__(self, result: BoundedAnswer) -> None:
        described = result.description or []
        self.columns = tuple(_columns([(one[0], str(one[1])) for one in described]))
        self._converts = [_converter(one[1]) for one in described]
        self._result = result

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the rows. Raises `UsageError` for a value that is too large to be shown."""
        keys = [one.key for one in self.columns]
        try:
            while rows := self._result.fetchmany(_AT_ONCE):
                for row in rows:
                    found = {
                        key: None if value is None else convert(value)
                        for key, convert, value in zip(keys, self._converts, row, strict=True)
                    }
                    yield found
        except OverflowError as error:
            # Times and intervals of DuckDB reach further than those of Python.
            raise UsageError(
                "the answer has a time or an interval that is too large to be shown",
                hint="cast it: CAST(... AS VARCHAR)",
            ) from error


def _columns(described: Sequence[tuple[str, str]]) -> Iterator[ResultColumn]:
    taken: set[str] = set()
    for name, type_name in described:
        key, number = name, 2
        while key in taken:
            key, number = f"{name}_{number}", number + 1
        taken.add(key)
        yield ResultColumn(key, type_name)


def _converter(kind: Any) -> Callable[[Any], Any]:
    """Return what turns a value of a DuckDB type into JSON."""
    if str(kind) == "JSON":
        return _parsed
    children = dict(kind.children) if kind.id in {"list", "array", "struct", "map"} else {}
    if kind.id in {"list", "array"}:
        inner = _converter(next(iter(children.values())))
        return lambda found: [None if one is None else inner(one) for one in found]
    if kind.id == "struct":
        fields = {name: _converter(one) for name, one in children.items()}
        return lambda found: {
            name: None if found[name] is None else convert(found[name])
            for name, convert in fields.items()
        }
    return plain_value


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def plain_value(value: Any) -> Any:
    """Return a value of DuckDB as JSON; what JSON cannot hold as in `docs/json.md`."""
    match value:
        case bool() | str() | None:
            return value
        case int():
            return value if abs(value) < _EXACT else {"$int": str(value)}
        case float():
            return value if isfinite(value) else {"$float": _special(value)}
        case Decimal():
            exact = len(value.as_tuple().digits) <= _DIGITS
            return float(value) if exact else str(value)
        case datetime():
            return iso(value.astimezone(UTC)) if value.tzinfo else value.isoformat()
        case date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case bytes():
            return {"$bytes": b64encode(value).decode()}
        case dict():
            return {str(key): plain_value(one) for key, one in value.items()}
        case list() | tuple():
            return [plain_value(one) for one in value]
    return str(value)


def _special(value: float) -> str:
    if value != value:  # noqa: PLR0124
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
