"""Strict equality of values: `True`, `1` and `1.0` differ, NaN equals NaN, sets have no order."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ckpt_backends.codec.values import Cut, Opaque, Tagged, Value

if TYPE_CHECKING:
    from collections.abc import Hashable

SETS = ("builtins.set", "builtins.frozenset")


class Numbers:
    """Gives every value a number; two values have the same one exactly when they are equal.

    Values must not change while the object is in use.
    """

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._known: dict[int, tuple[Value, int]] = {}

    def __call__(self, value: Value) -> int:
        if not isinstance(value, list | dict | Tagged | Cut):
            return self._number(_leaf(value))
        known = self._known.get(id(value))
        if known is not None:
            return known[1]
        number = self._number(self._inside(value))
        # The value is kept, since the id of a value that is gone is given to another.
        self._known[id(value)] = (value, number)
        return number

    def _inside(self, value: list[Value] | dict[Value, Value] | Tagged | Cut) -> Hashable:
        if isinstance(value, list):
            return "list", tuple([self(item) for item in value])
        if isinstance(value, dict):
            return "dict", frozenset([(self(key), self(item)) for key, item in value.items()])
        if isinstance(value, Cut):
            return "cut", self(value.kept), value.size, value.reason
        if is_set(value) and isinstance(value.payload, list):
            members = Counter(self(item) for item in value.payload)
            return "set", value.type, frozenset(members.items())
        return "tagged", value.type, self(value.payload)

    def _number(self, shape: Hashable) -> int:
        return self._numbers.setdefault(shape, len(self._numbers))


def same(one: Value, other: Value) -> bool:
    """Whether two values are equal, strictly."""
    numbers = Numbers()
    return numbers(one) == numbers(other)


def is_set(value: Value) -> bool:
    """Whether a value is a Python set or frozenset."""
    return isinstance(value, Tagged) and value.type in SETS


def _leaf(value: bool | int | float | str | bytes | Opaque | None) -> Hashable:
    if isinstance(value, float):
        return "float", value.hex()
    return type(value).__name__, value
