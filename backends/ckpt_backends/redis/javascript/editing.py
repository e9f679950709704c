"""Changes the values in documents of LangGraph.js."""

from __future__ import annotations

from ckpt_backends.changes.rows import Row
from ckpt_backends.erasing.stored import EraseStored, ValueKind
from ckpt_backends.redis.engine.document_editing import edited_member, with_members
from ckpt_backends.redis.engine.document_parts import WRITE, StoredDocument
from ckpt_backends.redis.engine.keyspace import APART, CHECKPOINT

_JSON = "json"


def edited_row(layout: str, row: Row, erase: EraseStored) -> Row:  # noqa: ARG001
    """The row with the values that `erase` returns; the same row if they are equal."""
    if row.table == CHECKPOINT:
        found = StoredDocument(row)
        body = edited_member(found, "checkpoint", _JSON, ValueKind.BODY, erase)
        metadata = edited_member(found, "metadata", _JSON, ValueKind.METADATA, erase)
        return with_members(row, found, {"checkpoint": body, "metadata": metadata})
    if row.table in (WRITE, APART):
        found = StoredDocument(row)
        kind = ValueKind.WRITE if row.table == WRITE else ValueKind.VALUE
        value = edited_member(found, "value", _JSON, kind, erase)
        return with_members(row, found, {"value": value})
    return row
