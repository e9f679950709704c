"""Reads the parts of threads from the tables of a saver that keeps history.

`parts.parts_of` says what the cells of a row mean. Rows with cells of the usual types become the
same parts here, in a fraction of the time; any other row goes there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias

from ckpt_backends.changes.rows import Row
from ckpt_backends.chunks import in_chunks
from ckpt_backends.model import CheckpointKey, TypedBytes
from ckpt_backends.servers.answer_errors import understood
from ckpt_backends.sql.database import Database
from ckpt_backends.sql.parts import parts_of
from ckpt_backends.sql.queries import SqlTable, SqlTables
from ckpt_backends.sql.stored_rows import THREADS_PER_QUERY
from ckpt_backends.transfer.digests import stored_cells
from ckpt_backends.transfer.parts import CheckpointPart, Part, ValuePart, WritePart
from ckpt_backends.url import StoreUrl

Cells: TypeAlias = Sequence[Any]
_Unusual: TypeAlias = Callable[[Cells], Iterable[Part]]
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
_STORED_CELLS = _WRITE_TYPES | _VALUE_TYPES
"""The types of rows that are the `stored_cells` of their part: the columns have the same order."""


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

    def parts_of(self, thread_ids: Sequence[str], *, together: bool) -> Iterator[Part]:
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

    def cells_of(self, thread_ids: Sequence[str]) -> Iterator[Cells]:
        """The `stored_cells` of the parts of some small threads, which are in memory at once."""
        if self._tables.shallow:
            yield from map(stored_cells, self.parts_of(thread_ids, together=False))
            return
        with understood(self._url):
            asked = filter(self._database.storable, thread_ids)
            for some in in_chunks(asked, THREADS_PER_QUERY):
                for table, read in self._readers:
                    rows, unusual = self._rows_of(some, table), partial(self._unusual, table)
                    if read is _checkpoints:
                        yield from map(stored_cells, read(rows, unusual))
                        continue
                    for cells in rows:
                        if tuple(map(type, cells)) in _STORED_CELLS:
                            yield cells
                        else:
                            yield from map(stored_cells, unusual(cells))

    def _parts(self, rows: Callable[[SqlTable], Iterable[Cells]]) -> Iterator[Part]:
        for table, read in self._readers:
            yield from read(rows(table), partial(self._unusual, table))

    def _rows_of_one(self, thread_id: str, table: SqlTable) -> Iterable[Cells]:
        return self._rows(table, thread_id)

    def _rows_of(self, thread_ids: Sequence[str], table: SqlTable) -> Iterable[Cells]:
        where, values = self._database.among("c.thread_id", "t", thread_ids)
        query = f"SELECT {', '.join(table.columns.values())} FROM {table.sql} c WHERE {where}"
        return self._database.rows(query, values)

    def _unusual(self, table: SqlTable, cells: Cells) -> Iterator[Part]:
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


def _writes(rows: Iterable[Cells], unusual: _Unusual) -> Iterator[Part]:
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
        yield WritePart(key, task_id, task_path, idx, channel, TypedBytes(tag, value))


def _checkpoints(rows: Iterable[Cells], unusual: _Unusual) -> Iterator[Part]:
    for cells in rows:
        if tuple(map(type, cells)) not in _CHECKPOINT_TYPES:
            yield from unusual(cells)
            continue
        thread_id, ns, checkpoint_id, parent, tag, body, metadata = cells
        yield CheckpointPart(
            CheckpointKey(thread_id, ns, checkpoint_id),
            parent,
            # PostgreSQL and MySQL store bodies as JSON, without a type.
            TypedBytes("json", _json(body)) if body.__class__ is str else TypedBytes(tag, body),
            TypedBytes("json", _json(metadata) or b"{}"),
        )


def _values(rows: Iterable[Cells], unusual: _Unusual) -> Iterator[Part]:
    for cells in rows:
        if tuple(map(type, cells)) not in _VALUE_TYPES:
            yield from unusual(cells)
            continue
        thread_id, ns, channel, version, tag, value = cells
        yield ValuePart(thread_id, ns, channel, version, TypedBytes(tag, value))


def _json(cell: str | bytes) -> bytes:
    return cell if isinstance(cell, bytes) else cell.encode("utf-8", "surrogatepass")
