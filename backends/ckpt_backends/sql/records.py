"""The parts of a thread in the rows of LangGraph's SQL savers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from ckpt_backends.errors import Unsupported
from ckpt_backends.model import CheckpointKey, Record, TypedBytes, in_chunks
from ckpt_backends.rows import Cell, ChangeValue, PlacedValue, Row, ValueKind
from ckpt_backends.servers import understood
from ckpt_backends.sql.database import Database
from ckpt_backends.sql.tables import (
    BLOBS,
    CHECKPOINTS,
    THREADS_PER_QUERY,
    WRITES,
    SqlTable,
    SqlTables,
)
from ckpt_backends.transfer.bodies import version_text
from ckpt_backends.transfer.form import CannotHold
from ckpt_backends.url import StoreUrl


def parts_of(layout: str, rows: Iterable[Row]) -> Iterator[Record]:
    """The parts that the rows of one thread hold. Raises `Unsupported` for unknown tables."""
    if layout.endswith("-shallow"):
        yield from _shallow(rows)
        return
    key = CheckpointKey("", "", "")
    for row in rows:
        cells = row.cells
        match row.table:
            case "writes" | "checkpoint_writes":
                # Writes of one checkpoint come together.
                key = _key(cells, key)
                yield _write(cells, key)
            case "checkpoints":
                yield _checkpoint(cells, _key(cells, key))
            case "checkpoint_blobs":
                yield _value(cells, str(cells["version"]))
            case other:
                raise Unsupported(f"a row of the unknown table '{other}'")


def _shallow(rows: Iterable[Row]) -> Iterator[Record]:
    """The parts of a thread without history: its newest checkpoints, with their writes.

    Values have no version of their own: they are those of the checkpoint's versions.
    """
    held = list(rows)  # a thread has one state
    heads: dict[str, tuple[CheckpointKey, Mapping[str, Cell], Any]] = {}
    for row in held:
        if row.table == CHECKPOINTS:
            body = json.loads(_text(row.cells["checkpoint"]))
            key = CheckpointKey(_text(row.cells["thread_id"]), _ns(row.cells), str(body["id"]))
            heads[key.checkpoint_ns] = key, row.cells, body.get("channel_versions") or {}
    for row in held:
        found = heads.get(_ns(row.cells))
        if found is None:
            continue
        key, _, versions = found
        if row.table == BLOBS and (version := versions.get(row.cells["channel"])) is not None:
            yield _value(row.cells, version_text(version))
        elif row.table == WRITES and row.cells["checkpoint_id"] == key.checkpoint_id:
            yield _write(row.cells, key)
    for key, cells, _ in heads.values():
        yield _checkpoint(cells, key)


def _checkpoint(cells: Mapping[str, Cell], key: CheckpointKey) -> Record:
    parent = cells.get("parent_checkpoint_id")
    # PostgreSQL and MySQL store bodies as JSON, without a type.
    tag = cells.get("type") if isinstance(cells["checkpoint"], bytes) else "json"
    return Record.checkpoint(
        key,
        None if parent is None else str(parent),
        TypedBytes(_text(tag), _bytes(cells["checkpoint"])),
        TypedBytes("json", _bytes(cells["metadata"]) or b"{}"),
    )


def _write(cells: Mapping[str, Cell], key: CheckpointKey) -> Record:
    """A write. Raises `CannotHold` if its number is none."""
    value = cells["value"] if "value" in cells else cells["blob"]
    number = 0 if cells["idx"] is None else cells["idx"]
    if not isinstance(number, int):
        raise CannotHold(f"a write of task '{_text(cells['task_id'])}' has no number")
    return Record.write(
        key,
        _text(cells["task_id"]),
        _text(cells.get("task_path")),
        number,
        _text(cells["channel"]),
        TypedBytes(_text(cells["type"]), _bytes(value)),
    )


def _value(cells: Mapping[str, Cell], version: str) -> Record:
    return Record.apart(
        _text(cells["thread_id"]),
        _ns(cells),
        _text(cells["channel"]),
        version,
        TypedBytes(_text(cells["type"]), _bytes(cells["blob"])),
    )


def _key(cells: Mapping[str, Cell], last: CheckpointKey) -> CheckpointKey:
    """The key of a row; the last one if they are equal."""
    checkpoint_id = _text(cells["checkpoint_id"])
    thread_id, ns = _text(cells["thread_id"]), _ns(cells)
    if (
        checkpoint_id == last.checkpoint_id
        and thread_id == last.thread_id
        and ns == last.checkpoint_ns
    ):
        return last
    return CheckpointKey(thread_id, ns, checkpoint_id)


def _ns(cells: Mapping[str, Cell]) -> str:
    return _text(cells["checkpoint_ns"])


def _text(cell: Cell) -> str:
    if cell.__class__ is str:  # as most cells are
        return cell
    if isinstance(cell, bytes):
        return cell.decode("utf-8", "surrogateescape")
    return "" if cell is None else str(cell)


def _bytes(cell: Cell) -> bytes:
    if isinstance(cell, bytes):
        return cell
    return b"" if cell is None else str(cell).encode("utf-8", "surrogatepass")


# Reads the parts of threads from the tables of a saver that keeps history.
#
# `parts.parts_of` says what the cells of a row mean. Rows with cells of the usual types become
# the same parts here, in a fraction of the time; any other row goes there.


Cells: TypeAlias = Sequence[Any]
_Unusual: TypeAlias = Callable[[Cells], Iterable[Record]]
"""What returns the parts of a row whose cells have other types."""
_None = type(None)
_CELLS = (str, bytes, int, float, _None)
"""The types that a cell of a row may have."""
_KEY = ("thread_id", "checkpoint_ns", "checkpoint_id")
_WRITE = (*_KEY, "task_id", "idx", "task_path", "channel", "type")
_WRITE_TYPES = {(str, str, str, str, int, str, str, str, bytes)}
_CHECKPOINT = (*_KEY, "parent_checkpoint_id", "type", "checkpoint", "metadata")
_CHECKPOINT_TYPES = {
    (str, str, str, parent, *body, metadata)
    for parent in (str, _None)
    for body in ((str, bytes), (str, str), (_None, str))
    for metadata in (str, bytes)
}
_VALUE = ("thread_id", "checkpoint_ns", "channel", "version", "type", "blob")
_VALUE_TYPES = {(str, str, str, str, str, bytes)}


class PartTables:
    """Reads parts of any number of threads."""

    def __init__(
        self,
        database: Database,
        tables: SqlTables,
        url: StoreUrl,
        rows: Callable[[SqlTable, str], Iterable[Cells]],
    ) -> None:
        """`rows` reads the rows of a thread of any size from a table, with the table's columns."""
        self._database = database
        self._tables = tables
        self._url = url
        self._rows = rows
        write = (*_WRITE, next(iter(tables.writes.sizes)))
        self._readers = [
            (_only(tables.writes, write), _writes),
            (_only(tables.checkpoints, _CHECKPOINT), _checkpoints),
        ]
        if tables.blobs:
            self._readers.insert(0, (_only(tables.blobs, _VALUE), _values))

    def parts_of(self, thread_ids: Sequence[str], *, together: bool) -> Iterator[Record]:
        """The parts of some threads. Those of several are in memory at once if read `together`."""
        asked = list(filter(self._database.storable, thread_ids))
        with understood(self._url):
            if self._tables.shallow:
                for one in asked:
                    yield from parts_of(self._tables.layout, self._whole_rows(one))
            elif together and len(asked) > 1:
                for some in in_chunks(asked, THREADS_PER_QUERY):
                    yield from self._parts(partial(self._rows_of, some))
            else:
                for one in asked:
                    yield from self._parts(partial(self._rows_of_one, one))

    def _parts(self, rows: Callable[[SqlTable], Iterable[Cells]]) -> Iterator[Record]:
        for table, read in self._readers:
            yield from read(rows(table), partial(self._unusual, table))

    def _rows_of_one(self, thread_id: str, table: SqlTable) -> Iterable[Cells]:
        return self._rows(table, thread_id)

    def _rows_of(self, thread_ids: Sequence[str], table: SqlTable) -> Iterable[Cells]:
        where, values = self._database.among("c.thread_id", "t", thread_ids)
        query = f"SELECT {', '.join(table.columns.values())} FROM {table.sql} c WHERE {where}"
        return self._database.rows(query, values)

    def _unusual(self, table: SqlTable, cells: Cells) -> Iterator[Record]:
        """The parts of a row. Raises TypeError for cells that only a hostile server sends."""
        if not all(isinstance(cell, _CELLS) for cell in cells):
            raise TypeError("a cell of a row")
        yield from parts_of(self._tables.layout, [_row(table, cells)])

    def _whole_rows(self, thread_id: str) -> Iterator[Row]:
        for table in self._tables.all:
            for cells in self._rows(table, thread_id):
                yield _row(table, cells)


