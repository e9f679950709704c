"""Tell why a value cannot be read, and whether a part of it cannot."""

from __future__ import annotations

from enum import Enum, auto

from ckpt_backends.codec.values import Cut, Opaque, Tagged, Value
from ckpt_backends.encryption import CHANGED, WRONG_KEY
from ckpt_cli.core.doctor.damage import is_damaged, is_encrypted, is_unread

_EXT_CODES = 8
"""LangGraph's ext types of msgpack have the codes from 0 to 7; a newer release may add some."""
_BROKEN = frozenset(f"ext:{code}" for code in range(_EXT_CODES))


class Readability(Enum):
    """Whether a stored value can be decoded, or why not."""

    READABLE = auto()
    DAMAGED = auto()
    CLOSED = auto()
    """It is encrypted, and there is no key or no library to decrypt it."""
    REFUSED = auto()
    """It is encrypted, and does not open with the key: either is wrong."""
    UNREAD = auto()
    """It is too long to read, or in a store that is not open."""
    FOREIGN = auto()
    """The layout does not store it, or another serializer wrote it."""


def readability(value: Value) -> Readability:
    """Return whether a value could be decoded."""
    if not isinstance(value, Opaque):
        return Readability.READABLE
    if is_damaged(value):
        return Readability.DAMAGED
    if is_encrypted(value):
        return Readability.REFUSED if value.reason in {WRONG_KEY, CHANGED} else Readability.CLOSED
    return Readability.UNREAD if is_unread(value) else Readability.FOREIGN


def is_broken_inside(value: Value) -> bool:
    """Return whether a part of a decoded value could not be read."""
    todo = [value]
    seen: set[int] = set()
    while todo:
        item = todo.pop()
        if isinstance(item, Opaque):
            return True
        if isinstance(item, Tagged):
            if item.type in _BROKEN:
                return True
            todo.append(item.payload)
        elif isinstance(item, Cut):
            todo.append(item.kept)
        elif isinstance(item, list | dict) and id(item) not in seen:
            seen.add(id(item))
            todo += item if isinstance(item, list) else item.values()
    return False
