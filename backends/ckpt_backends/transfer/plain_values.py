"""Plain values: null, texts, numbers and booleans, which SQL savers keep in the JSON of a body."""

from __future__ import annotations

import json
import re
from functools import lru_cache

from ckpt_backends.codec.values import JSON_TYPES
from ckpt_backends.model import TypedBytes

_SHORT = 64
"""The longest JSON text whose msgpack is remembered: short values are often the same."""
_CONTAINERS = (*range(0x80, 0xA0), *range(0xC4, 0xCA), *range(0xD4, 0xD9), *range(0xDC, 0xE0))
"""First bytes of msgpack's maps, arrays, bytes and ext types."""


_SURROGATE = re.compile("[\ud800-\udfff]")
_INTEGERS = range(-(1 << 63), 1 << 64)
"""MySQL stores larger integers as floats."""
_DIGITS = 15
"""MySQL may read floats with more digits as their neighbour."""
_ENCODE = json.JSONEncoder(ensure_ascii=False).encode
_LONGEST = 16 << 20
"""Bytes. PostgreSQL allows 256 MiB in a JSON document, and all values of a body share them."""


def plain_json(value: TypedBytes) -> TypedBytes | None:
    """A plain value as JSON text that any engine stores unchanged; None for any other value.

    PostgreSQL changes some numbers (https://www.postgresql.org/docs/current/datatype-json.html):
    it has no negative zero, and writes exponents out. It refuses the character NUL.
    """
    if value.type == "null":
        return TypedBytes("json", b"null")
    if len(value.data) > _LONGEST:
        return None
    try:
        if value.type == "msgpack":
            if not value.data or value.data[0] in _CONTAINERS:
                return None
            from ckpt_backends.codec.msgpack.lossless import unpack_lossless

            found = unpack_lossless(value.data)
        elif value.type in JSON_TYPES and value.data[:1] not in (b"{", b"["):
            found = json.loads(value.data)
        else:
            return None
    except ValueError:
        return None
    if not _is_kept(found):
        return None
    return TypedBytes("json", _ENCODE(found).encode())


def _is_kept(value: object) -> bool:
    """Whether any engine stores a value unchanged in JSON."""
    if isinstance(value, str):
        return "\0" not in value and not _SURROGATE.search(value)
    if isinstance(value, float):
        text = repr(value)
        sure = text.replace("-", "").replace(".", "")
        return sure.isdecimal() and len(sure.lstrip("0")) <= _DIGITS and text != "-0.0"
    return value is None or (isinstance(value, int) and value in _INTEGERS)


def from_plain_json(value: TypedBytes) -> TypedBytes | None:
    """A plain value of a JSON body as msgpack; None for any other value."""
    if value.type != "json" or value.data[:1] in (b"{", b"["):
        return None
    return _short_msgpack(value.data) if len(value.data) <= _SHORT else _msgpack(value.data)


def _msgpack(data: bytes) -> TypedBytes | None:
    from ckpt_backends.codec.msgpack.lossless import pack_lossless

    try:
        return TypedBytes("msgpack", pack_lossless(json.loads(data)))
    except (ValueError, TypeError):
        return None


_short_msgpack = lru_cache(maxsize=4096)(_msgpack)
