"""The stored forms of a DeltaChannel's snapshot."""

from __future__ import annotations

import json
from typing import Any

from ckpt_backends.codec.lossless import decode_lossless, encode_lossless
from ckpt_backends.codec.msgpack.lossless import Ext
from ckpt_backends.codec.values import REDIS_JSON
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import TypedBytes

_EXT = 7
_MARK = "__delta_snapshot__"


def as_snapshot(stored: TypedBytes) -> Any:
    """Return the snapshot with a stored value, for `encode_lossless`."""
    if stored.type == "msgpack":
        return Ext(_EXT, stored.data)
    if stored.type == REDIS_JSON:
        return {_MARK: True, "value": json.loads(stored.data)}
    raise Unsupported("cannot write the value of a DeltaChannel of LangGraph.js")


def inside_snapshot(stored: TypedBytes) -> TypedBytes:
    """Return the value in a snapshot, as stored; any other value unchanged."""
    found = decode_lossless(stored)
    if isinstance(found, Ext) and found.code == _EXT:
        return TypedBytes(stored.type, found.data)
    if isinstance(found, dict) and found.get(_MARK) is True:
        value = encode_lossless(stored.type, found["value"], like=stored.data)
        return TypedBytes(stored.type, value)
    return stored
