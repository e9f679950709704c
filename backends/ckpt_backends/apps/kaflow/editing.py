"""Changes the values in documents of KaFlow. Needs no driver."""

from __future__ import annotations

from ckpt_backends.changes.rows import Row
from ckpt_backends.erasing.stored import EraseStored, ValueKind
from ckpt_backends.mongodb.engine.document_editing import EditedDocument


def edited_row(layout: str, row: Row, erase: EraseStored) -> Row:  # noqa: ARG001
    """The row with the values that `erase` returns; the same row if they are equal.

    Raises `CannotHold` for a document that cannot be read.
    """
    found = EditedDocument(row, erase)
    found.edit("checkpoint_data", "pickle", ValueKind.BODY)
    found.edit("metadata", "json", ValueKind.METADATA, document_tag="bson-plain")
    return found.row()
