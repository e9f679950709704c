"""Reads and changes DuckDB files."""

import os
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Unpack

import duckdb
from ckpt_backends import model
from ckpt_backends.base import BaseStore
from ckpt_backends.errors import StoreUnavailable, UnknownLayout
from ckpt_backends.protocol import CheckpointOptions, CheckpointQuery, WriteOptions, WriteQuery
from ckpt_backends.records import WritableRowStore
from ckpt_backends.rows import Cell, Row
from ckpt_backends.url import StoreUrl

from ckpt_duckdb.declaration import BACKEND

KEY = ("thread_id", "checkpoint_ns", "checkpoint_id")
COLUMNS = {
    "writes": (*KEY, "task_id", "task_path", "idx", "channel", "type", "value"),
    "checkpoints": (*KEY, "parent_checkpoint_id", "type", "checkpoint", "metadata"),
}
ASKED = """thread_id = $thread AND ($ns IS NULL OR checkpoint_ns = $ns)
    AND ($ids IS NULL OR list_contains($ids::VARCHAR[], checkpoint_id))"""
THREADS = """SELECT thread_id, max(checkpoint_id) FILTER (checkpoint_ns = ''), min(checkpoint_id),
    max(checkpoint_id) AS newest, count(*), count(DISTINCT checkpoint_ns) FROM checkpoints WHERE
    $only IS NULL OR thread_id = $only GROUP BY thread_id ORDER BY newest DESC, thread_id LIMIT $limit"""
CHECKPOINTS = f"""SELECT {", ".join(KEY)}, parent_checkpoint_id, {{}}, {{}} FROM checkpoints
    WHERE {ASKED} ORDER BY checkpoint_ns, checkpoint_id DESC"""
WRITES = f"""SELECT {", ".join(KEY)}, task_id, task_path, idx, channel, octet_length(value), type,
    CASE WHEN $read IS NULL OR list_contains($read::VARCHAR[], channel) THEN value END FROM writes
    WHERE {ASKED} AND ($names IS NULL OR list_contains($names::VARCHAR[], channel))
    ORDER BY checkpoint_ns, checkpoint_id, task_path, task_id, idx"""


def connect(path: str, *, read_only: bool = False) -> duckdb.DuckDBPyConnection:
    """Connect to a file. DuckDB locks all of it: waits 5 seconds for other processes."""
    end = time.monotonic() + 5
    while True:
        try:
            return duckdb.connect(path, read_only, {"enable_external_access": False})
        except duckdb.IOException as error:
            if "lock" not in str(error) or time.monotonic() > end:
                raise
            time.sleep(0.05)


def open_store(url: StoreUrl) -> "DuckDBStore":
    """Open a file for reading. Raises `StoreUnavailable` or `UnknownLayout`."""
    with DuckDBStore(url) as store:
        found = {name for (name,) in store.select("SELECT table_name FROM duckdb_tables()")}
    if not found.issuperset(COLUMNS):
        raise UnknownLayout(f"no checkpoints in '{url}'", hint=f"found the tables {sorted(found)}")
    return store  # it connects again at the next read


