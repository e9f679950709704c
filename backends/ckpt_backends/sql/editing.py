"""Changes the values in rows of LangGraph's SQL savers."""

from __future__ import annotations

from ckpt_backends.changes.rows import Cell, Row
from ckpt_backends.erasing.stored import EraseStored, PlacedValue, ValueKind
from ckpt_backends.model import TypedBytes
from ckpt_backends.sql.blob_tables import BLOBS, CHECKPOINTS

_NAMES = ("thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "idx", "channel", "version")


def edited_row(layout: str, row: Row, erase: EraseStored) -> Row:  # noqa: ARG001
    """The row with the values that `erase` returns; the same row if they are equal."""
    if row.table != CHECKPOINTS:
        return edited_value(row, "value" if "value" in row.cells else "blob", erase)
    cells = dict(row.cells)
    place = _place(row)
    if "checkpoint" in cells:
        # PostgreSQL and MySQL store bodies as JSON, without a type.
        tag = _text(cells.get("type")) if isinstance(cells["checkpoint"], bytes) else "json"
        _edit(cells, "checkpoint", tag, ValueKind.BODY, place, erase)
    if "metadata" in cells:
        _edit(cells, "metadata", "json", ValueKind.METADATA, place, erase)
    return row if cells == row.cells else Row(row.table, cells)


def edited_value(row: Row, column: str, erase: EraseStored) -> Row:
    """The row of a write or of a separate value, whose bytes are in this column."""
    cells = dict(row.cells)
    kind = ValueKind.VALUE if row.table == BLOBS else ValueKind.WRITE
    _edit(cells, column, _text(cells.get("type")), kind, _place(row), erase)
    return row if cells == row.cells else Row(row.table, cells)


def _place(row: Row) -> str:
    return "\0".join([row.table, *(str(row.cells.get(name)) for name in _NAMES)])


def _edit(
    cells: dict[str, Cell], column: str, tag: str, kind: ValueKind, place: str, erase: EraseStored
) -> None:
    stored = cells[column]
    if not isinstance(stored, str | bytes):
        return
    data = stored if isinstance(stored, bytes) else stored.encode("utf-8", "surrogatepass")
    channel = _text(cells.get("channel"))
    found = TypedBytes(tag, data)
    made = erase(PlacedValue(kind, found, f"{place}\0{column}", channel))
    if made is not found:
        is_bytes = isinstance(stored, bytes)
        cells[column] = made.data if is_bytes else made.data.decode("utf-8", "surrogatepass")


def _text(cell: Cell) -> str:
    if isinstance(cell, bytes):
        return cell.decode("utf-8", "surrogateescape")
    return "" if cell is None else str(cell)
