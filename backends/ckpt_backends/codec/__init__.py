"""Typed bytes to inert values, and back. Nothing that a store names is imported or called.

`decode` and `decode_checkpoint` are for showing and computing: plain values and `Tagged` nodes.
They never raise, and keep within `Limits`. `decode_lossless` and `encode_lossless` are for
rewriting a body byte for byte. `to_json` and `from_json` are the form that is printed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .jsonform import Json, from_json, to_json
from .limits import DEFAULT_LIMITS, Limits
from .lossless import Ext, decode_lossless, encode_lossless
from .values import Cut, Opaque, Tagged, Value

if TYPE_CHECKING:
    from ..model import TypedBytes

__all__ = [
    "DEFAULT_LIMITS",
    "DELTA_SNAPSHOT",
    "Cut",
    "Ext",
    "Json",
    "Limits",
    "Opaque",
    "Tagged",
    "Value",
    "decode",
    "decode_checkpoint",
    "decode_lossless",
    "encode_lossless",
    "from_json",
    "to_json",
]

DELTA_SNAPSHOT = "langgraph.DeltaSnapshot"
"""Type of the `Tagged` that wraps a DeltaChannel's snapshot."""

_MAX_REASON = 200


def decode(typed: TypedBytes, limits: Limits = DEFAULT_LIMITS) -> Value:
    """A stored value. Never raises.

    `null` and `empty` give None; only the tag tells them apart. What cannot be read, or has a
    tag that is not read here, gives `Opaque`; what is past a limit gives `Cut`.
    """
    try:
        return _read(typed, limits)
    except Exception as error:  # whatever a store holds must not end a listing
        return _opaque(typed, str(error) or type(error).__name__)


def decode_checkpoint(body: TypedBytes, limits: Limits = DEFAULT_LIMITS) -> Value:
    """A checkpoint body: a dict of which each large channel value is cut on its own.

    Never raises: a body that cannot be read gives `Opaque`.
    """
    if body.type not in ("msgpack", "json"):
        return decode(body, limits)
    if len(body.data) <= limits.value_bytes:
        whole = decode(body, limits)
        if not isinstance(whole, Cut):
            return whole
    try:
        from .body import json_body, msgpack_body  # few bodies need it

        read = msgpack_body if body.type == "msgpack" else json_body
        return read(body.data, limits)
    except Exception as error:
        return _opaque(body, str(error) or type(error).__name__)


def _read(typed: TypedBytes, limits: Limits) -> Value:
    data = typed.data
    match typed.type:
        case "msgpack":
            from .msgpack import decode_msgpack  # loads ormsgpack

            return decode_msgpack(data, limits)
        case "json":
            from .jsonplus import decode_json

            return decode_json(data, limits)
        case "bytes" | "bytearray":
            kept = data[: limits.value_bytes]
            value = kept if typed.type == "bytes" else Tagged("builtins.bytearray", kept)
            if len(kept) < len(data):
                return Cut(value, len(data), f"longer than {limits.value_bytes} bytes")
            return value
        case "null" | "empty":
            if data:
                raise ValueError(f"bytes where type {typed.type} has none")
            return None
    return _opaque(typed, "a type that is not read here")


def _opaque(typed: TypedBytes, reason: str) -> Opaque:
    from hashlib import sha256  # loads OpenSSL

    digest = sha256(typed.data).hexdigest()
    return Opaque(typed.type, len(typed.data), digest, reason[:_MAX_REASON])
