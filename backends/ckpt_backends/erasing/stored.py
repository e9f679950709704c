"""The values of one stored row or part, as an erasure takes them one after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from ckpt_backends.changes.rows import Row
from ckpt_backends.model import TypedBytes


class ValueKind(StrEnum):
    """What a stored value is."""

    BODY = "body"
    METADATA = "metadata"
    WHOLE = "whole"
    """A map with the entries `checkpoint`, a body, and `metadata`."""
    VALUE = "value"
    """The value of a channel, stored outside of bodies."""
    WRITE = "write"
    WHOLE_WRITE = "whole write"
    """A list of the task's id, the channel and the value."""


@dataclass(frozen=True, slots=True)
class PlacedValue:
    """One value with its place."""

    kind: ValueKind
    value: TypedBytes
    place: str
    """What no other value of the store has."""
    channel: str = ""


@dataclass(frozen=True, slots=True)
class RowRewrite:
    """A stored row with the contents that it is to have."""

    stored: Row
    new: Row


EraseStored: TypeAlias = Callable[[PlacedValue], TypedBytes]
"""Returns the value as it is to be stored; the same object if nothing changes."""
EditRow: TypeAlias = Callable[[str, Row, EraseStored], Row]
"""Maps a layout, a row and the change of its values to the new row; the same one if it is equal."""
