"""Reads the fields of RedisStore's documents."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta

from ckpt_backends.changes.rows import Row
from ckpt_backends.codec.values import REDIS_JSON
from ckpt_backends.memory import dotted_namespaces
from ckpt_backends.memory.protocol import ItemKey
from ckpt_backends.model import TypedBytes
from ckpt_backends.redis.engine.keyspace import text, unique
from ckpt_backends.redis.engine.row_cells import MEMBER

HASHED = "store_vectors_hash"
"""The table name in archives for vectors that are hashes."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ESCAPED = re.compile(r"\\(.)")


def key_in(prefix: object, key: object) -> ItemKey | None:
    """The key of an item from the fields of its document; None if it is not an item."""
    if not isinstance(prefix, str) or not isinstance(key, str):
        return None
    return ItemKey(dotted_namespaces.parted(_ESCAPED.sub(r"\1", prefix)), key)


def key_of(row: Row) -> ItemKey | None:
    """The key of an item from an archived document or hash; None if it is not an item."""
    if row.table == HASHED:
        found = (row.cells.get(MEMBER + name) for name in ("prefix", "key"))
        return key_in(*(text(one) if isinstance(one, bytes) else None for one in found))
    try:
        document = json.loads(str(row.cells.get("value")), object_pairs_hook=unique)
    except (ValueError, RecursionError):
        return None
    return (
        key_in(document.get("prefix"), document.get("key")) if isinstance(document, dict) else None
    )


def moment(value: object) -> datetime | None:
    """A time from microseconds since 1970; None if it is not a number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return EPOCH + timedelta(microseconds=value)
    except (OverflowError, ValueError):
        return None


def typed_value(value: bytes) -> TypedBytes:
    """A value as stored.

    Values that JSON cannot represent are wrapped in an object: `__serde_type__` is the type, and
    `__serde_data__` the bytes as hex, or the JSON text if the type is `json`.
    """
    if not value.startswith(b'{"__serde_'):
        return TypedBytes("json", value)
    try:
        match json.loads(value):
            case {"__serde_type__": "json", "__serde_data__": str(data), **rest} if not rest:
                return TypedBytes(REDIS_JSON, data.encode("utf-8", "surrogatepass"))
            case {"__serde_type__": str(tag), "__serde_data__": str(data), **rest} if not rest:
                return TypedBytes(tag, bytes.fromhex(data))
    except (ValueError, RecursionError):
        pass  # a value of the application that only looks like a wrapper
    return TypedBytes("json", value)
