"""Converts the metadata of checkpoints between the types in which layouts store it.

| type | stored as |
|---|---|
| `json` | a JSON text, which savers read without reviving objects |
| `redis-json` | a JSON text in which RedisSaver revives envelopes and markers |
| `msgpack` | msgpack of a dict |
| `bson` | a document whose leaves are pairs of a type and bytes; in old releases, JSON in bytes |
| `bson-plain` | plain values; only read |
| `pickle` | by `langgraph dev`; only read |

Objects of a pickle, such as the user of a request, become plain data that names their class:
`{"$type": "module.Class"}`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from ckpt_backends.codec import bson as documents
from ckpt_backends.codec import decode
from ckpt_backends.codec.json_form import to_json
from ckpt_backends.codec.lossless import Ext, pack_lossless, unpack_lossless
from ckpt_backends.codec.values import JSON_TYPES, REDIS_JSON, Limits, PastLimit, Tagged, Value
from ckpt_backends.model import TypedBytes
from ckpt_backends.transfer.form import CannotHold, Form, NoEqualForm
from ckpt_backends.transfer.values import looks_marked

_ALL = Limits(value_bytes=1 << 40, nodes=1 << 40)
_MOST_INT, _LEAST_INT = (1 << 64) - 1, -(1 << 63)
"""RedisSaver reads larger integers as floats."""
_BSON_LEVELS = 90
"""Servers allow 100 levels in a document."""


def converted_metadata(metadata: TypedBytes, target: Form, where: str) -> TypedBytes:
    """Metadata in the form of another layout. Raises `CannotHold`."""
    tag = target.metadata_type
    if tag == metadata.type:
        return metadata
    try:
        entries = _load(metadata)
        if metadata.type == "json" and tag == REDIS_JSON:
            _check_redis(entries)
            return TypedBytes(tag, metadata.data)
        return TypedBytes(tag, _WRITERS[tag](entries))
    except (ValueError, TypeError, KeyError, RecursionError, PastLimit) as error:
        reason = str(error) if isinstance(error, NoEqualForm) else f"cannot be read: {error}"
        raise CannotHold(f"the metadata of {where} {reason}") from None


def without_objects(metadata: TypedBytes) -> TypedBytes:
    """Pickled metadata as msgpack of plain data, so that a saver needs no class to load it.

    Raises `CannotHold` if its keys are not texts, or if it is no pickle of a dict.
    """
    try:
        return TypedBytes("msgpack", _msgpack(_load(metadata)))
    except (ValueError, TypeError, RecursionError, PastLimit) as error:
        raise CannotHold(f"the metadata cannot be read: {error}") from None


def _load(metadata: TypedBytes) -> dict[str, Any]:
    """The entries; msgpack's objects are `Ext`."""
    match metadata.type:
        case "json":
            found = json.loads(metadata.data)
        case "redis-json":
            found = json.loads(metadata.data)
            _check_redis(found)
        case "msgpack":
            found = unpack_lossless(metadata.data)
        case "bson":
            found = _plain(documents.decode_bson(metadata.data, _ALL, _leaf))
        case "bson-plain":
            found = _plain(documents.decode_bson(metadata.data, _ALL, None))
        case "pickle":
            found = _unpickled(metadata.data)
        case _:
            raise NoEqualForm(f"has the type '{metadata.type}', which cannot be converted")
    if not isinstance(found, dict):
        raise NoEqualForm("is not a dict")
    return found


def _unpickled(data: bytes) -> Any:
    # Late, because they load pickletools.
    from ckpt_backends.codec.edits import split_pickle
    from ckpt_backends.transfer.pickles import msgpack_of_pickle

    found: dict[str | int, Any] = {}
    for name, entry in split_pickle(data).items():
        try:
            value = unpack_lossless(msgpack_of_pickle(entry))
            _check_keys(value)
            found[name] = value
        except NoEqualForm:
            found[name] = to_json(decode(TypedBytes("pickle", entry), _ALL))
    return found


def _leaf(leaf: TypedBytes) -> Any:
    """The value of a leaf of a document. A binary value is a leaf of type `json`, too."""
    match leaf.type:
        case "msgpack":
            return unpack_lossless(leaf.data)
        case "json":
            found = json.loads(leaf.data)
            _check_redis(found)
            return found
        case "null":
            return None
        case "bytes":
            return leaf.data
    raise NoEqualForm(f"has a value of type '{leaf.type}', which cannot be converted")


