"""Changes the values in hashes."""

from __future__ import annotations

from ckpt_backends.changes.rows import Cell, Row
from ckpt_backends.erasing.stored import EraseStored, PlacedValue, ValueKind
from ckpt_backends.model import TypedBytes
from ckpt_backends.redis.engine.keyspace import CHECKPOINT, text
from ckpt_backends.redis.engine.row_cells import MEMBER


def edited_row(layout: str, row: Row, erase: EraseStored) -> Row:  # noqa: ARG001
    """The row with the values that `erase` returns; the same row if they are equal."""
    cells = dict(row.cells)
    if row.table == CHECKPOINT:
        metadata_type = _text(cells, "metadata_type") or "json"
        _edit(cells, "checkpoint", _text(cells, "type"), ValueKind.BODY, erase)
        _edit(cells, "metadata", metadata_type, ValueKind.METADATA, erase)
    else:
        _edit(cells, "value", _text(cells, "type"), ValueKind.WRITE, erase)
    return row if cells == row.cells else Row(row.table, cells)


def _edit(
    cells: dict[str, Cell], field: str, tag: str, kind: ValueKind, erase: EraseStored
) -> None:
    data = cells.get(MEMBER + field)
    if isinstance(data, bytes):
        stored = TypedBytes(tag, data)
        channel = _text(cells, "channel")
        made = erase(PlacedValue(kind, stored, f"{cells['key']!s}\0{field}", channel))
        cells[MEMBER + field] = made.data


def _text(cells: dict[str, Cell], field: str) -> str:
    cell = cells.get(MEMBER + field)
    return text(cell) if isinstance(cell, bytes) else ""
