"""Compares values of msgpack without regard to the order of the members of sets.

A set that is loaded and stored again may have its members in another order, so the same version of
a channel can have other bytes in each body.
"""

from __future__ import annotations

import json
from typing import Any

from ckpt_backends.codec.msgpack.lossless import Ext, pack_lossless, unpack_lossless
from ckpt_backends.codec.values import JSON_TYPES
from ckpt_backends.model import TypedBytes

_SINGLE_ARGUMENT = 0
"""msgpack's ext type of objects that are made from one argument: module, name, argument."""
_SETS = frozenset({"set", "frozenset"})


def without_order(value: TypedBytes) -> bytes:
    """The bytes of a value with the members of all its sets sorted."""
    if b"builtins" not in value.data:
        return value.data
    if value.type in JSON_TYPES:
        return _json_without_order(value.data)
    if value.type != "msgpack":
        return value.data
    try:
        return pack_lossless(_sorted(unpack_lossless(value.data)))
    except (ValueError, TypeError, RecursionError):
        return value.data


def _json_without_order(data: bytes) -> bytes:
    """As `without_order`, of values that releases before msgpack wrote."""

    def of_object(found: dict[str, Any]) -> dict[str, Any]:
        match found:
            case {"type": "constructor", "id": ["builtins", name], "args": [[*members]]} if (
                name in _SETS
            ):
                return {**found, "args": [sorted(members, key=json.dumps)]}
        return found

    try:
        return json.dumps(json.loads(data, object_hook=of_object)).encode()
    except (ValueError, RecursionError):
        return data


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    if not isinstance(value, Ext):
        return value
    try:
        inner = _sorted(unpack_lossless(value.data))
    except ValueError:  # the payload is no msgpack
        return value
    match value.code, inner:
        case (code, ["builtins", name, [*members]]) if code == _SINGLE_ARGUMENT and name in _SETS:
            inner = ["builtins", name, sorted(members, key=pack_lossless)]
    return Ext(value.code, pack_lossless(inner))