def _row(table: SqlTable, cells: Cells) -> Row:
    return Row(table.name, dict(zip(table.columns, cells, strict=True)))


def _only(table: SqlTable, columns: Sequence[str]) -> SqlTable:
    """A table with these columns; one that it does not have is NULL."""
    return table._replace(columns={name: table.columns.get(name, "NULL") for name in columns})


def _writes(rows: Iterable[Cells], unusual: _Unusual) -> Iterator[Record]:
    key = CheckpointKey("", "", "")
    for cells in rows:
        if tuple(map(type, cells)) not in _WRITE_TYPES:
            yield from unusual(cells)
            continue
        thread_id, ns, checkpoint_id, task_id, idx, task_path, channel, tag, value = cells
        if (
            checkpoint_id != key.checkpoint_id
            or thread_id != key.thread_id
            or ns != key.checkpoint_ns
        ):
            # Writes of one checkpoint come together.
            key = CheckpointKey(thread_id, ns, checkpoint_id)
        yield Record.write(key, task_id, task_path, idx, channel, TypedBytes(tag, value))


def _checkpoints(rows: Iterable[Cells], unusual: _Unusual) -> Iterator[Record]:
    for cells in rows:
        if tuple(map(type, cells)) not in _CHECKPOINT_TYPES:
            yield from unusual(cells)
            continue
        thread_id, ns, checkpoint_id, parent, tag, body, metadata = cells
        yield Record.checkpoint(
            CheckpointKey(thread_id, ns, checkpoint_id),
            parent,
            # PostgreSQL and MySQL store bodies as JSON, without a type.
            TypedBytes("json", _json(body)) if body.__class__ is str else TypedBytes(tag, body),
            TypedBytes("json", _json(metadata) or b"{}"),
        )


