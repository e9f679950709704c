"""Plain values: null, texts, numbers and booleans, which SQL savers keep in the JSON of a body."""

from __future__ import annotations

import json

from ckpt_backends.codec.values import JSON_TYPES
from ckpt_backends.model import TypedBytes

_CONTAINERS = (*range(0x80, 0xA0), *range(0xC4, 0xCA), *range(0xD4, 0xD9), *range(0xDC, 0xE0))
"""First bytes of msgpack's maps, arrays, bytes and ext types."""


def plain_json(value: TypedBytes) -> TypedBytes | None:
    """A plain value as JSON text that any engine stores unchanged; None for any other value.

    PostgreSQL changes some numbers (https://www.postgresql.org/docs/current/datatype-json.html):
    it has no negative zero, and writes exponents out. It refuses the character NUL.
    """
    if value.type == "null":
        return TypedBytes("json", b"null")
    if value.type == "msgpack":
        if not value.data or value.data[0] in _CONTAINERS:
            return None
        from ckpt_backends.codec.msgpack.lossless import unpack_lossless

        try:
            found = unpack_lossless(value.data)
        except ValueError:
            return None
    elif value.type in JSON_TYPES and value.data[:1] not in (b"{", b"["):
        found = json.loads(value.data)
    else:
        return None
    if isinstance(found, str):
        keeps = "\0" not in found and not any("\ud800" <= one <= "\udfff" for one in found)
    elif isinstance(found, float):
        keeps = "e" not in (text := repr(found)) and "n" not in text and text != "-0.0"
    else:
        keeps = found is None or isinstance(found, int)
    if not keeps:
        return None
    return TypedBytes("json", json.dumps(found, ensure_ascii=False).encode())


def from_plain_json(value: TypedBytes) -> TypedBytes | None:
    """A plain value of a JSON body as msgpack; None for any other value."""
    if value.type != "json" or value.data[:1] in (b"{", b"["):
        return None
    from ckpt_backends.codec.msgpack.lossless import pack_lossless

    return TypedBytes("msgpack", pack_lossless(json.loads(value.data)))
