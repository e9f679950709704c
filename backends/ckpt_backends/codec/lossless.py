"""Decodes values for rewriting. Encoding the decoded value again gives the same bytes."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from ckpt_backends.codec.cursor import depth_bound, skip
from ckpt_backends.codec.values import (
    DEFAULT_LIMITS,
    JSON_TYPES,
    Cut,
    Opaque,
    PastLimit,
    Tagged,
    Value,
)
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import TypedBytes

if TYPE_CHECKING:
    import ormsgpack

# Decodes JSON texts and writes them again in the same spelling.


_SPELLINGS = tuple(product(((", ", ": "), (",", ":")), (False, True)))
"""The separators of a JSON text, and whether non-ASCII text is escaped."""


def load_lossless(data: bytes) -> Any:
    """The value without any conversion. Raises ValueError and `PastLimit`."""
    from ckpt_backends.codec.json import check

    text = data.decode("utf-8", "surrogatepass")
    check(text, DEFAULT_LIMITS)
    return json.loads(text)


def dump_like(value: Any, like: bytes) -> bytes:
    """The JSON text of a value in the spelling of `like`. Raises TypeError and ValueError."""
    stored = load_lossless(like) if like else None
    for spelling in _SPELLINGS:
        if not like or _dump(stored, *spelling) == like:
            return _dump(value, *spelling)
    raise ValueError("unknown number format")


def _dump(value: Any, separators: tuple[str, str], escaped: bool) -> bytes:
    text = json.dumps(value, ensure_ascii=escaped, separators=separators)
    return text.encode("utf-8", "surrogatepass")


# Decodes msgpack with ext types as stored, so that encoding gives the same bytes again.


@dataclass(frozen=True, slots=True)
class Ext:
    """A msgpack ext type with its payload as stored."""

    code: int
    data: bytes


# ormsgpack is imported late: what only lists threads decodes nothing.


def unpack_lossless(data: bytes) -> Any:
    """The value with `Ext` for ext types. Raises ValueError and `PastLimit`."""
    import ormsgpack

    if depth_bound(data) > DEFAULT_LIMITS.depth:
        skip(data, 0, DEFAULT_LIMITS)
    return ormsgpack.unpackb(data, ext_hook=Ext, option=ormsgpack.OPT_NON_STR_KEYS)


def _on_other(item: Any) -> ormsgpack.Ext:
    import ormsgpack

    if isinstance(item, Ext):
        return ormsgpack.Ext(item.code, item.data)
    raise TypeError(f"cannot store a {type(item).__name__}")


def pack_lossless(value: Any) -> bytes:
    """The msgpack of a value. Raises TypeError, ValueError or RecursionError for other values."""
    import ormsgpack

    # `Ext` is a dataclass. Without the second option, ormsgpack would write it as a map.
    option = ormsgpack.OPT_NON_STR_KEYS | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    return ormsgpack.packb(value, default=_on_other, option=option)


def decode_lossless(typed: TypedBytes) -> Any:
    """Decode to plain values, with `Ext` for ext types and tuples for map keys that are arrays.

    Raises `Unsupported` if the type is not `msgpack` or JSON, or if encoding the result would not
    give the same bytes.
    """
    _refuse_others(typed.type)
    try:
        value = (unpack_lossless if typed.type == "msgpack" else load_lossless)(typed.data)
    except (ValueError, PastLimit) as error:
        raise Unsupported(f"cannot read a {typed.type} value: {error}") from error
    if encode_lossless(typed.type, value, like=typed.data) != typed.data:
        raise Unsupported(f"cannot rewrite a {typed.type} value without changing it")
    return value


def encode_lossless(tag: str, value: Any, *, like: bytes = b"") -> bytes:
    """Encode a value for a type tag.

    JSON gets the spelling (spaces and escapes) of `like`, the text that it replaces. Raises
    `Unsupported` if the type is not `msgpack` or JSON, or if it cannot represent the value.
    """
    _refuse_others(tag)
    try:
        return pack_lossless(value) if tag == "msgpack" else dump_like(value, like)
    except (TypeError, ValueError, PastLimit, RecursionError) as error:
        raise Unsupported(f"cannot write a {tag} value: {error}") from error


def _refuse_others(tag: str) -> None:
    if tag != "msgpack" and tag not in JSON_TYPES:
        raise Unsupported(f"cannot rewrite a value of type '{tag}'")


# Values that a layout stores in several parts, merged when they are read.
#
# The three-table layouts store such values. The type tag `merged` is internal; no saver writes it.
# Parts are merged in order: lists are joined, dicts are updated, and of other values the last part
# counts. A list part that begins with the whole merged list replaces it.


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