def _plain(root: Value) -> Value:
    """A decoded document. Raises `NoEqualForm` if it has values that only BSON has."""
    todo: list[Any] = [root]
    while todo:
        item = todo.pop()
        if isinstance(item, Tagged):
            raise NoEqualForm(f"has a value of type '{item.type}', which cannot be converted")
        todo.extend(
            item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
        )
    return root


def _check_redis(root: Any) -> None:
    """Raise `NoEqualForm` if RedisSaver reads something else than `json.loads`."""
    todo = [root]
    while todo:
        item = todo.pop()
        if isinstance(item, dict):
            if looks_marked(item):
                raise NoEqualForm("has a dict from which RedisSaver makes an object")
            todo.extend(item)
            todo.extend(item.values())
        elif isinstance(item, list):
            todo.extend(item)
        elif isinstance(item, int) and not _LEAST_INT <= item <= _MOST_INT:
            raise NoEqualForm(f"has the integer {item}, which RedisSaver reads as a float")
        elif isinstance(item, str):
            item.encode()
        elif isinstance(item, float) and item - item != 0:
            raise NoEqualForm(f"has the number {item}, which is not JSON")


def _json(entries: dict[str, Any]) -> bytes:
    _check_keys(entries)
    try:
        text = json.dumps(entries, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError):
        raise NoEqualForm("has a value that JSON cannot represent") from None
    return text.encode()


def _redis_json(entries: dict[str, Any]) -> bytes:
    _check_redis(entries)
    return _json(entries)


def _check_keys(root: Any) -> None:
    """Raise `NoEqualForm` for keys that are not texts, which `json` would convert to texts."""
    todo = [root]
    while todo:
        item = todo.pop()
        if isinstance(item, dict):
            if not all(isinstance(key, str) for key in item):
                raise NoEqualForm("has keys that are not texts, and JSON has only texts")
            todo.extend(item.values())
        elif isinstance(item, list):
            todo.extend(item)
        elif isinstance(item, Ext | bytes):
            raise NoEqualForm("has a value that JSON cannot represent")


def _msgpack(entries: dict[str, Any]) -> bytes:
    try:
        return pack_lossless(entries)
    except (TypeError, ValueError) as error:
        raise NoEqualForm(f"cannot become msgpack: {error}") from None


def _bson(entries: Mapping[Any, Any], level: int = 1) -> bytes:
    """A document as `dumps_metadata` of langgraph-checkpoint-mongodb 0.2.2 and later writes it."""
    if level > _BSON_LEVELS:
        raise NoEqualForm(f"is nested deeper than {_BSON_LEVELS} levels")
    made: dict[str, bytes] = {}
    for name, value in entries.items():
        if not isinstance(name, str) or "\0" in name:
            raise NoEqualForm(f"has the key {name!r}, which MongoDB cannot store")
        if isinstance(value, dict):
            made[name] = documents.subdocument(_bson(value, level + 1))
        elif value is None:
            made[name] = documents.typed(TypedBytes("null", b""))
        elif isinstance(value, bytes):
            made[name] = documents.typed(TypedBytes("bytes", value))
        else:
            made[name] = documents.typed(TypedBytes("msgpack", _msgpack(value)))
    return documents.document_of(made)


_WRITERS: Mapping[str, Callable[[dict[str, Any]], bytes]] = {
    "json": _json,
    REDIS_JSON: _redis_json,
    "msgpack": _msgpack,
    "bson": _bson,
}


# Plain values: null, texts, numbers and booleans, which SQL savers keep in the JSON of a body.


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
            from ckpt_backends.codec.lossless import unpack_lossless

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
    return _short_msgpack(value.data) if len(value.data) <= _SHORT else _unpacked(value.data)


def _unpacked(data: bytes) -> TypedBytes | None:
    from ckpt_backends.codec.lossless import pack_lossless

    try:
        return TypedBytes("msgpack", pack_lossless(json.loads(data)))
    except (ValueError, TypeError):
        return None


_short_msgpack = lru_cache(maxsize=4096)(_unpacked)
