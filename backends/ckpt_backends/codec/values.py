"""Inert values: what decoding yields. Plain Python values, and three kinds of node.

Nothing here refers to a class that a store names; a class is only ever its name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

Value: TypeAlias = (
    "bool | int | float | str | bytes | list[Value] | dict[Value, Value]"
    " | Tagged | Opaque | Cut | None"
)


@dataclass(frozen=True, slots=True)
class Tagged:
    """An object of a class that is not imported.

    `payload` is a dict of its fields by name, a list of positional arguments, or the single
    argument that it was made from. `builtins.set` and `datetime.datetime` (ISO 8601 text) are
    Tagged too.
    """

    type: str
    """`module.Class`."""
    payload: Value

    def __hash__(self) -> int:
        return hash(self.type)


@dataclass(frozen=True, slots=True)
class Opaque:
    """A value that could not be read, or is of an unknown kind."""

    type: str
    """The type tag it was stored under."""
    size: int
    """Bytes."""
    sha256: str
    """In hex; empty where the bytes were not read, or may not be told."""
    reason: str


@dataclass(frozen=True, slots=True)
class Cut:
    """A value past a limit: its beginning, and how much there is in all."""

    kept: Value
    size: int
    """Bytes of the whole value as stored."""
    reason: str

    def __hash__(self) -> int:
        return hash((self.size, self.reason))


TUPLE = "builtins.tuple"
"""Type of the `Tagged` that is a tuple, which only pickles tell from a list."""


def items_of(value: Value) -> list[Value] | None:
    """The items of a list or of a tuple; None for any other value."""
    if isinstance(value, Tagged) and value.type == TUPLE:
        value = value.payload
    return value if isinstance(value, list) else None


REDIS_JSON = "redis-json"
"""Tag of JSON with the own marks of LangGraph's saver for Redis in it, such as `__interrupt__`."""
JSON_TYPES = frozenset({"json", REDIS_JSON})
"""Type tags of JSON texts, which differ in what stands for values that JSON does not have."""

UNDEFINED = Tagged("javascript.undefined", None)
"""JavaScript's `undefined`, which is not its `null`."""

DELTA_SNAPSHOT = "langgraph.DeltaSnapshot"
"""Type of the `Tagged` that wraps a DeltaChannel's snapshot."""
