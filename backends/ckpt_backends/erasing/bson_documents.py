"""Erases in BSON documents, such as the metadata of MongoDB's savers."""

from __future__ import annotations

import struct
from collections.abc import Callable

from ckpt_backends.codec.bson.documents import (
    BsonElement,
    bson_element,
    bson_elements,
    joined_document,
    typed,
    typed_leaf,
)
from ckpt_backends.erasing.changes import ChangedPlaces, Keys, Spot
from ckpt_backends.erasing.erasure import Erasure, Scalar
from ckpt_backends.model import TypedBytes

_DOUBLE, _STRING, _DOCUMENT, _ARRAY, _BINARY, _BOOL = 0x01, 0x02, 0x03, 0x04, 0x05, 0x08
_INTEGERS = frozenset({0x10, 0x12})
_BINARY_HEAD = 5
_DEEPEST = 100

EraseLeaf = Callable[[TypedBytes, Spot], TypedBytes]
"""Erases in a value that the saver serialized before it put it into the document."""


def erased_document(
    data: bytes, erasure: Erasure, spot: Spot, leaf: EraseLeaf, changed: ChangedPlaces
) -> bytes:
    """The document without what is erased. Raises ValueError if it is damaged."""
    return _Editor(data, erasure, leaf, changed).document(0, len(data), spot, is_list=False)


class _Editor:
    def __init__(
        self, data: bytes, erasure: Erasure, leaf: EraseLeaf, changed: ChangedPlaces
    ) -> None:
        self._data = data
        self._erasure = erasure
        self._leaf = leaf
        self._changed = changed

    def document(self, start: int, end: int, spot: Spot, *, is_list: bool) -> bytes:
        """The new bytes of the document or array between these offsets."""
        if len(spot.steps) > _DEEPEST:
            raise ValueError(f"nested deeper than {_DEEPEST} levels")
        made: list[bytes] = []
        keys = Keys(self._erasure)
        for one in bson_elements(self._data, start, end):
            key = one.name.decode("utf-8", "surrogateescape")
            step = int(key) if is_list and key.isdecimal() else key
            new = key if is_list else keys.new(key, spot.shape)
            if new != key:
                self._changed.steps.append((*spot.steps, new))
            shape = spot.shape.of(step)
            value = self._data[one.value : one.end]
            if shape is not None:
                value = self._value(one, spot.child(step, shape, new if new != key else step))
            made.append(bson_element(one.kind, new.encode("utf-8", "surrogateescape"), value))
        return joined_document(made)

    def _value(self, one: BsonElement, spot: Spot) -> bytes:
        stored = self._data[one.value : one.end]
        if one.kind == _STRING:
            return self._text(stored, spot)
        if one.kind == _DOCUMENT:
            return self.document(one.value, one.end, spot, is_list=False)
        if one.kind == _ARRAY:
            leaf = typed_leaf(self._data, one)
            if leaf is None:
                return self.document(one.value, one.end, spot, is_list=True)
            made = self._leaf(leaf, spot)
            return stored if made == leaf else typed(made)[1:]
        if one.kind == _BINARY:
            return self._binary(stored, spot)
        return self._scalar(one.kind, stored, spot)

    def _text(self, stored: bytes, spot: Spot) -> bytes:
        text = stored[4:-1].decode("utf-8", "surrogatepass")
        made = spot.replaced(text, self._erasure)
        if made is text:
            return stored
        self._changed.steps.append(spot.steps)
        data = made.encode("utf-8", "surrogatepass") + b"\0"
        return struct.pack("<i", len(data)) + data

    def _binary(self, stored: bytes, spot: Spot) -> bytes:
        """The bytes of a JSON text, as old savers store a leaf, or of anything else."""
        leaf = TypedBytes("json", stored[_BINARY_HEAD:])
        try:
            made = self._leaf(leaf, spot).data
        except ValueError:
            made = self._erasure.replaced_bytes(leaf.data)
            if made != leaf.data:
                self._changed.steps.append(spot.steps)
        return struct.pack("<i", len(made)) + stored[4:_BINARY_HEAD] + made

    def _scalar(self, kind: int, stored: bytes, spot: Spot) -> bytes:
        found: Scalar
        if kind == _DOUBLE:
            (found,) = struct.unpack("<d", stored)
        elif kind in _INTEGERS:
            found = int.from_bytes(stored, "little", signed=True)
        elif kind == _BOOL:
            found = stored != b"\0"
        else:
            return stored
        if any(not one.steps and one.is_at(found) for one in spot.scalars):
            self._changed.steps.append(spot.steps)
            return bytes(len(stored))
        return stored
