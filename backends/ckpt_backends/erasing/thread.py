"""Erases in a thread, row by row, and counts what changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256

from ckpt_backends.codec.values import CHANNELS
from ckpt_backends.encryption import NO_KEY, has_encrypted_parts, is_encrypted, map_parts
from ckpt_backends.erasing.formats import (
    ANY,
    ANY_STEP,
    BODY,
    EDGES,
    METADATA,
    ChangedPlaces,
    Erasure,
    ScalarPlace,
    Spot,
    Steps,
    Treatment,
    erased_value,
)
from ckpt_backends.model import TypedBytes
from ckpt_backends.rows import PlacedValue, Row, RowEdit, ValueKind
from ckpt_backends.transfer.copying import edited_rows
from ckpt_backends.transfer.form import CannotHold
from ckpt_backends.transfer.sealing import WithKeys

_WHOLE, _METADATA = "checkpoint", "metadata"
_NODE_WRITES = "writes"
_WRITTEN = 2
"""The index of the value in a write of a whole task."""
_INPUT = "__start__"
"""The channel whose value is a dict of the input of each channel."""
_SHAPES: dict[ValueKind, Treatment] = {
    ValueKind.BODY: BODY,
    ValueKind.METADATA: METADATA,
    ValueKind.WHOLE: Treatment({_WHOLE: BODY, _METADATA: METADATA}),
    ValueKind.VALUE: ANY,
    ValueKind.WRITE: ANY,
    ValueKind.WHOLE_WRITE: Treatment({_WRITTEN: ANY}),
}

_OF_CHECKPOINT = frozenset({ValueKind.BODY, ValueKind.METADATA, ValueKind.WHOLE})


@dataclass(frozen=True, slots=True)
class ChangedPath:
    """A place in the values of a thread."""

    place: str
    """`value`, `write` or `metadata`."""
    channel: str
    """`''` for metadata."""
    path: Steps


@dataclass(slots=True)
class ErasureCounts:
    """What changes in a thread."""

    checkpoints: int = 0
    writes: int = 0
    values: int = 0
    """Values of channels that are stored outside of checkpoints."""
    places: Counter[ChangedPath] = field(default_factory=Counter)
    """With the number of checkpoints, writes or values that have it."""

    def add(self, kind: ValueKind) -> None:
        """Count one changed checkpoint, write or value."""
        if kind in _OF_CHECKPOINT:
            self.checkpoints += 1
        elif kind is ValueKind.VALUE:
            self.values += 1
        else:
            self.writes += 1


def _place(kind: ValueKind, channel: str, steps: Steps) -> ChangedPath:
    if kind is ValueKind.WHOLE:
        kind = ValueKind.METADATA if steps[:1] == (_METADATA,) else ValueKind.BODY
        steps = steps[1:]
    if kind is ValueKind.METADATA:
        return ChangedPath("metadata", "", steps)
    if kind is ValueKind.BODY:
        inner = steps[1:] if steps[:1] == (CHANNELS,) else steps
        return ChangedPath("value", str(inner[0]) if inner else "", inner)
    if kind is ValueKind.WHOLE_WRITE:
        steps = (channel, *steps[1:])
    return ChangedPath("value" if kind is ValueKind.VALUE else "write", channel, steps)


class ThreadEraser:
    """Erases in the rows of one thread. Each object reads a thread once."""

    def __init__(self, layout: str, erasure: Erasure, keys: WithKeys | None) -> None:
        self._layout = layout
        self._erasure = erasure
        self._keys = keys
        self._found: list[tuple[ValueKind, str, ChangedPlaces]] = []
        self.counts = ErasureCounts()
        self.rows = 0
        self._sum = 0

    @property
    def digest(self) -> tuple[int, int]:
        """The number of rows and a sum that differs if one of them does."""
        return self.rows, self._sum

    def edits(self, rows: Iterable[Row]) -> Iterator[RowEdit]:
        """Yield what is to be written. Raises `CannotHold` for a value that cannot be read."""
        for one in edited_rows(self._layout, rows, self.erased):
            self._add(_row_digest(one.stored))
            if one.new is not one.stored:
                self._count()
                yield one

    def _add(self, digest: bytes) -> None:
        self.rows += 1
        self._sum = (self._sum + int.from_bytes(digest, "big")) % (1 << 256)

    def _count(self) -> None:
        """Count the changes of one row: body and metadata are one checkpoint."""
        has_checkpoint = False
        for kind, channel, changed in self._found:
            is_checkpoint = kind in _OF_CHECKPOINT
            if not (is_checkpoint and has_checkpoint):
                self.counts.add(kind)
            has_checkpoint |= is_checkpoint
            self.counts.places.update({_place(kind, channel, one) for one in changed.steps})
        self._found.clear()

    def erased(self, stored: PlacedValue) -> TypedBytes:
        """A value as it is to be stored; the same object if nothing changes.

        Raises `CannotHold` for a value that cannot be read or that no key opens.
        """
        if stored.value.type == "empty" or stored.channel.startswith(EDGES):
            return stored.value
        if stored.kind is ValueKind.METADATA and has_encrypted_parts(stored.value):
            return self._encrypted_parts(stored)
        if is_encrypted(stored.value):
            return self._encrypted(stored, stored.value, self._spot(stored))
        return self._erased(stored, stored.value, self._spot(stored))

    def _erased(self, stored: PlacedValue, value: TypedBytes, spot: Spot) -> TypedBytes:
        """A value, or a part of it; the same object if nothing changes, else that is noted."""
        changed = ChangedPlaces()
        made = erased_value(value, self._erasure, spot, changed, stored.named)
        if made is not value:
            self._found.append((stored.kind, stored.channel, changed))
        return made

    def _encrypted(self, stored: PlacedValue, value: TypedBytes, spot: Spot) -> TypedBytes:
        if self._keys is None:
            raise CannotHold(f"{stored.named} is {NO_KEY}")
        opened, _ = self._keys.opened_with(value, stored.named)
        plain = opened._replace(encrypted=False)
        made = self._erased(stored, plain, spot)
        if made is plain:
            return value
        return self._keys.sealed(made, stored.place, was_encrypted=opened.encrypted)

    def _encrypted_parts(self, stored: PlacedValue) -> TypedBytes:
        """Metadata whose leaves or fields are encrypted one by one."""

        def change(leaf: TypedBytes) -> TypedBytes:
            erase = self._encrypted if is_encrypted(leaf) else self._erased
            return erase(stored, leaf, Spot())

        made = map_parts(stored.value, change)
        if stored.value.type == "json":
            made = self._erased(stored, made, self._spot(stored))  # the other fields
        return stored.value if made.data == stored.value.data else made

    def _spot(self, stored: PlacedValue) -> Spot:
        """Where a value begins, with the numbers that are erased in it."""
        shape = _SHAPES[stored.kind]
        if stored.kind is ValueKind.BODY:
            return Spot(shape, (), self._below((CHANNELS,)))
        if stored.kind is ValueKind.WHOLE:
            in_metadata = self._written((_METADATA, _NODE_WRITES, ANY_STEP))
            return Spot(shape, (), (*self._below((_WHOLE, CHANNELS)), *in_metadata))
        if stored.kind is ValueKind.METADATA:
            # Up to LangGraph 0.5, metadata have what each node wrote.
            return Spot(shape, (), tuple(self._written((_NODE_WRITES, ANY_STEP))))
        before: Steps = (_WRITTEN,) if stored.kind is ValueKind.WHOLE_WRITE else ()
        if stored.channel == _INPUT:
            scalars = self._written(before)
        elif stored.kind is ValueKind.VALUE:
            scalars = [
                ScalarPlace(one.steps[1:], one.value)
                for one in self._erasure.scalars
                if one.steps[0] == stored.channel
            ]
        else:
            scalars = [
                ScalarPlace((*before, *steps), one.value)
                for one in self._erasure.scalars
                if one.steps[0] == stored.channel
                for steps in _in_writes(one.steps[1:])
            ]
        return Spot(shape, () if before else (stored.channel,), tuple(scalars))

    def _below(self, before: Steps) -> tuple[ScalarPlace, ...]:
        """The places below the values of channels, and those in the input."""
        own = [ScalarPlace((*before, *one.steps), one.value) for one in self._erasure.scalars]
        return (*own, *self._written((*before, _INPUT)))

    def _written(self, before: Steps) -> list[ScalarPlace]:
        """The places in a dict of what was written to each channel."""
        return [
            ScalarPlace((*before, one.steps[0], *steps), one.value)
            for one in self._erasure.scalars
            for steps in _in_writes(one.steps[1:])
        ]


def _in_writes(steps: Steps) -> list[Steps]:
    """The steps, behind the channel, of the same value in a write.

    A write to a list has the new items only, or a single one.
    """
    if steps and isinstance(steps[0], int):
        return [(ANY_STEP, *steps[1:]), steps[1:]]
    return [steps]


def _row_digest(row: Row) -> bytes:
    """The digest of a row without its time of expiry."""
    found = sha256(row.table.encode())
    for name, cell in row.cells.items():
        if name != "expires_at":
            data = cell if isinstance(cell, bytes) else repr(cell).encode("utf-8", "surrogatepass")
            found.update(f"\0{name}\0{len(data)}\0".encode("utf-8", "surrogatepass"))
            found.update(data)
    return found.digest()
