"""The parts of a thread in the documents of LangGraph's savers. Needs no driver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ckpt_backends.codec.bson import typed_leaves
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import Record, TypedBytes
from ckpt_backends.mongodb.engine.layout import CHECKPOINTS, KEY, WRITES
from ckpt_backends.mongodb.engine.records import MongoDocument
from ckpt_backends.rows import ChangeValue, Row, ValueKind

_MADE_ANEW = frozenset({"_id", "created_at", "upserted_at", "metadata_search"})
"""Fields with nothing of their own: a saver makes them from the others, or from the clock."""
_OF_CHECKPOINT = {*KEY, "parent_checkpoint_id", "type", "checkpoint", "metadata", *_MADE_ANEW}
_OF_WRITE = {*KEY, "task_id", "task_path", "idx", "channel", "type", "value", *_MADE_ANEW}


def parts_of(layout: str, rows: Iterable[Row]) -> Iterator[Record]:  # noqa: ARG001
    """The parts that the documents of one thread hold. Raises `Unsupported` and `Unreadable`."""
    for row in rows:
        found = MongoDocument(row)
        if row.table == WRITES:
            found.check_fields(_OF_WRITE)
            yield _write(found)
        elif row.table == CHECKPOINTS:
            found.check_fields(_OF_CHECKPOINT)
            yield _checkpoint(found)
        else:
            raise Unsupported(f"a row of the unknown table '{row.table}'")


def _checkpoint(fields: MongoDocument) -> Record:
    return Record.checkpoint(
        fields.key(),
        fields.text("parent_checkpoint_id") or None,
        TypedBytes(fields.text("type"), fields.binary("checkpoint")),
        _metadata(fields),
    )


def _metadata(fields: MongoDocument) -> TypedBytes:
    stored = fields.document("metadata")
    if stored is None:
        return TypedBytes("json", fields.binary("metadata"))
    # Before 0.2.2, a leaf is only the bytes of a JSON text. Newer releases read such a leaf only
    # with its type.
    return TypedBytes("bson", typed_leaves(stored))


def _write(fields: MongoDocument) -> Record:
    return Record.write(
        fields.key(),
        fields.text("task_id"),
        fields.text("task_path"),
        fields.number("idx"),
        fields.text("channel"),
        TypedBytes(fields.text("type"), fields.binary("value")),
    )


# Changes the values in documents of LangGraph's savers. Needs no driver.


def edited_row(layout: str, row: Row, change: ChangeValue) -> Row:  # noqa: ARG001
    """The row with the values that `change` returns; the same row if they are equal.

    Raises `Unreadable` for a row that is no document.
    """
    found = MongoDocument(row)
    if row.table == CHECKPOINTS:
        found.edit("checkpoint", ValueKind.BODY, change, tag_field="type")
        found.edit("metadata", ValueKind.METADATA, change, tag="json")
        # LangGraph.js stores the metadata a second time, to search in them.
        found.edit("metadata_search", ValueKind.METADATA, change, document_tag="bson-plain")
    elif row.table == WRITES:
        found.edit("value", ValueKind.WRITE, change, tag_field="type")
    return found.row()
