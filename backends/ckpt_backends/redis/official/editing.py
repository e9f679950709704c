"""Changes the values in documents of langgraph-checkpoint-redis."""

from __future__ import annotations

import json
from base64 import b64encode

from ckpt_backends.changes.rows import Row
from ckpt_backends.codec.values import REDIS_JSON
from ckpt_backends.erasing.stored import EraseStored, PlacedValue, ValueKind
from ckpt_backends.redis.engine.document_editing import edited_member, edited_text, with_members
from ckpt_backends.redis.engine.document_parts import WRITE, StoredDocument
from ckpt_backends.redis.engine.keyspace import APART, CHECKPOINT
from ckpt_backends.redis.official.stored_values import stored_value


def edited_row(layout: str, row: Row, erase: EraseStored) -> Row:  # noqa: ARG001
    """The row with the values that `erase` returns; the same row if they are equal."""
    if row.table == CHECKPOINT:
        return _checkpoint(row, erase)
    if row.table == WRITE:
        return _value(row, ValueKind.WRITE, erase)
    if row.table == APART:
        return _value(row, ValueKind.VALUE, erase)
    return row


def _checkpoint(row: Row, erase: EraseStored) -> Row:
    found = StoredDocument(row)
    body = edited_member(found, "checkpoint", REDIS_JSON, ValueKind.BODY, erase)
    # RedisSaver stores metadata as a text, ShallowRedisSaver as an object.
    is_text = isinstance(found.get("metadata"), str)
    edited = edited_text if is_text else edited_member
    metadata = edited(found, "metadata", REDIS_JSON, ValueKind.METADATA, erase)
    return with_members(row, found, {"checkpoint": body, "metadata": metadata})


def _value(row: Row, kind: ValueKind, erase: EraseStored) -> Row:
    found = StoredDocument(row)
    blob = found.get("blob")
    stored = stored_value(found.text("type"), blob)
    made = erase(PlacedValue(kind, stored, found.name, found.text("channel")))
    if made is stored:
        return row
    # Before release 0.2, the blob was the text itself.
    is_text = isinstance(blob, str) and stored.data == blob.encode("utf-8", "surrogatepass")
    new = made.data.decode("utf-8", "surrogatepass") if is_text else b64encode(made.data).decode()
    return with_members(row, found, {"blob": json.dumps(new)})
