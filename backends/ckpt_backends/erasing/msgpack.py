"""Erases in msgpack. Only changed texts, and the headers around them, get other bytes."""

from __future__ import annotations

from bisect import bisect_left

from ckpt_backends.codec.msgpack.cursor import (
    ARRAY,
    BIN,
    EXT,
    MAP,
    READ_EXT,
    SCALAR,
    STR,
    end_of,
    read_header,
)
from ckpt_backends.codec.msgpack.lossless import pack_lossless, unpack_lossless
from ckpt_backends.erasing.changes import ChangedPlaces, Keys, Spot
from ckpt_backends.erasing.erasure import Erasure
from ckpt_backends.erasing.shapes import ANY, NAMED, SEND, Treatment

_FIELDS = frozenset({2, 4, 5})
"""Codes of objects whose content is a map of fields."""
_NUMPY, _SNAPSHOT = 6, 7
_CONTENT, _ARRAY_BYTES = 2, 3
"""The index of an object's content, and of an array's bytes."""
_FIXED = {1: 0xD4, 2: 0xD5, 4: 0xD6, 8: 0xD7, 16: 0xD8}
_SENDS = frozenset({"langgraph.types", "langgraph.constants"})


def erased_msgpack(data: bytes, erasure: Erasure, spot: Spot, changed: ChangedPlaces) -> bytes:
    """The value without what is erased; the same object if nothing is.

    Raises ValueError if it is damaged, and RecursionError if a hit is nested too deeply.
    """
    hits = erasure.hits(data)
    if not hits and not spot.scalars:
        return data
    made, end = _Editor(data, erasure, hits, changed).value(0, spot)
    if end != len(data):
        raise ValueError("bytes behind the end")
    return data if made == data else made


