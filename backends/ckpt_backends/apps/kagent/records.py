"""The parts of a thread in kagent's rows, and their values. Needs no driver."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping

from ckpt_backends.apps.kagent.layout import CHECKPOINTS, KEY, WRITES
from ckpt_backends.model import CheckpointKey, TypedBytes
from ckpt_backends.rows import Cell, ChangeValue, PlacedValue, Row, ValueKind, no_table
from ckpt_backends.transfer.form import CannotHold
from ckpt_backends.transfer.parts import CheckpointPart, Part, WritePart

_VALUES = {
    CHECKPOINTS: (
        (ValueKind.BODY, "checkpoint", "checkpoint_type"),
        (ValueKind.METADATA, "metadata", ""),
    ),
    WRITES: ((ValueKind.WRITE, "value", "value_type"),),
}
"""By table, the columns of values and of their types; metadata is JSON."""


def encoded(data: bytes) -> str:
    """The text that stores some bytes."""
    return b64encode(data).decode()


def decoded(tag: str, text: str) -> TypedBytes:
    """The value that a text stores, decoded as the saver does it."""
    try:
        return TypedBytes(tag, b64decode(text))
    except ValueError:
        return TypedBytes(tag, text.encode("utf-8", "surrogatepass"), problem="it is not base64")


def parts_of(layout: str, rows: Iterable[Row]) -> Iterator[Part]:  # noqa: ARG001
    """The parts that the rows of one thread hold. Raises `CannotHold` for damaged ones."""
    for row in rows:
        cells = row.cells
        key = CheckpointKey(*(_text(cells, name) for name in KEY[1:]))
        value, *metadata = (_value(cells, column, tag) for _, column, tag in _columns(row))
        if metadata:
            parent = cells.get("parent_checkpoint_id")
            yield CheckpointPart(key, None if parent is None else str(parent), value, metadata[0])
            continue
        idx = cells.get("write_idx")
        if not isinstance(idx, int):
            raise CannotHold(f"a write at checkpoint '{key.checkpoint_id}' has no number")
        yield WritePart(key, _text(cells, "task_id"), "", idx, _text(cells, "channel"), value)


def edited_row(layout: str, row: Row, change: ChangeValue) -> Row:  # noqa: ARG001
    """The row with the values that `change` returns; the same row if they are equal."""
    cells = dict(row.cells)
    place = "\0".join([row.table, *(str(cells.get(name)) for name in (*KEY, "write_idx"))])
    for kind, column, tag in _columns(row):
        found = _value(row.cells, column, tag)
        channel = str(cells.get("channel", ""))
        made = change(PlacedValue(kind, found, f"{place}\0{column}", channel))
        if made is not found:
            cells[column] = encoded(made.data)
            if tag:
                cells[tag] = made.type
    return row if cells == row.cells else Row(row.table, cells)


def _columns(row: Row) -> tuple[tuple[ValueKind, str, str], ...]:
    if row.table not in _VALUES:
        raise no_table(row.table)
    return _VALUES[row.table]


def _value(cells: Mapping[str, Cell], column: str, tag: str) -> TypedBytes:
    found = decoded(_text(cells, tag) if tag else "json", _text(cells, column))
    if found.problem:
        raise CannotHold(f"the column '{column}' of a row cannot be read: {found.problem}")
    return found


def _text(cells: Mapping[str, Cell], column: str) -> str:
    found = cells.get(column)
    if not isinstance(found, str):
        raise CannotHold(f"the column '{column}' of a row has no text")
    return found
