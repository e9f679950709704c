"""Changes some entries of a stored map without changing any other byte.

A checkpoint body may contain types that ckpt does not know, so it is not decoded and encoded
again. Instead, the bytes of changed entries are replaced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ckpt_backends.codec.bson.set_keys import set_bson_keys
from ckpt_backends.codec.edits import Edit
from ckpt_backends.codec.json.set_keys import append_json, list_items, list_of_json, set_json_keys
from ckpt_backends.codec.msgpack.set_keys import (
    append_msgpack,
    array_items,
    array_of,
    set_msgpack_keys,
)
from ckpt_backends.codec.pickle.append_opcodes import set_pickle_keys
from ckpt_backends.codec.values import JSON_TYPES
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import TypedBytes

_SET_KEYS = {
    "bson": set_bson_keys,
    "msgpack": set_msgpack_keys,
    "pickle": set_pickle_keys,
    **dict.fromkeys(JSON_TYPES, set_json_keys),
}


def set_keys(typed: TypedBytes, edits: Mapping[str, Edit]) -> TypedBytes:
    """The map with some entries changed, added at its end, or removed.

    Keeps `encrypted` and `part`. A pickle keeps the bytes of entries that are removed. Raises
    `Unsupported` if it is not a map, or if its type is not `msgpack`, JSON, `bson` or `pickle`.
    """
    if typed.type not in _SET_KEYS:
        raise Unsupported(f"cannot change a value of type '{typed.type}'")
    try:
        data = _SET_KEYS[typed.type](typed.data, edits)
        return TypedBytes(typed.type, data, encrypted=typed.encrypted, part=typed.part)
    except (ValueError, IndexError, TypeError, OverflowError, RecursionError) as error:
        raise Unsupported(f"cannot change a {typed.type} value: {error}") from error


def append_item(stored: TypedBytes, item: bytes) -> TypedBytes:
    """The stored list with one more item; all other bytes stay the same.

    Raises `Unsupported` if the value is not a list, or is stored with an unknown type.
    """
    if stored.type not in ("msgpack", *JSON_TYPES):
        raise Unsupported(f"cannot append to a value of type '{stored.type}'")
    append = append_msgpack if stored.type == "msgpack" else append_json
    try:
        return TypedBytes(stored.type, append(stored.data, item))
    except ValueError as error:
        raise Unsupported("cannot append to a value that is not a list") from error


def stored_items(stored: TypedBytes) -> list[TypedBytes]:
    """The items of a stored list, as stored.

    Raises `Unsupported` if the value is not a list, or is stored with an unknown type.
    """
    if stored.type not in ("msgpack", *JSON_TYPES):
        raise Unsupported(f"cannot take apart a value of type '{stored.type}'")
    take = array_items if stored.type == "msgpack" else list_items
    try:
        return [TypedBytes(stored.type, one) for one in take(stored.data)]
    except (ValueError, IndexError) as error:
        raise Unsupported(f"cannot take a {stored.type} list apart: {error}") from error


def list_of(items: Sequence[TypedBytes], like: TypedBytes) -> TypedBytes:
    """A list of stored items, which keep their bytes, in the form of another list.

    Raises `Unsupported` if an item has another type.
    """
    if any(one.type != like.type for one in items):
        raise Unsupported("cannot store values of several types in one list")
    data = [one.data for one in items]
    joined = array_of(data) if like.type == "msgpack" else list_of_json(data, like.data)
    return TypedBytes(like.type, joined)
