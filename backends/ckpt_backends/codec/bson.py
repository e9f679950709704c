"""Decodes and edits BSON documents (https://bsonspec.org).

LangGraph's savers store metadata as a document with serialised leaves: up to release 0.2.1, a leaf
is the bytes of a JSON text; since 0.2.2 it is an array of the type tag and the bytes ("typed
leaf"). Nested documents stay documents. Other savers store plain values. One collection may contain
all three, so each leaf is examined.

No driver is used: archives are checked without one, an edit must keep the bytes of all other
entries, and a hostile document must not exceed the limits of depth, nodes and bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from ckpt_backends.codec.values import Cut, Opaque, PastLimit, Tagged, Value
from ckpt_backends.model import TypedBytes

if TYPE_CHECKING:
    from ckpt_backends.codec.values import Limits


_DOUBLE, _STRING, _DOCUMENT, _ARRAY, _BINARY = 0x01, 0x02, 0x03, 0x04, 0x05
_BOOL, _DATE, _NULL, _INT32, _INT64 = 0x08, 0x09, 0x0A, 0x10, 0x12
_FIXED = {
    **dict.fromkeys((_DOUBLE, _DATE, _INT64, 0x11), 8),
    **dict.fromkeys((0x06, _NULL, 0xFF, 0x7F), 0),
    **{0x07: 12, _BOOL: 1, _INT32: 4, 0x13: 16},
}
"""By kind, the length in bytes of values that have a fixed length."""
_NAMES = {
    0x06: "undefined",
    0x07: "objectid",
    0x0B: "regex",
    0x0C: "dbpointer",
    0x0D: "code",
    0x0E: "symbol",
    0x0F: "code_with_scope",
    0x11: "timestamp",
    0x13: "decimal128",
    0x7F: "maxkey",
    0xFF: "minkey",
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DEEPEST = 100
"""The servers' limit of nested levels."""
EMPTY = b"\x05\x00\x00\x00\x00"
JSON_TEXT = "bytes of a JSON text"
"""In place of the type tag of a leaf that has none."""

Decode = Callable[[TypedBytes], Value]


class BsonElement(NamedTuple):
    """The position of an entry in a document."""

    kind: int
    name: bytes
    start: int
    """Offset of the kind byte."""
    value: int
    end: int


def decode_bson(data: bytes, limits: Limits, decode: Decode | None) -> Value:
    """Decode a document.

    `decode` decodes the typed leaves; with None, all values are taken as plain BSON. Raises
    `PastLimit` if the document is too long, and ValueError if it is damaged.
    """
    if len(data) > limits.value_bytes:
        raise PastLimit(f"longer than {limits.value_bytes} bytes")
    reader = _Reader(data, limits.nodes, decode)
    found = reader.document(0, len(data), 0)
    return Cut(found, len(data), reader.past) if reader.past else found


class _Reader:
    """Decodes the elements of one document."""

    def __init__(self, data: bytes, nodes: int, decode: Decode | None) -> None:
        self._data = data
        self._left = nodes
        self._most = nodes
        self._decode = decode
        self.past = ""

    def document(self, start: int, end: int, depth: int) -> dict[Value, Value]:
        found: dict[Value, Value] = {}
        for one in self._elements(start, end, depth):
            found[one.name.decode("utf-8", "replace")] = self._value(one, depth)
        return found

    def _elements(self, start: int, end: int, depth: int) -> Iterator[BsonElement]:
        if depth > _DEEPEST:
            raise ValueError(f"nested deeper than {_DEEPEST} levels")
        for one in bson_elements(self._data, start, end):
            if self._left <= 0:
                self.past = f"more than {self._most} nodes"
                return
            self._left -= 1
            yield one

    def _value(self, one: BsonElement, depth: int) -> Value:
        data = self._data[one.value : one.end]
        match one.kind:
            case 0x02:
                return _text(data)
            case 0x03:
                return self.document(one.value, one.end, depth + 1)
            case 0x04:
                if self._decode and (leaf := typed_leaf(self._data, one)) is not None:
                    return self._decode(leaf)
                inside = self._elements(one.value, one.end, depth + 1)
                return [self._value(item, depth + 1) for item in inside]
            case 0x05:
                found = self._decode and self._decode(TypedBytes("json", data[5:]))
                return data[5:] if not self._decode or isinstance(found, Opaque) else found
            case 0x09:
                return _date(data)
            case 0x01:
                number: float = struct.unpack("<d", data)[0]
                return number
            case 0x10 | 0x12:
                return int.from_bytes(data, "little", signed=True)
            case 0x08:
                return data != b"\0"
            case 0x0A:
                return None
        return Tagged(f"bson.{_NAMES[one.kind]}", data)


