"""Values that a layout stores in several parts, merged when they are read.

The three-table layouts store such values. The type tag `merged` is internal; no saver writes it.
Parts are merged in order: lists are joined, dicts are updated, and of other values the last part
counts. A list part that begins with the whole merged list replaces it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator

from ckpt_backends.codec.values import Cut, Opaque, Tagged, Value
from ckpt_backends.model import TypedBytes

MERGED = "merged"
_HEAD = struct.Struct(">HQ")


def merged(parts: Iterable[TypedBytes]) -> TypedBytes:
    """Pack parts, oldest first, into one value. It is encrypted if one of them is encrypted."""
    some = list(parts)
    tag = MERGED + ("+aes" if any(one.type.endswith("+aes") for one in some) else "")
    return TypedBytes(tag, b"".join(map(_packed, some)))


def packed_parts(data: bytes) -> Iterator[TypedBytes]:
    """The parts of a value that `merged` packed. Raises ValueError for other data."""
    pos = 0
    while pos < len(data):
        if len(data) < pos + _HEAD.size:
            raise ValueError("a part without an end")
        tag_length, length = _HEAD.unpack_from(data, pos)
        start = pos + _HEAD.size + tag_length
        if len(data) < start + length:
            raise ValueError("a part without an end")
        tag = data[pos + _HEAD.size : start].decode("utf-8", "surrogateescape")
        yield TypedBytes(tag, data[start : start + length])
        pos = start + length


def decode_merged(data: bytes, decode: Callable[[TypedBytes], Value]) -> Value:
    """The merged value. Raises ValueError if a part cannot be read."""
    found: Value = None
    for place, part in enumerate(packed_parts(data)):
        value = decode(part)
        if isinstance(value, Opaque):
            raise ValueError(f"one of its parts cannot be read: {value.reason}")
        if isinstance(value, Cut):
            raise ValueError(f"one of its parts is too long: {value.reason}")
        found = value if place == 0 else _with(found, value)
    return found


def _with(before: Value, part: Value) -> Value:
    if isinstance(before, list) and isinstance(part, list):
        if part[: len(before)] == before:
            return part
        return [*before, *part]
    if isinstance(before, dict) and isinstance(part, dict):
        return {**before, **part}
    return part


def how_merged(value: Value) -> str:
    """The reducer that is assumed for the channel of such a value."""
    if isinstance(value, dict):
        return "dict_merge"
    return "append" if isinstance(value, list) else "last_value"


def are_new_messages(before: Value, after: Value) -> bool:
    """Whether both are lists of messages and none of the earlier messages is in `after`.

    `after` then contains only new messages. (No known channel drops all its messages at each step.)
    """
    return (
        isinstance(before, list)
        and isinstance(after, list)
        and bool(before and after)
        and all(map(_is_message, (*before, *after)))
        and not any(item in after for item in before)
    )


def _is_message(item: Value) -> bool:
    fields = item.payload if isinstance(item, Tagged) else item
    if isinstance(item, Tagged) and not item.type.rpartition(".")[2].endswith("Message"):
        return False
    return (
        isinstance(fields, dict) and "content" in fields and bool({"role", "type"} & fields.keys())
    )


def _packed(part: TypedBytes) -> bytes:
    tag = part.type.encode("utf-8", "surrogateescape")
    return _HEAD.pack(len(tag), len(part.data)) + tag + part.data