class DuckDBStore(BaseStore):
    """A DuckDB file. It is connected, and so locked, from the first read until `refresh`."""

    columns = COLUMNS

    def __init__(self, url: StoreUrl, *, read_only: bool = True) -> None:
        self._url, self._read_only = url, read_only
        self._connection: duckdb.DuckDBPyConnection | None = None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    refresh = close  # the next read connects again

    def select(self, query: str, **values: Any) -> Iterator[Any]:
        """Yield rows, one at a time. A driver's exception never leaves the adapter."""
        try:
            if self._connection is None:
                self._connection = connect(self._url.path, read_only=self._read_only)
            if self._read_only:  # a connection has one result at a time, so each query has its own
                yield from iter(self._connection.cursor().execute(query, values).fetchone, None)
            else:  # another connection would not see what the transaction changed
                yield from self._connection.execute(query, values).fetchall()
        except duckdb.Error as error:
            if "surrogate" in str(error) and self._read_only:
                return  # an id with half a surrogate pair, which no store holds
            raise StoreUnavailable(f"cannot use '{self._url}': {error}") from error

    def describe(self) -> model.StoreInfo:
        return model.StoreInfo(
            layout="duckdb",
            url=str(self._url),
            engine=f"DuckDB {duckdb.__version__}",
            saver="DuckDBSaver",
            capabilities=BACKEND.layouts["duckdb"],
            tables=tuple(COLUMNS),
            size=os.path.getsize(self._url.path),
        )

    def threads(
        self, *, limit: int | None = None, only: str | None = None
    ) -> Iterator[model.Thread]:
        for name, head, first, last, *counts in self.select(THREADS, only=only, limit=limit):
            yield model.Thread(name, head, first, last, *counts)

    def thread(self, thread_id: str) -> model.Thread | None:
        return next(self.threads(only=thread_id), None)

    def checkpoints(
        self, thread_id: str, **options: Unpack[CheckpointOptions]
    ) -> Iterator[model.Checkpoint]:
        asked = CheckpointQuery(**options)
        place = {"thread": thread_id, "ns": asked.checkpoint_ns, "ids": _list(asked.checkpoint_ids)}
        body = "type, checkpoint" if asked.body else "NULL, NULL"
        query = CHECKPOINTS.format(body, "metadata" if asked.metadata else "NULL")
        for *key, parent, tag, data, about in self.select(query, **place):
            typed = model.TypedBytes(tag, data) if asked.body else None
            metadata = model.TypedBytes("json", about.encode()) if asked.metadata else None
            yield model.Checkpoint(model.CheckpointKey(*key), parent, typed, metadata)

    def writes(self, thread_id: str, **options: Unpack[WriteOptions]) -> Iterator[model.Write]:
        asked = WriteQuery(**options)
        place = {"thread": thread_id, "ns": asked.checkpoint_ns, "ids": _list(asked.checkpoint_ids)}
        chosen = {"names": _list(asked.channels), "read": _list(asked.values)}
        for *key, task, path, n, name, size, tag, data in self.select(WRITES, **place, **chosen):
            value = None if data is None else model.TypedBytes(tag, data)
            yield model.Write(model.CheckpointKey(*key), task, path, n, name, size, value)

    def rows(self, thread_id: str) -> Iterator[Row]:
        for table, columns in COLUMNS.items():  # checkpoints come last
            query = f"SELECT {', '.join(columns)} FROM {table} WHERE thread_id = $thread"
            for cells in self.select(query, thread=thread_id):
                yield Row(table, dict(zip(columns, cells, strict=True)))


class WritableDuckDBStore(WritableRowStore):
    """A DuckDB file, opened for changing. It is connected, and so locked, during a transaction."""

    def __init__(self, url: StoreUrl) -> None:
        open_store(url)  # checks the layout
        self._file = DuckDBStore(url, read_only=False)
        super().__init__(self._file)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with self._file:  # closing it rolls back what is not committed
            self._run("BEGIN")
            yield
            self._run("COMMIT")

    def insert(self, row: Row) -> None:
        marks = ", ".join(f"${column}" for column in row.cells)
        self._run(f"INSERT INTO {row.table} ({', '.join(row.cells)}) VALUES ({marks})", row)

    def delete(self, table: str, where: Mapping[str, Sequence[Cell]]) -> int:
        only = " AND ".join(f"list_contains(${column}, {column})" for column in where)
        cells = {column: list(some) for column, some in where.items()}
        ((number,),) = self._file.select(f"DELETE FROM {table} WHERE {only}", **cells)
        return int(number)

    def row_of(self, record: model.Record) -> Row:
        value = record.value.type, record.value.data
        if record.kind is model.Kind.CHECKPOINT:
            table = "checkpoints"
            cells: tuple[Cell, ...] = (record.parent, *value, record.metadata.data.decode())
        else:
            table = "writes"
            cells = (record.task_id, record.task_path, record.idx, record.channel, *value)
        return Row(table, dict(zip(COLUMNS[table], (*record.key, *cells), strict=True)))

    def _run(self, statement: str, row: Row | None = None) -> None:
        list(self._file.select(statement, **(row.cells if row else {})))


def _list(chosen: bool | Collection[str] | None) -> list[str] | None:
    """Names as a parameter for SQL; None for all."""
    return None if chosen is None or chosen is True else [*(chosen or ())]