def _values(rows: Iterable[Cells], unusual: _Unusual) -> Iterator[Record]:
    for cells in rows:
        if tuple(map(type, cells)) not in _VALUE_TYPES:
            yield from unusual(cells)
            continue
        thread_id, ns, channel, version, tag, value = cells
        yield Record.apart(thread_id, ns, channel, version, TypedBytes(tag, value))


def _json(cell: str | bytes) -> bytes:
    return cell if isinstance(cell, bytes) else cell.encode("utf-8", "surrogatepass")


# Changes the values in rows of LangGraph's SQL savers.


_NAMES = ("thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "idx", "channel", "version")


def edited_row(layout: str, row: Row, change: ChangeValue) -> Row:  # noqa: ARG001
    """The row with the values that `change` returns; the same row if they are equal."""
    if row.table != CHECKPOINTS:
        return edited_value(row, "value" if "value" in row.cells else "blob", change)
    cells = dict(row.cells)
    if "checkpoint" in cells:
        # PostgreSQL and MySQL store bodies as JSON, without a type.
        tag = "type" if isinstance(cells["checkpoint"], bytes) else ""
        _edit(row, cells, "checkpoint", tag, ValueKind.BODY, change)
    if "metadata" in cells:
        tag = "metadata_type" if "metadata_type" in cells else ""
        _edit(row, cells, "metadata", tag, ValueKind.METADATA, change)
    return row if cells == row.cells else Row(row.table, cells)


def edited_value(row: Row, column: str, change: ChangeValue) -> Row:
    """The row of a write or of a separate value, whose bytes are in this column."""
    cells = dict(row.cells)
    kind = ValueKind.VALUE if row.table == BLOBS else ValueKind.WRITE
    _edit(row, cells, column, "type", kind, change)
    return row if cells == row.cells else Row(row.table, cells)


def _edit(
    row: Row, cells: dict[str, Cell], column: str, tag: str, kind: ValueKind, change: ChangeValue
) -> None:
    """Change the value of a column. `tag` is the column of its type; `''` if it is JSON."""
    stored = cells[column]
    if not isinstance(stored, str | bytes):
        return
    place = "\0".join([row.table, *(str(cells.get(name)) for name in _NAMES), column])
    found = TypedBytes(_text(cells.get(tag)) if tag else "json", _bytes(stored))
    made = change(PlacedValue(kind, found, place, _text(cells.get("channel"))))
    if made is not found:
        is_bytes = isinstance(stored, bytes)
        cells[column] = made.data if is_bytes else made.data.decode("utf-8", "surrogatepass")
        if tag:
            cells[tag] = made.type