def typed_leaf(data: bytes, one: BsonElement) -> TypedBytes | None:
    """The value of an array that consists of a type tag and bytes; None for other arrays."""
    items = list(bson_elements(data, one.value, one.end)) if one.end - one.value < len(data) else []
    if [item.kind for item in items] != [_STRING, _BINARY]:
        return None
    tag, value = items
    return TypedBytes(_text(data[tag.value : tag.end]), data[value.value + 5 : value.end])


def map_leaves(data: bytes, change: Callable[[TypedBytes], TypedBytes]) -> bytes:
    """The document with each typed leaf replaced by the result of `change`."""
    made: list[bytes] = []
    for one in bson_elements(data, 0, len(data)):
        stored = data[one.start : one.end]
        if one.kind == _DOCUMENT:
            inner = map_leaves(data[one.value : one.end], change)
            stored = bson_element(_DOCUMENT, one.name, inner)
        elif one.kind == _ARRAY and (leaf := typed_leaf(data, one)) is not None:
            changed = change(leaf)
            if changed is not leaf:
                stored = bson_element(_ARRAY, one.name, _typed_array(changed))
        made.append(stored)
    return joined_document(made)


def binaries(data: bytes) -> Iterator[tuple[str, str, bytes]]:
    """All binary values of a document, each with the name of its field and its type tag.

    The type tag is the field `type` of the document, or stands before the value in an array; it
    is `''` for other values. Raises ValueError if the document is damaged.
    """
    tags = [_tag(data, one) for one in bson_elements(data, 0, len(data)) if one.name == b"type"]
    for one in bson_elements(data, 0, len(data)):
        name = one.name.decode("utf-8", "replace")
        for tag, value in _binaries(data, one, "\n".join(tags), 0):
            yield name, tag, value


def _binaries(data: bytes, one: BsonElement, tag: str, depth: int) -> Iterator[tuple[str, bytes]]:
    if depth > _DEEPEST:
        raise ValueError(f"nested deeper than {_DEEPEST} levels")
    if one.kind == _BINARY:
        # An old binary (subtype 2) repeats its length.
        start = one.value + (9 if data[one.value + 4] == 2 else 5)
        yield tag, data[start : one.end]
    elif one.kind in (_DOCUMENT, _ARRAY):
        before = ""
        for inner in bson_elements(data, one.value, one.end):
            yield from _binaries(data, inner, before, depth + 1)
            before = _tag(data, inner) if one.kind == _ARRAY else ""


def _tag(data: bytes, one: BsonElement) -> str:
    """The text of an element that PyMongo reads as text: a string, symbol or code."""
    if one.kind in (_STRING, 0x0D, 0x0E):
        return _text(data[one.value : one.end])
    if one.kind == 0x0F:
        return _text(data[one.value + 4 : one.end])
    return ""


def texts(data: bytes) -> dict[str, str]:
    """The fields of a document that are texts. Raises ValueError if it is damaged."""
    elements = bson_elements(data, 0, len(data))
    return {one.name.decode("utf-8", "replace"): _tag(data, one) for one in elements}


def leaf_tags(data: bytes) -> frozenset[str]:
    """The types of a document's leaves: type tags, `JSON_TEXT`, and `''` for plain values."""
    found: set[str] = set()
    for one in bson_elements(data, 0, len(data)):
        if one.kind == _DOCUMENT:
            found |= leaf_tags(data[one.value : one.end])
        elif one.kind == _BINARY:
            found.add(JSON_TEXT)
        elif one.kind == _ARRAY and (leaf := typed_leaf(data, one)) is not None:
            found.add(leaf.type)
        else:
            found.add("")
    return frozenset(found)


def splice_bson(data: bytes, edits: Mapping[str, bytes | None]) -> bytes:
    """The document with some entries replaced, added or, with None, removed.

    An edit is the kind byte followed by the value bytes. All other entries keep their bytes.
    """
    made: list[bytes] = []
    found: set[str] = set()
    for one in bson_elements(data, 0, len(data)):
        name = one.name.decode("utf-8", "replace")
        if name not in edits:
            made.append(data[one.start : one.end])
        elif (value := edits[name]) is not None and name not in found:
            made.append(bson_element(value[0], one.name, value[1:]))
        found.add(name)
    for name, value in edits.items():
        if name not in found and value is not None:
            made.append(bson_element(value[0], name.encode(), value[1:]))
    return joined_document(made)


def document_of(entries: Mapping[str, bytes]) -> bytes:
    """A document of these entries, each a kind byte followed by the value bytes."""
    return joined_document(
        [bson_element(v[0], name.encode(), v[1:]) for name, v in entries.items()]
    )


def entries(data: bytes) -> dict[str, bytes]:
    """The entries of a document, each a kind byte followed by the value bytes.

    Raises ValueError if the document is damaged, a name is not UTF-8, or appears twice.
    """
    found: dict[str, bytes] = {}
    number = 0
    for one in bson_elements(data, 0, len(data)):
        found[one.name.decode()] = data[one.start : one.start + 1] + data[one.value : one.end]
        number += 1
    if len(found) != number:
        raise ValueError("a name appears twice")
    return found


