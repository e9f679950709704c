"""Dataclasses for what is built by the ten thousand and cannot be a `NamedTuple`.

Values of a store would be taken for tuples, and a `NamedTuple` has no subclass with more fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

_Made = TypeVar("_Made")


@dataclass_transform(frozen_default=True)
def statically_frozen(cls: type[_Made]) -> type[_Made]:
    """Make a dataclass with slots that the type checker takes for a frozen one.

    At run time nothing refuses an assignment: with `frozen=True`, each field is set by a call of
    `object.__setattr__`, and an object takes three to eight times as long to build. A class may
    define `__hash__` itself.
    """
    return dataclass(slots=True, unsafe_hash="__hash__" not in vars(cls))(cls)