class _Editor:
    def __init__(
        self, data: bytes, erasure: Erasure, hits: list[int], changed: ChangedPlaces
    ) -> None:
        self._data = data
        self._erasure = erasure
        self._hits = hits
        self._changed = changed

    def value(self, pos: int, spot: Spot | None) -> tuple[bytes, int]:
        """The new bytes of the value at `pos`, and where the stored ones end. None keeps it."""
        data = self._data
        end = end_of(data, pos)
        if spot is None or not (spot.scalars or self._has_hit(pos, end)):
            return data[pos:end], end
        kind, start, length = read_header(data, pos)
        if kind == STR:
            return self._text(pos, start, end, spot), end
        if kind == BIN:
            return self._binary(pos, start, end, spot), end
        if kind == ARRAY:
            return data[pos:start] + self._items(start, length, spot), end
        if kind == MAP:
            return data[pos:start] + self._entries(start, length, spot), end
        if kind == EXT:
            return self._ext(pos, start, end, spot), end
        return self._scalar(pos, end, spot, is_scalar=kind == SCALAR), end

    def _has_hit(self, pos: int, end: int) -> bool:
        at = bisect_left(self._hits, pos)
        return at < len(self._hits) and self._hits[at] < end

    def _text(self, pos: int, start: int, end: int, spot: Spot) -> bytes:
        stored = self._data[start:end]
        try:
            text = stored.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return self._binary(pos, start, end, spot)
        made = spot.replaced(text, self._erasure)
        if made is text:
            return self._data[pos:end]
        self._changed.steps.append(spot.steps)
        return packed_text(made)

    def _binary(self, pos: int, start: int, end: int, spot: Spot) -> bytes:
        """Bytes of the same length."""
        stored = self._data[start:end]
        made = self._erasure.replaced_bytes(stored)
        if made == stored:
            return self._data[pos:end]
        self._changed.steps.append(spot.steps)
        return self._data[pos:start] + made

    def _items(self, pos: int, length: int, spot: Spot) -> bytes:
        made: list[bytes] = []
        for index in range(length):
            shape = spot.shape.of(index)
            one, pos = self.value(pos, None if shape is None else spot.child(index, shape))
            made.append(one)
        return b"".join(made)

    def _entries(self, pos: int, length: int, spot: Spot) -> bytes:
        made: list[bytes] = []
        keys = Keys(self._erasure)
        for _ in range(length):
            kind, start, size = read_header(self._data, pos)
            if kind == STR:
                end = start + size
                key = self._data[start:end].decode("utf-8", "surrogatepass")
                new = keys.new(key, spot.shape)
                shape = spot.shape.of(key)
                inner = None if shape is None else spot.child(key, shape, new)
                if new == key:
                    made.append(self._data[pos:end])
                else:
                    made.append(packed_text(new))
                    self._changed.steps.append((*spot.steps, new))
            else:
                stored, end = self.value(pos, Spot(steps=spot.steps))
                made.append(stored)
                name = _plain_key(self._data[pos:end])
                inner = None if spot.shape.others is None else spot.child(name, spot.shape.others)
            value, pos = self.value(end, inner)
            made.append(value)
        return b"".join(made)

    def _ext(self, pos: int, start: int, end: int, spot: Spot) -> bytes:
        code = self._data[start]
        if code not in READ_EXT or not self._is_value(start + 1, end):
            return self._binary(pos, start + 1, end, spot)
        if code == _SNAPSHOT:
            made, _ = self.value(start + 1, spot.inside(ANY))
        else:
            made = self._object(code, start + 1, end, spot)
        stored = self._data[start + 1 : end]
        return self._data[pos:end] if made == stored else packed_ext(code, made)

    def _is_value(self, pos: int, end: int) -> bool:
        """Whether the payload of an ext type is one value."""
        try:
            return end_of(self._data, pos) == end
        except ValueError:
            return False

    def _object(self, code: int, pos: int, end: int, spot: Spot) -> bytes:
        """The payload of an object: its names are kept, its content is not."""
        kind, start, length = read_header(self._data, pos)
        if kind != ARRAY or length <= _CONTENT:
            return self.value(pos, spot.inside(ANY))[0]
        made = [self._data[pos:start]]
        names: list[str] = []
        at = start
        for index in range(length):
            inner = None
            if code == _NUMPY:
                inner = spot.inside(ANY) if index == _ARRAY_BYTES else None
            elif index == _CONTENT:
                inner = spot.inside(_shape_of(code, names))
            value, after = self.value(at, inner)
            if index < _CONTENT:
                names.append(_name(self._data[at:after]))
            made.append(value)
            at = after
        if at != end:
            raise ValueError("bytes behind the end")
        return b"".join(made)

    def _scalar(self, pos: int, end: int, spot: Spot, *, is_scalar: bool) -> bytes:
        stored = self._data[pos:end]
        for one in spot.scalars:
            if is_scalar and not one.steps and one.is_at(unpack_lossless(stored)):
                self._changed.steps.append(spot.steps)
                return pack_lossless(one.marker)
        return stored


def _shape_of(code: int, names: list[str]) -> Treatment:
    if code in _FIELDS:
        return NAMED
    if names[1:] == ["Send"] and names[0] in _SENDS:
        return SEND
    return ANY


def _name(packed: bytes) -> str:
    kind, start, length = read_header(packed, 0)
    return packed[start : start + length].decode("utf-8", "replace") if kind == STR else ""


def _plain_key(packed: bytes) -> str | int:
    """A key that is no text, as a step of a path."""
    key = unpack_lossless(packed)
    return key if type(key) is int else str(key)


def packed_text(text: str) -> bytes:
    """A text as msgpack, also with lone surrogates."""
    data = text.encode("utf-8", "surrogatepass")
    size = len(data)
    if size < 32:
        return bytes([0xA0 | size]) + data
    for first, width in ((0xD9, 1), (0xDA, 2), (0xDB, 4)):
        if size < 1 << (8 * width):
            return bytes([first]) + size.to_bytes(width, "big") + data
    raise ValueError("a text of 4 GB")


def packed_ext(code: int, data: bytes) -> bytes:
    """An ext type with its payload."""
    size = len(data)
    if size in _FIXED:
        return bytes([_FIXED[size], code]) + data
    for first, width in ((0xC7, 1), (0xC8, 2), (0xC9, 4)):
        if size < 1 << (8 * width):
            return bytes([first]) + size.to_bytes(width, "big") + bytes([code]) + data
    raise ValueError("an object of 4 GB")
