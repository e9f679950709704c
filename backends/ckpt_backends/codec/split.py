"""Splits a stored map or list into its entries, each as a separate stored value.

Used for layouts that store a checkpoint together with its metadata, or a write with its channel.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TypeAlias

from ckpt_backends.codec.cursor import ARRAY, MAP, Cursor
from ckpt_backends.codec.values import JSON_TYPES, PastLimit
from ckpt_backends.model import TypedBytes

Parts: TypeAlias = "Mapping[str | int, TypedBytes]"
"""By the key of a map, or by the index in a list."""


def split(typed: TypedBytes) -> Parts:
    """The parts of a map or list. Raises ValueError for other values and unknown types."""
    try:
        if typed.type == "msgpack":
            found = _split_msgpack(typed.data)
        elif typed.type in JSON_TYPES:
            found = _split_json(typed.data)
        elif typed.type == "pickle":
            from ckpt_backends.codec.edits import split_pickle

            found = split_pickle(typed.data)
        else:
            raise ValueError(f"values of type '{typed.type}' cannot be split")
    except (IndexError, KeyError, TypeError, PastLimit, RecursionError) as error:
        raise ValueError(f"cut off or invalid: {error}") from error
    return {name: TypedBytes(typed.type, data) for name, data in found.items()}


def _split_msgpack(data: bytes) -> dict[str | int, bytes]:
    cursor = Cursor(data)
    kind = cursor.kind()
    if kind not in (ARRAY, MAP):
        raise ValueError("neither a map nor a list")
    found: dict[str | int, bytes] = {}
    for number in range(cursor.enter(kind)):
        name = cursor.text("surrogatepass") if kind == MAP else number
        found[name] = cursor.take()
    if cursor.pos != len(data):
        raise ValueError("trailing data")
    return found


def _split_json(data: bytes) -> dict[str | int, bytes]:
    value = json.loads(data)
    if not isinstance(value, dict | list):
        raise ValueError("neither a map nor a list")
    items = value.items() if isinstance(value, dict) else enumerate(value)
    return {name: json.dumps(one).encode() for name, one in items}
