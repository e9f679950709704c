"""Changes the values in documents of LangGraph's savers. Needs no driver."""

from __future__ import annotations

from ckpt_backends.changes.rows import Row
from ckpt_backends.erasing.stored import EraseStored, ValueKind
from ckpt_backends.mongodb.engine.document_editing import EditedDocument
from ckpt_backends.mongodb.engine.layout import CHECKPOINTS, WRITES


def edited_row(layout: str, row: Row, erase: EraseStored) -> Row:  # noqa: ARG001
    """The row with the values that `erase` returns; the same row if they are equal.

    Raises `CannotHold` for a document that cannot be read.
    """
    found = EditedDocument(row, erase)
    if row.table == CHECKPOINTS:
        found.edit("checkpoint", found.text("type"), ValueKind.BODY)
        found.edit("metadata", "json", ValueKind.METADATA)
        # LangGraph.js stores the metadata a second time, to search in them.
        found.edit("metadata_search", "json", ValueKind.METADATA, document_tag="bson-plain")
    elif row.table == WRITES:
        found.edit("value", found.text("type"), ValueKind.WRITE)
    return found.row()
