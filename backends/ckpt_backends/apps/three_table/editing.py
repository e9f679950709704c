"""Changes the values in rows of the three-table layout. Its checkpoints have no body."""

from __future__ import annotations

from ckpt_backends.apps.three_table.layout import VALUE
from ckpt_backends.changes.rows import Row
from ckpt_backends.erasing.stored import EraseStored
from ckpt_backends.sql.blob_tables import CHECKPOINTS
from ckpt_backends.sql.editing import edited_value


def edited_row(layout: str, row: Row, erase: EraseStored) -> Row:  # noqa: ARG001
    """The row with the value that `erase` returns; the same row if it is equal."""
    return row if row.table == CHECKPOINTS else edited_value(row, VALUE, erase)
