"""Strict equality of values: `True`, `1` and `1.0` differ, NaN equals NaN, sets have no order."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeAlias

from ckpt_backends.codec.values import Cut, Tagged, Value

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

SETS = ("builtins.set", "builtins.frozenset")

_Holder: TypeAlias = list[Value] | dict[Value, Value] | Tagged | Cut
_HOLDERS = (list, dict, Tagged, Cut)


class Numbers:
    """Gives every value a number; two values have the same one exactly when they are equal.

    Values must not change while the object is in use.
    """

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._known: dict[int, tuple[Value, int]] = {}

    def __call__(self, value: Value) -> int:
        # Without recursion, since a value may be as deep as the decoder allows: first all that
        # holds something, from the outside in, then their numbers from the inside out.
        holders = [value] if isinstance(value, _HOLDERS) else []
        for holder in holders:
            if id(holder) not in self._known:
                holders += [part for part in _parts(holder) if isinstance(part, _HOLDERS)]
        for holder in reversed(holders):
            if id(holder) not in self._known:
                # Kept, since the id of a value that is gone is given to another.
                self._known[id(holder)] = (holder, self._number(self._shape(holder)))
        return self._of(value)

    def _of(self, value: Value) -> int:
        if isinstance(value, _HOLDERS):
            return self._known[id(value)][1]
        if isinstance(value, float):
            return self._number((float, value.hex()))
        return self._number((type(value), value))

    def _shape(self, value: _Holder) -> Hashable:
        if isinstance(value, list):
            return "list", tuple(map(self._of, value))
        if isinstance(value, dict):
            items = map(self._of, value.values())
            return "dict", frozenset(zip(map(self._of, value), items, strict=True))
        if isinstance(value, Cut):
            return "cut", self._of(value.kept), value.size, value.reason
        if is_set(value) and isinstance(value.payload, list):
            members = Counter(map(self._of, value.payload))
            return "set", value.type, frozenset(members.items())
        return "tagged", value.type, self._of(value.payload)

    def _number(self, shape: Hashable) -> int:
        return self._numbers.setdefault(shape, len(self._numbers))


def same(one: Value, other: Value) -> bool:
    """Whether two values are equal, strictly; stops at the first difference."""
    pairs = [(one, other)]
    for a, b in pairs:
        if a is b:
            continue
        if type(a) is not type(b):
            return False
        match a, b:
            case list(), list():
                if len(a) != len(b):
                    return False
                pairs += [pair for pair in zip(a, b, strict=True) if pair[0] is not pair[1]]
            case dict(), dict():
                if len(a) != len(b) or not (names := a.keys()) <= b.keys():
                    return False
                if not all(type(name) is str for name in names):
                    # 1, 1.0 and True are one key to Python.
                    if not _numbered(a, b):
                        return False
                    continue
                pairs += [(a[name], b[name]) for name in names]
            case Tagged(), Tagged():
                if a.type != b.type:
                    return False
                if not is_set(a):
                    pairs.append((a.payload, b.payload))
                elif not _numbered(a, b):
                    return False
            case float(), float():
                if a.hex() != b.hex():
                    return False
            case Cut(), Cut():
                if not _numbered(a, b):
                    return False
            case _:
                if a != b:
                    return False
    return True


def _numbered(one: Value, other: Value) -> bool:
    numbers = Numbers()
    return numbers(one) == numbers(other)


def is_set(value: Value) -> bool:
    """Whether a value is a Python set or frozenset."""
    return isinstance(value, Tagged) and value.type in SETS


def _parts(value: Value) -> Iterable[Value]:
    match value:
        case list():
            return value
        case dict():
            return (*value.keys(), *value.values())
        case Tagged():
            return (value.payload,)
        case Cut():
            return (value.kept,)
        case _:
            return ()