def typed_leaves(data: bytes) -> bytes:
    """The document with each leaf that is the bytes of a JSON text as a typed leaf."""
    made: list[bytes] = []
    is_old = False
    for one in bson_elements(data, 0, len(data)):
        stored = data[one.start : one.end]
        if one.kind == _DOCUMENT:
            inner = data[one.value : one.end]
            if (typed_inner := typed_leaves(inner)) is not inner:
                is_old, stored = True, bson_element(_DOCUMENT, one.name, typed_inner)
        elif one.kind == _BINARY:
            leaf = TypedBytes("json", data[one.value + 5 : one.end])
            is_old, stored = True, bson_element(_ARRAY, one.name, _typed_array(leaf))
        made.append(stored)
    return joined_document(made) if is_old else data


def plain(value: object) -> bytes:
    """Kind byte and value bytes of a plain value. Raises TypeError for other types."""
    match value:
        case None:
            return bytes([_NULL])
        case bool():
            return bytes([_BOOL, value])
        case int():
            if -(1 << 31) <= value < 1 << 31:
                return bytes([_INT32]) + value.to_bytes(4, "little", signed=True)
            return bytes([_INT64]) + value.to_bytes(8, "little", signed=True)
        case str():
            return bytes([_STRING]) + _counted(value)
        case dict():
            inner = {str(key): plain(item) for key, item in value.items()}
            return bytes([_DOCUMENT]) + document_of(inner)
    raise TypeError(f"cannot convert a {type(value).__name__}")


def subdocument(document: bytes) -> bytes:
    """Kind byte and value bytes of a document inside another."""
    return bytes([_DOCUMENT]) + document


def binary(value: bytes) -> bytes:
    """Kind byte and value bytes of a binary."""
    return bytes([_BINARY]) + struct.pack("<i", len(value)) + b"\0" + value


def typed(value: TypedBytes) -> bytes:
    """Kind byte and value bytes of a typed leaf."""
    return bytes([_ARRAY]) + _typed_array(value)


def _typed_array(value: TypedBytes) -> bytes:
    return document_of({"0": plain(value.type), "1": binary(value.data)})


def bson_elements(data: bytes, start: int, end: int) -> Iterator[BsonElement]:
    """Yield the entries of the document between two offsets. Raises ValueError."""
    if end - start < 5 or int.from_bytes(data[start : start + 4], "little") != end - start:
        raise ValueError("wrong document length")
    pos, last = start + 4, end - 1
    while pos < last:
        kind, name_end = data[pos], data.find(b"\0", pos + 1, last)
        if name_end < 0:
            raise ValueError(f"no name at byte {pos}")
        value = name_end + 1
        stop = value + _length(data, kind, value, last)
        if stop > last:
            raise ValueError(f"a value at byte {value} exceeds its document")
        yield BsonElement(kind, data[pos + 1 : name_end], pos, value, stop)
        pos = stop
    if data[last]:
        raise ValueError("document without an end")


def _length(data: bytes, kind: int, pos: int, last: int) -> int:
    """Length in bytes of the value at `pos`."""
    if kind in _FIXED:
        return _FIXED[kind]
    if kind == 0x0B:
        first = data.find(b"\0", pos, last)
        second = data.find(b"\0", first + 1, last)
        if first < 0 or second < 0:
            raise ValueError("regular expression without an end")
        return second + 1 - pos
    if kind not in _NAMES and kind not in (_STRING, _DOCUMENT, _ARRAY, _BINARY):
        raise ValueError(f"kind {kind:#x} is not known")
    size = int.from_bytes(data[pos : pos + 4], "little", signed=True)
    if size < 0:
        raise ValueError("a negative length")
    if kind in (_DOCUMENT, _ARRAY, 0x0F):
        return max(size, 4)
    if kind == _BINARY:
        return 5 + size
    return 4 + size + (12 if kind == 0x0C else 0)


def joined_document(elements: list[bytes]) -> bytes:
    """The document of some whole elements."""
    body = b"".join(elements)
    return struct.pack("<i", len(body) + 5) + body + b"\0"


def bson_element(kind: int, name: bytes, value: bytes) -> bytes:
    """One element of a document."""
    return bytes([kind]) + name + b"\0" + value


def _counted(text: str) -> bytes:
    data = text.encode("utf-8", "surrogatepass") + b"\0"
    return struct.pack("<i", len(data)) + data


def _text(data: bytes) -> str:
    return data[4:-1].decode("utf-8", "replace")


def _date(data: bytes) -> Value:
    number = int.from_bytes(data, "little", signed=True)
    try:
        return Tagged("datetime.datetime", (_EPOCH + timedelta(milliseconds=number)).isoformat())
    except OverflowError:
        return Tagged("bson.date", number)
