"""Decodes stored bytes to inert values and encodes them again.

No class or function that a store names is ever imported or called.

* `decode`, `decode_channel` and `decode_checkpoint` return plain values and `Tagged` nodes, for
  display and for computing. They never raise and obey `Limits`.
* `decode_lossless` and `encode_lossless` are for rewriting values: the bytes of what did not change
  stay the same.
* `to_json` and `from_json` convert values to the JSON that `ckpt` prints, and back.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from ckpt_backends.codec.json_form import Json, from_json, to_json
from ckpt_backends.codec.memo import CURRENT, SuccessiveValues, note_unreadable
from ckpt_backends.codec.values import (
    CHANNELS,
    DEFAULT_LIMITS,
    DELTA_SNAPSHOT,
    JSON_TYPES,
    UNDEFINED,
    Cut,
    Limits,
    Opaque,
    PastLimit,
    Tagged,
    Value,
    past_bytes,
)
from ckpt_backends.model import TypedBytes, is_control

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "DEFAULT_LIMITS",
    "DELTA_SNAPSHOT",
    "UNDEFINED",
    "BodySkimmer",
    "Cut",
    "Json",
    "Limits",
    "Opaque",
    "Tagged",
    "Value",
    "channel_sizes",
    "decode",
    "decode_channel",
    "decode_checkpoint",
    "from_json",
    "to_json",
]

_BYTEARRAY = "builtins.bytearray"
_MAX_REASON = 200
_SMALL_BODY = 8 << 10
"""Bytes of a body that is decoded as a whole faster than it is compared with the one before."""


def decode(typed: TypedBytes, limits: Limits = DEFAULT_LIMITS) -> Value:
    """Decode a stored value. Never raises.

    The types `null` and `empty` both give None. A value that cannot be read or has an unknown type
    gives `Opaque`; a value that exceeds a limit gives `Cut`.
    """
    memo = CURRENT.get() if limits is DEFAULT_LIMITS and not typed.problem else None
    if memo is not None and (known := memo.value(typed.type, typed.data)) is not None:
        return known[0]
    try:
        value = _whole(typed, limits)
    except PastLimit as past:
        return _beginning(typed, limits, str(past))
    except Exception as error:  # one bad value must not end a listing
        return _opaque(typed, error)
    if memo is not None:
        memo.put_value(typed.type, typed.data, value)
    return value


def decode_channel(typed: TypedBytes, channel: str) -> Value:
    """Decode the value of a channel that is stored apart from its checkpoint, as `decode` does.

    Inside `remembering`, only what changed since the last value of this channel is decoded.
    """
    memo = CURRENT.get()
    if memo is not None and typed.type == "msgpack" and not typed.problem:
        try:
            return memo.channel(channel, typed.data, DEFAULT_LIMITS, _msgpack_decoder())
        except (PastLimit, ValueError, IndexError):
            pass
    return decode(typed)


def decode_checkpoint(body: TypedBytes, limits: Limits = DEFAULT_LIMITS) -> Value:
    """Decode a checkpoint body to a dict. Never raises.

    If the body exceeds a limit, each large channel value is cut separately. A body that cannot be
    read or is not a dict gives `Opaque`.
    """
    memo = CURRENT.get() if limits is DEFAULT_LIMITS else None
    if memo is not None:
        known = _successive_body(body, lambda data: memo.body(data, limits, _msgpack_decoder()))
        if known is not None:
            return known
    try:
        try:
            value = _whole(body, limits)
        except PastLimit:
            if body.type not in ("msgpack", *JSON_TYPES):
                raise
            value = _by_channel(body, limits)
        if isinstance(value, Cut) and body.type == "pickle":
            value = _by_channel(body, limits)
        if not isinstance(value, dict):
            raise ValueError("a checkpoint has to be a map")
        return value
    except Exception as error:
        return _opaque(body, error)


def _successive_body(body: TypedBytes, decoded: Callable[[bytes], Value]) -> Value:
    """The body, decoded by the one before it; None if that is not possible."""
    if body.type != "msgpack" or body.problem or len(body.data) < _SMALL_BODY:
        return None
    try:
        return decoded(body.data)
    except (PastLimit, ValueError, IndexError):
        return None


_SKIMMED = 512
"""Values of up to this many bytes are returned."""


class BodySkimmer:
    """Decodes bodies of one thread. Those read one after the other should be alike.

    Keeps the values of one body in memory.
    """

    def __init__(self) -> None:
        self._successive = SuccessiveValues(_msgpack_decoder())

    def decode(self, body: TypedBytes) -> Value:
        """Decode a body like `decode_checkpoint`, with a `Cut` of None for each large value.

        Values of LangGraph's control channels are always there.
        """
        found = _successive_body(body, lambda data: self._successive.body(data, DEFAULT_LIMITS))
        if not isinstance(found, dict):
            return decode_checkpoint(body)
        channels = found.get(CHANNELS)
        if isinstance(channels, dict):
            found[CHANNELS] = {
                name: self._skimmed(name, value) if isinstance(name, str) else value
                for name, value in channels.items()
            }
        return found

    def _skimmed(self, name: str, value: Value) -> Value:
        size = self._successive.size(name)
        return value if size <= _SKIMMED or is_control(name) else Cut(None, size, "not read")


def channel_sizes(body: TypedBytes) -> dict[str, int] | None:
    """Bytes of a checkpoint body by channel; None if it cannot be read. Never raises.

    The remaining bytes of the body are LangGraph's bookkeeping, such as `versions_seen`.
    """
    try:
        if body.type == "msgpack":
            from ckpt_backends.codec.msgpack import msgpack_channel_sizes

            return msgpack_channel_sizes(body.data)
        if body.type in JSON_TYPES:
            from ckpt_backends.codec.json import json_channel_sizes

            return json_channel_sizes(body.data)
    except (ValueError, IndexError, KeyError, RecursionError):
        pass
    return None


def _whole(typed: TypedBytes, limits: Limits) -> Value:
    if typed.problem:
        raise ValueError(typed.problem)
    match typed.type:
        case "msgpack":
            return _msgpack_decoder()(typed.data, limits)
        case "json" | "redis-json":
            from ckpt_backends.codec.json import decode_json

            return decode_json(typed.data, limits, typed.type)
        case "pickle":
            from ckpt_backends.codec.pickle import decode_pickle

            return decode_pickle(typed.data, limits)
        case "bson" | "bson-plain":
            from ckpt_backends.codec.bson import decode_bson

            leaf = (lambda one: decode(one, limits)) if typed.type == "bson" else None
            return decode_bson(typed.data, limits, leaf)
        case "merged":
            from ckpt_backends.codec.lossless import decode_merged

            return decode_merged(typed.data, lambda part: decode(part, limits))
        case "bytes" | "bytearray":
            if reason := past_bytes(len(typed.data), limits):
                raise PastLimit(reason)
            return typed.data if typed.type == "bytes" else Tagged(_BYTEARRAY, typed.data)
        case "null" | "empty":
            if typed.data:
                raise ValueError(f"type {typed.type} with unexpected bytes")
            return None
    raise ValueError("unknown type")


@cache
def _msgpack_decoder() -> Callable[[bytes, Limits], Value]:
    """Import the decoder once, since an import statement takes as long as a small value."""
    from ckpt_backends.codec.msgpack import decode_msgpack

    return decode_msgpack


def _beginning(typed: TypedBytes, limits: Limits, reason: str) -> Value:
    try:
        match typed.type:
            case "msgpack":
                from ckpt_backends.codec.msgpack import cut_msgpack

                return cut_msgpack(typed.data, limits, reason)
            case "json" | "redis-json":
                from ckpt_backends.codec.json import cut_json

                return cut_json(typed.data, limits, reason)
        kept = typed.data[: limits.value_bytes]
        value = kept if typed.type == "bytes" else Tagged(_BYTEARRAY, kept)
        return Cut(value, len(typed.data), reason)
    except Exception as error:
        return _opaque(typed, error)


def _by_channel(body: TypedBytes, limits: Limits) -> Value:
    match body.type:
        case "msgpack":
            from ckpt_backends.codec.msgpack import msgpack_body

            return msgpack_body(body.data, limits)
        case "json" | "redis-json":
            from ckpt_backends.codec.json import json_body

            return json_body(body.data, limits, body.type)
    from ckpt_backends.codec.pickle import pickle_body

    return pickle_body(body.data, limits)


def _opaque(typed: TypedBytes, error: Exception) -> Opaque:
    from hashlib import sha256  # loads OpenSSL

    note_unreadable()
    reason = (str(error) or type(error).__name__)[:_MAX_REASON]
    if typed.whole is not None:
        return Opaque(typed.type, typed.whole, "", reason)
    return Opaque(typed.type, len(typed.data), sha256(typed.data).hexdigest(), reason)
