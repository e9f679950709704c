"""Tell damaged values from values that only this run cannot read."""

from __future__ import annotations

from enum import Enum, auto

from ckpt_backends.codec.values import Cut, Opaque, Tagged, Value
from ckpt_backends.encryption import DAMAGED, WRONG_KEY, is_encrypted
from ckpt_backends.model import TypedBytes
from ckpt_cli.core.channels import NOT_STORED

_EXT_CODES = 8
"""LangGraph's ext types of msgpack have the codes from 0 to 7; a newer release may add some."""
_BROKEN = frozenset(f"ext:{code}" for code in range(_EXT_CODES))
_KNOWN = frozenset(
    {"msgpack", "json", "redis-json", "pickle", "bson", "bson-plain", "merged", "null", "empty"}
)
"""Type tags that ckpt decodes and that can be damaged."""


class Readability(Enum):
    """Whether a stored value can be decoded, or why not."""

    READABLE = auto()
    DAMAGED = auto()
    CLOSED = auto()
    """It is encrypted, and there is no key or no library to decrypt it."""
    REFUSED = auto()
    """It is encrypted, and does not open with the key: either is wrong."""
    UNREAD = auto()
    """It is too long to read."""
    FOREIGN = auto()
    """The layout does not store it, or another serializer wrote it."""


def readability(typed: TypedBytes | None, value: Value) -> Readability:
    """Return whether a value, decoded from `typed`, could be read."""
    if typed is None or not isinstance(value, Opaque):
        return Readability.READABLE
    if typed.whole is not None and not typed.encrypted:
        return Readability.UNREAD
    if is_encrypted(typed) and typed.problem:
        if typed.problem == WRONG_KEY:
            return Readability.REFUSED
        is_cut = typed.problem.startswith(DAMAGED)
        return Readability.DAMAGED if is_cut else Readability.CLOSED
    if value.reason.startswith(NOT_STORED):
        return Readability.FOREIGN
    if typed.problem or typed.type in _KNOWN:
        return Readability.DAMAGED
    return Readability.FOREIGN


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
