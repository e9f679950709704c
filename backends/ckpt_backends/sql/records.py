"""What the rows of LangGraph's SQL savers hold: the records of a thread, and the values in them."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

from ckpt_backends.errors import Unsupported
from ckpt_backends.model import CheckpointKey, Record, TypedBytes
from ckpt_backends.rows import Cell, ChangeValue, PlacedValue, Row, ValueKind
from ckpt_backends.sql.tables import BLOBS, CHECKPOINTS, WRITES
from ckpt_backends.transfer.bodies import version_text
from ckpt_backends.transfer.form import CannotHold

Cells: TypeAlias = Sequence[Any]


def _text(cell: Cell) -> str:
    if isinstance(cell, str):
        return cell
    if isinstance(cell, bytes):
        return cell.decode("utf-8", "surrogateescape")
    return "" if cell is None else str(cell)


def _bytes(cell: Cell) -> bytes:
    if isinstance(cell, bytes):
        return cell
    return b"" if cell is None else str(cell).encode("utf-8", "surrogatepass")


def _text_or_null(cell: Cell) -> str | None:
    return None if cell is None else str(cell)


def _json(cell: Cell) -> str | bytes:
    return cell if isinstance(cell, bytes) else _text(cell)


def _number(cell: Cell) -> Cell:
    return 0 if cell is None else cell


def _writes(rows: Iterable[Cells]) -> Iterator[Record]:
    """The writes of these rows. Raises `CannotHold` if the number of one is none."""
    key = CheckpointKey("", "", "")
    for thread_id, ns, checkpoint_id, task_id, idx, task_path, channel, tag, value in rows:
        if (
            checkpoint_id != key.checkpoint_id
            or thread_id != key.thread_id
            or ns != key.checkpoint_ns
        ):
            # Writes of one checkpoint come together.
            key = CheckpointKey(thread_id, ns, checkpoint_id)
        if not isinstance(idx, int):
            raise CannotHold(f"a write of task '{task_id}' has no number")
        yield Record.write(key, task_id, task_path, idx, channel, TypedBytes(tag, value))


def _checkpoints(rows: Iterable[Cells]) -> Iterator[Record]:
    for thread_id, ns, checkpoint_id, parent, tag, body, metadata in rows:
        yield Record.checkpoint(
            CheckpointKey(thread_id, ns, checkpoint_id),
            parent,
            # PostgreSQL and MySQL store bodies as JSON, without a type.
            TypedBytes("json", _bytes(body)) if isinstance(body, str) else TypedBytes(tag, body),
            TypedBytes("json", _bytes(metadata) or b"{}"),
        )


def _values(rows: Iterable[Cells]) -> Iterator[Record]:
    for thread_id, ns, channel, version, tag, value in rows:
        yield Record.apart(thread_id, ns, channel, version, TypedBytes(tag, value))


class _Records(NamedTuple):
    """How the rows of a table hold records."""

    columns: Mapping[str, Callable[[Cell], object]]
    """What makes a cell of each column be of its usual type, in the order that `read` takes."""
    usual: Collection[tuple[type, ...]]
    """The types of usual cells. Asking for those of a row takes a fraction of converting it."""
    read: Callable[[Iterable[Cells]], Iterator[Record]]
    optional: Collection[str] = ()
    """The columns that only some savers have."""

    def parts(self, rows: Iterable[Cells]) -> Iterator[Record]:
        """The records of rows with these columns; in place of an optional one, they have NULL."""
        return self.read(map(self._usual, rows))

    def _usual(self, cells: Cells) -> Cells:
        """Raises TypeError for cells that only a hostile server sends."""
        if tuple(map(type, cells)) in self.usual:
            return cells
        if not all(isinstance(cell, _CELLS) for cell in cells):
            raise TypeError("a cell of a row")
        return [convert(one) for convert, one in zip(self.columns.values(), cells, strict=True)]

    def cells(self, row: Row) -> Cells:
        """The cells of a stored or archived row."""
        cells = row.cells
        return [cells.get(one) if one in self.optional else cells[one] for one in self.columns]


_Null = type(None)
_CELLS = (str, bytes, int, float, _Null)
"""The types that a cell of a row may have."""
_SPACE = dict.fromkeys(("thread_id", "checkpoint_ns"), _text)
_KEY = {**_SPACE, "checkpoint_id": _text}
_TASK = {"task_id": _text, "idx": _number, "task_path": _text, "channel": _text, "type": _text}
_WRITE_TYPES = {(str, str, str, str, int, str, str, str, bytes)}
RECORDS: Mapping[str, _Records] = {
    BLOBS: _Records(
        {**_SPACE, **dict.fromkeys(("channel", "version", "type"), _text), "blob": _bytes},
        {(str, str, str, str, str, bytes)},
        _values,
    ),
    WRITES: _Records({**_KEY, **_TASK, "blob": _bytes}, _WRITE_TYPES, _writes, {"task_path"}),
    "writes": _Records({**_KEY, **_TASK, "value": _bytes}, _WRITE_TYPES, _writes, {"task_path"}),
    CHECKPOINTS: _Records(
        _KEY
        | {"parent_checkpoint_id": _text_or_null, "type": _text}
        | {"checkpoint": _json, "metadata": _bytes},
        {
            (str, str, str, parent, *body, metadata)
            for parent in (str, _Null)
            for body in ((str, bytes), (str, str), (_Null, str))
            for metadata in (str, bytes)
        },
        _checkpoints,
        {"parent_checkpoint_id", "type"},
    ),
}
"""By the name of a table, what its rows hold."""


def records_of(layout: str, rows: Iterable[Row]) -> Iterator[Record]:
    """The records that the rows of one thread hold. Raises `Unsupported` for unknown tables."""
    found = _full(rows) if layout.endswith("-shallow") else rows
    for table, some in groupby(found, attrgetter("table")):
        if table not in RECORDS:
            raise Unsupported(f"a row of the unknown table '{table}'")
        yield from RECORDS[table].parts(map(RECORDS[table].cells, some))


def _full(rows: Iterable[Row]) -> Iterator[Row]:
    """The rows of a thread without history, with the columns of the full layout.

    They are those of its newest checkpoints. Values have no version of their own: they are those of
    the checkpoint's versions.
    """
    held = sorted(rows, key=lambda row: row.table == CHECKPOINTS)  # a thread has one state
    bodies = {
        row.cells["checkpoint_ns"]: json.loads(_text(row.cells["checkpoint"]))
        for row in held
        if row.table == CHECKPOINTS
    }
    for row in held:
        cells, body = row.cells, bodies.get(row.cells["checkpoint_ns"])
        if body is None:
            continue
        if row.table == CHECKPOINTS:
            yield Row(row.table, {**cells, "checkpoint_id": str(body["id"])})
        elif row.table == BLOBS:
            versions = body.get("channel_versions") or {}
            if (version := versions.get(cells["channel"])) is not None:
                yield Row(row.table, {**cells, "version": version_text(version)})
        elif cells["checkpoint_id"] == body["id"]:
            yield row


# Changes the values in rows of LangGraph's SQL savers.


_NAMES = ("thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "idx", "channel", "version")


def edited_row(layout: str, row: Row, change: ChangeValue) -> Row:  # noqa: ARG001
    """The row with the values that `change` returns; the same row if they are equal."""
    cells = row.cells
    if row.table != CHECKPOINTS:
        return edited_value(row, "value" if "value" in cells else "blob", change)
    # PostgreSQL and MySQL store bodies as JSON, without a type.
    body_type = "type" if isinstance(cells.get("checkpoint"), bytes) else ""
    metadata_type = "metadata_type" if "metadata_type" in cells else ""
    row = _edited(row, "checkpoint", body_type, ValueKind.BODY, change)
    return _edited(row, "metadata", metadata_type, ValueKind.METADATA, change)


def edited_value(row: Row, column: str, change: ChangeValue) -> Row:
    """The row of a write or of a separate value, whose bytes are in this column."""
    kind = ValueKind.VALUE if row.table == BLOBS else ValueKind.WRITE
    return _edited(row, column, "type", kind, change)


def _edited(row: Row, column: str, tag: str, kind: ValueKind, change: ChangeValue) -> Row:
    """The row with a new value. `tag` is the column of its type; `''` if it is JSON."""
    stored = row.cells.get(column)
    if not isinstance(stored, str | bytes):
        return row
    place = "\0".join([row.table, *(str(row.cells.get(name)) for name in _NAMES), column])
    found = TypedBytes(_text(row.cells.get(tag)) if tag else "json", _bytes(stored))
    made = change(PlacedValue(kind, found, place, _text(row.cells.get("channel"))))
    if made is found:
        return row
    is_bytes = isinstance(stored, bytes)
    data = made.data if is_bytes else made.data.decode("utf-8", "surrogatepass")
    cells = {**row.cells, column: data, **({tag: made.type} if tag else {})}
    return row if cells == row.cells else Row(row.table, cells)
