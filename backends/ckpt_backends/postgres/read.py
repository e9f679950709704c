"""Reads LangGraph's PostgreSQL layouts.

A body is JSONB and contains at most small values. The other values are in `checkpoint_blobs`, by
channel and version. All checkpoints with the same version of a channel share the same value.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any

from ckpt_backends.base import BaseStore
from ckpt_backends.changes.rows import Row, own_rows, sql_key
from ckpt_backends.checkpoint_ids import time_of
from ckpt_backends.codec.value_limit import MOST_BYTES
from ckpt_backends.model import (
    USERS,
    Blob,
    BlobKey,
    Capability,
    Checkpoint,
    CheckpointKey,
    StoreInfo,
    Thread,
    ThreadSize,
    Usage,
    Write,
)
from ckpt_backends.postgres import sql
from ckpt_backends.postgres.connect import PostgresConnection
from ckpt_backends.postgres.database import DatabaseReader
from ckpt_backends.postgres.layout import PostgresLayout, storable
from ckpt_backends.servers.answer_types import STORE, checked
from ckpt_backends.shell import is_shown
from ckpt_backends.sql.blob_tables import BLOBS, CHECKPOINTS, WRITES, json_bytes, typed
from ckpt_backends.url import StoreUrl

_FEW = 500
"""Up to this many rows are fetched with one query; more are read with a cursor."""
_LONG = 30
"""If threads have at least this many checkpoints on average, the query `WALKED` is used."""
_SHORT = f"octet_length(blob) <= {MOST_BYTES}"
"""PostgreSQL evaluates this without reading the value."""
_KEYS_AT_ONCE, _BODIES_AT_ONCE, _STATES_AT_ONCE = 5000, 200, 4
_parts = attrgetter("thread_id", "checkpoint_ns", "checkpoint_id")


@checked(*STORE)
class PostgresStore(DatabaseReader, BaseStore):
    """A PostgreSQL database, opened for reading."""

    sums_sizes = True

    def __init__(
        self, connection: PostgresConnection, url: StoreUrl, layout: PostgresLayout
    ) -> None:
        super().__init__(connection, url)
        self._layout = layout
        rows = layout.checkpoints.sql
        if layout.shallow:
            rows = sql.SHALLOW.format(checkpoints=rows)
        names = {"checkpoints": rows, "blobs": layout.blobs.sql, "writes": layout.writes.sql}
        # In a query with parameters, `%` must be written as `%%`.
        self._names = {name: text.replace("%", "%%") for name, text in names.items()}

    def describe(self) -> StoreInfo:
        layout = self._layout
        places = {f"s{n}": table.schema for n, table in enumerate(layout.tables)}
        places |= {f"t{n}": table.name for n, table in enumerate(layout.tables)}
        query = sql.DESCRIBE.format(checkpoints=layout.checkpoints.sql.replace("%", "%%"))
        ((size, mark),) = self._rows(query, **places)
        can = Capability.ENFORCED_READ_ONLY | Capability.WRITES
        can |= Capability(0) if layout.shallow else Capability.HISTORY
        can |= Capability(0) if layout.shallow or layout.unknown else Capability.ADDING
        can |= Capability.TASK_PATH if layout.task_path else Capability(0)
        return StoreInfo(
            layout=layout.name,
            url=str(self._url),
            engine=f"PostgreSQL {self._connection.version}",
            saver=_saver(layout, mark),
            capabilities=can,
            tables=tuple(f"{table.schema}.{table.name}" for table in layout.tables),
            size=size,
            notes=tuple(self.notes()),
        )

    def notes(self) -> Sequence[str]:
        unknown = self._layout.unknown
        return [f"columns of an unknown saver: {', '.join(unknown)}"] if unknown else []

    def threads(self, *, limit: int | None = None) -> Iterator[Thread]:
        if limit is not None and limit <= _FEW and not self._layout.shallow:
            newest = sql.WALKED if self._are_threads_long() else sql.SCANNED
            query = sql.NEWEST.format(**self._names, threads=newest.format(**self._names))
            yield from map(_thread, self._rows(query, limit=limit))
        else:
            query = sql.GROUPED.format(**self._names, where="")
            yield from map(_thread, self._stream(query, _KEYS_AT_ONCE, limit=limit))

    def _are_threads_long(self) -> bool:
        table = self._layout.checkpoints
        found = self._rows(sql.ROWS_PER_THREAD, schema=table.schema, table=table.name)
        return bool(found) and (found[0][0] or 0) >= _LONG

    def thread(self, thread_id: str) -> Thread | None:
        if not storable(thread_id):
            return None
        query = sql.GROUPED.format(**self._names, where="WHERE thread_id = %(thread)s")
        rows = self._rows(query, thread=thread_id, limit=1)
        return _thread(rows[0]) if rows else None

    def size(self, thread_id: str) -> ThreadSize:
        return self.sizes([thread_id])[0]

    def sizes(self, thread_ids: Sequence[str]) -> list[ThreadSize]:
        query = sql.SIZES.format(**self._names)
        found = {
            thread_id: ThreadSize(*size)
            for thread_id, *size in self._rows(query, threads=_storable_of(thread_ids))
        }
        return [found.get(one, ThreadSize(0, 0, 0)) for one in thread_ids]

    def checkpoint_sizes(self, thread_id: str) -> Iterator[tuple[CheckpointKey, ThreadSize]]:
        if not storable(thread_id):
            return
        query = sql.CHECKPOINT_SIZES.format(**self._names)
        for ns, checkpoint_id, *size in self._stream(query, _KEYS_AT_ONCE, thread=thread_id):
            yield CheckpointKey(thread_id, ns, checkpoint_id or ""), ThreadSize(*size)

    def usage(self, thread_id: str | None = None) -> Iterator[Usage]:
        if not storable(thread_id or ""):
            return
        where = "" if thread_id is None else "WHERE thread_id = %(thread)s"
        query = sql.USAGE.format(**self._names, where=where)
        ordered = f'SELECT * FROM ({query}) used ORDER BY thread_id COLLATE "C"'
        for thread, table, column, ns, channel, tag, rows, size in self._stream(
            ordered, _KEYS_AT_ONCE, thread=thread_id
        ):
            yield Usage(table, column, thread, ns, channel, tag, rows, size)

    def namespaces(self, thread_id: str) -> list[str]:
        if not storable(thread_id):
            return []
        rows = self._rows(sql.NAMESPACES.format(**self._names), thread=thread_id)
        return [ns for (ns,) in rows]

    def checkpoints(
        self,
        thread_id: str,
        *,
        checkpoint_ns: str | None = None,
        checkpoint_ids: Collection[str] | None = None,
        body: bool = False,
        metadata: bool = False,
        values: bool | Collection[str] = False,
    ) -> Iterator[Checkpoint]:
        columns, kept = self._columns(body=body, metadata=metadata, values=values)
        order = 'c.checkpoint_ns COLLATE "C", ' if checkpoint_ns is None else ""
        found = self._of_thread(
            f"SELECT c.checkpoint_ns, c.checkpoint_id, {columns}"
            f" FROM {self._names['checkpoints']} c {kept}",
            f" ORDER BY {order}c.checkpoint_id DESC",
            _STATES_AT_ONCE if body and values else _BODIES_AT_ONCE if body else _KEYS_AT_ONCE,
            "c.",
            thread_id,
            checkpoint_ns,
            checkpoint_ids,
            users=sorted(USERS),
            names=[] if isinstance(values, bool) else _storable_of(values),
        )
        for ns, checkpoint_id, *rest in found:
            key = CheckpointKey(thread_id, ns, checkpoint_id or "")
            yield _checkpoint(key, rest, body=body, metadata=metadata)

    def checkpoints_at(
        self, keys: Sequence[CheckpointKey], *, body: bool = False, metadata: bool = False
    ) -> Iterator[Checkpoint]:
        columns, kept = self._columns(body=body, metadata=metadata, values=False)
        table = f"{self._names['checkpoints']} c"
        found = self._at(keys, table, columns, kept, users=sorted(USERS))
        for key, rest in found:
            yield _checkpoint(key, rest, body=body, metadata=metadata)

    def _columns(
        self, *, body: bool, metadata: bool, values: bool | Collection[str]
    ) -> tuple[str, str]:
        """The columns of a checkpoint, and the JOIN for its values."""
        columns = ["c.parent_checkpoint_id"]
        columns += ["c.checkpoint::text" if body else "NULL"]
        columns += ["c.metadata::text" if metadata else "NULL"]
        if not body:
            return ", ".join(columns), ""
        columns += ["kept.channels", "kept.types", "kept.sizes", "kept.wanted", "kept.blobs"]
        kept = sql.BLOBS.format(
            blobs=self._names["blobs"],
            wanted=_wanted(values),
            short=f"octet_length(b.blob) <= {MOST_BYTES}",
            same_version="" if self._layout.shallow else "AND b.version = v.version",
        )
        return ", ".join(columns), kept

    def writes(
        self,
        thread_id: str,
        *,
        checkpoint_ns: str | None = None,
        checkpoint_ids: Collection[str] | None = None,
        channels: Collection[str] | None = None,
        values: bool | Collection[str] = False,
    ) -> Iterator[Write]:
        only = "" if channels is None else " AND channel = ANY(%(channels)s::text[])"
        found = self._of_thread(
            f"SELECT checkpoint_ns, checkpoint_id, {self._columns_of_writes(values)}"
            f" FROM {self._names['writes']}",
            f'{only} ORDER BY checkpoint_ns COLLATE "C", checkpoint_id COLLATE "C",'
            f" {self._order_of_writes}",
            _KEYS_AT_ONCE if values is False else _BODIES_AT_ONCE,
            "",
            thread_id,
            checkpoint_ns,
            checkpoint_ids,
            read=[] if isinstance(values, bool) else _storable_of(values),
            channels=_storable_of(channels or ()),
        )
        for ns, checkpoint_id, *rest in found:
            yield _write(CheckpointKey(thread_id, ns, checkpoint_id), rest)

    def writes_at(
        self,
        keys: Sequence[CheckpointKey],
        *,
        channels: Collection[str] | None = None,
        values: bool | Collection[str] = False,
    ) -> Iterator[Write]:
        only = "" if channels is None else "WHERE channel = ANY(%(channels)s::text[])"
        found = self._at(
            keys,
            f"{self._names['writes']} c",
            self._columns_of_writes(values),
            f"{only} ORDER BY n, {self._order_of_writes}",
            read=[] if isinstance(values, bool) else _storable_of(values),
            channels=_storable_of(channels or ()),
        )
        for key, rest in found:
            yield _write(key, rest)

    def _columns_of_writes(self, values: bool | Collection[str]) -> str:
        wanted = "channel = ANY(%(read)s::text[])"
        if isinstance(values, bool):
            wanted = "true" if values else "false"
        return (
            f"task_id, {self._path}, idx, channel, octet_length(blob), type, {wanted},"
            f" CASE WHEN {wanted} AND {_SHORT} THEN blob END"
        )

    @property
    def _path(self) -> str:
        return "task_path" if self._layout.task_path else "''::text"

    @property
    def _order_of_writes(self) -> str:
        return f'{self._path} COLLATE "C", task_id COLLATE "C", idx'

    def _at(
        self, keys: Sequence[CheckpointKey], table: str, columns: str, rest: str, **bound: object
    ) -> Iterator[tuple[CheckpointKey, Sequence[Any]]]:
        """Rows of the checkpoints with these keys, each row with its key."""
        keys = [key for key in keys if storable("".join(_parts(key)))]
        query = f"SELECT {columns}, n FROM {sql.KEYS} {table} ON {sql.AT_KEY} {rest}"
        for start in range(0, len(keys), _BODIES_AT_ONCE):
            some = keys[start : start + _BODIES_AT_ONCE]
            threads, spaces, ids = map(list, zip(*map(_parts, some), strict=True))
            found = self._rows(query, threads=threads, spaces=spaces, ids=ids, **bound)
            for *row, n in found:
                yield some[n - 1], row

    def _of_thread(
        self,
        select: str,
        rest: str,
        at_once: int,
        table: str,
        thread_id: str,
        checkpoint_ns: str | None,
        checkpoint_ids: Collection[str] | None,
        **bound: object,
    ) -> Iterator[tuple[Any, ...]]:
        """Rows of a thread: with one query for a few `checkpoint_ids`, otherwise with a cursor."""
        if not storable(thread_id) or not storable(checkpoint_ns or ""):
            return
        where = f"{table}thread_id = %(thread)s"
        if checkpoint_ns is not None:
            where += f" AND {table}checkpoint_ns = %(ns)s"
        ids = None if checkpoint_ids is None else _storable_of(checkpoint_ids)
        if ids is not None:
            where += f" AND {table}checkpoint_id = ANY(%(ids)s::text[])"
        bound |= {"thread": thread_id, "ns": checkpoint_ns, "ids": ids}
        query = f"{select} WHERE {where}{rest}"
        if ids is not None and len(ids) <= min(at_once, _FEW):
            yield from self._rows(query, **bound)
        else:
            yield from self._stream(query, at_once, **bound)

    def blobs(self, thread_id: str) -> Iterator[tuple[BlobKey, int]]:
        if not storable(thread_id) or self._layout.shallow:
            return
        query = sql.BLOB_KEYS.format(**self._names)
        for ns, channel, version, size in self._stream(query, _KEYS_AT_ONCE, thread=thread_id):
            yield BlobKey(ns, channel, version), size

    def rows(self, thread_id: str) -> Iterator[Row]:
        if not storable(thread_id):
            return
        layout = self._layout
        for name, table in (
            (BLOBS, layout.blobs),
            (WRITES, layout.writes),
            (CHECKPOINTS, layout.checkpoints),
        ):
            yield from self._whole_rows(
                name, table, "thread_id = %(thread)s", _STATES_AT_ONCE, thread=thread_id
            )

    def own_rows(self, thread_id: str, rows: Iterable[Row]) -> Iterator[Row]:
        layout = self._layout
        tables = {BLOBS: layout.blobs, WRITES: layout.writes, CHECKPOINTS: layout.checkpoints}
        columns = {name: table.columns.keys() for name, table in tables.items()}
        return own_rows(thread_id, rows, columns)

    def row_key(self, row: Row) -> Hashable:
        return sql_key(row)

    def sources(self, key: CheckpointKey) -> list[str]:
        places = {"thread_id": key.thread_id, "checkpoint_ns": key.checkpoint_ns}
        where = " AND ".join(f"{name} = {_literal(value)}" for name, value in places.items())
        exactly = f"{where} AND checkpoint_id = {_literal(key.checkpoint_id)}"
        layout = self._layout
        row = where if layout.shallow else exactly
        versions = "(channel, version)" if not layout.shallow else "channel"
        keys = "key, value" if not layout.shallow else "key"
        return [
            f"SELECT * FROM {layout.checkpoints.sql} WHERE {row};",
            f"SELECT * FROM {layout.blobs.sql} WHERE {where} AND {versions} IN (SELECT {keys}"
            f" FROM {layout.checkpoints.sql}, jsonb_each_text(checkpoint->'channel_versions')"
            f" WHERE {row});",
            f"SELECT * FROM {layout.writes.sql} WHERE {exactly};",
        ]


def _checkpoint(
    key: CheckpointKey, rest: Sequence[Any], *, body: bool, metadata: bool
) -> Checkpoint:
    parent, text, meta, *blobs = rest
    return Checkpoint(
        key,
        parent,
        json_bytes(text) if body else None,
        json_bytes(meta) if metadata else None,
        _blobs(*blobs) if body else None,
    )


def _write(key: CheckpointKey, rest: Sequence[Any]) -> Write:
    task_id, task_path, idx, channel, size, tag, read, blob = rest
    value = typed(tag or "", size or 0, blob) if read else None
    return Write(key, task_id, task_path, idx, channel, size or 0, value)


def _wanted(values: bool | Collection[str]) -> str:
    """The condition that selects the blobs with values to read."""
    if values is True:
        return "true"
    return f"{sql.CONTROL} OR b.channel = ANY(%(names)s::text[])" if values else sql.CONTROL


def _blobs(
    channels: list[str] | None,
    types: list[str],
    sizes: list[int],
    wanted: list[bool],
    blobs: list[bytes | None],
) -> dict[str, Blob]:
    return {
        channel: Blob(tag or "", size, typed(tag or "", size, blob) if read else None)
        for channel, tag, size, read, blob in zip(
            channels or (), types or (), sizes or (), wanted or (), blobs or (), strict=True
        )
    }


def _thread(row: tuple[Any, ...]) -> Thread:
    thread_id, head, first_id, last_id, checkpoints, namespaces = row
    return Thread(
        thread_id, head, time_of(first_id or ""), time_of(last_id or ""), checkpoints, namespaces
    )


def _storable_of(texts: Collection[str]) -> list[str]:
    return sorted({text for text in texts if storable(text)})


def _literal(text: str) -> str:
    """An SQL literal that can be pasted: what a terminal may alter is written as hex."""
    if is_shown(text):
        return "'" + text.replace("'", "''") + "'"
    return f"convert_from('\\x{text.encode().hex()}', 'UTF8')"


def _saver(layout: PostgresLayout, mark: str | None) -> str:
    """The saver, guessed from the columns and from one checkpoint."""
    if mark == "js":
        return "LangGraph.js (@langchain/langgraph-checkpoint-postgres)"
    if layout.shallow:
        return "langgraph-checkpoint-postgres, ShallowPostgresSaver"
    if mark == "inline":
        return "langgraph-checkpoint-postgres 2.0.23 or later"
    if layout.task_path:
        return "langgraph-checkpoint-postgres 2.0.12 or later"
    return "langgraph-checkpoint-postgres before 2.0.12, or LangGraph.js"
