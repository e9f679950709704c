"""Changes the values in keys of langgraph-checkpoint-plainredis."""

from __future__ import annotations

from ckpt_backends.apps.plainredis.parts import BLOBS, WRITES
from ckpt_backends.apps.plainredis.stored_values import stored_write, unwrapped, wrapped
from ckpt_backends.changes.rows import Cell, Row
from ckpt_backends.erasing.stored import EraseStored, PlacedValue, ValueKind
from ckpt_backends.redis.engine.keyspace import CHECKPOINT
from ckpt_backends.redis.engine.row_cells import ABOUT
from ckpt_backends.transfer.errors import CannotHold

_KINDS = {CHECKPOINT: ValueKind.WHOLE, WRITES: ValueKind.WHOLE_WRITE, BLOBS: ValueKind.VALUE}


def edited_row(layout: str, row: Row, erase: EraseStored) -> Row:  # noqa: ARG001
    """The row with the values that `erase` returns; the same row if they are equal.

    Raises `CannotHold` for a value that cannot be read.
    """
    kind = _KINDS.get(row.table)
    if kind is None:
        return row
    cells = {
        name: cell if name in ABOUT else _edited(row, name, cell, kind, erase)
        for name, cell in row.cells.items()
    }
    return row if cells == row.cells else Row(row.table, cells)


def _edited(row: Row, name: str, cell: Cell, kind: ValueKind, erase: EraseStored) -> Cell:
    if not isinstance(cell, bytes):
        return cell
    stored = unwrapped(cell)
    key = str(row.cells["key"])
    if stored.problem:
        raise CannotHold(f"the key '{key}' cannot be read: {stored.problem}")
    channel = ""
    if kind is ValueKind.WHOLE_WRITE:
        channel = stored_write(stored)[0]
    elif kind is ValueKind.VALUE:
        # The key ends with the channel and its version. A namespace may contain colons, too.
        channel = key.rsplit(":", 2)[-2]
    made = erase(PlacedValue(kind, stored, f"{key}\0{name}", channel))
    return cell if made is stored else wrapped(made)
