"""Reads LangGraph's layouts on MySQL and MariaDB.

A body is JSON and contains at most small values. The other values are in `checkpoint_blobs`, by
channel and version. All checkpoints with the same version of a channel share the same value.

Keys are listed first; then rows are read, some at a time. The official saver lets the server join
rows with `GROUP_CONCAT`, which cuts results longer than `group_concat_max_len` (1 MiB). ckpt does
not.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from typing import Any

from ckpt_backends.base import BaseStore
from ckpt_backends.changes.rows import Row, own_rows, sql_key
from ckpt_backends.checkpoint_ids import time_of
from ckpt_backends.codec.value_limit import MOST_BYTES, unread
from ckpt_backends.errors import StoreUnavailable
from ckpt_backends.model import (
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
from ckpt_backends.mysql import sql
from ckpt_backends.mysql.connect import MySQLConnection
from ckpt_backends.mysql.fetch import AT_ONCE, Fetcher, in_chunks
from ckpt_backends.mysql.layout import (
    MySQLLayout,
    bound,
    engine_of,
    literal,
    quoted_name,
    storable,
)
from ckpt_backends.mysql.values import read_blobs
from ckpt_backends.servers.answer_types import STORE, checked
from ckpt_backends.sql.blob_tables import BLOBS, CHECKPOINTS, WRITES, json_bytes, typed
from ckpt_backends.url import StoreUrl

_STATES_AT_ONCE = 4
_BODY, _BLOB = "OCTET_LENGTH(c.checkpoint)", "COALESCE(OCTET_LENGTH(c.`blob`), 0)"
_METADATA = "OCTET_LENGTH(c.metadata)"
_SMALL = 1024
"""Values of at most this many bytes are read together with their keys."""


@checked(*STORE)
class MySQLStore(BaseStore):
    """A MySQL or MariaDB database, opened for reading."""

    sums_sizes = True

    def __init__(self, connection: MySQLConnection, url: StoreUrl, layout: MySQLLayout) -> None:
        self._url = url
        self._open: MySQLConnection | None = connection
        self._merged: list[str] | None = None
        self._layout = layout
        rows = layout.checkpoints.sql
        self._names = {
            "ns": layout.ns,
            "checkpoints": sql.SHALLOW.format(checkpoints=rows) if layout.shallow else rows,
            "blobs": layout.blobs.sql,
            "writes": layout.writes.sql,
        }

    def describe(self) -> StoreInfo:
        layout = self._layout
        query = sql.DESCRIBE.format(checkpoints=layout.checkpoints.sql)
        names = tuple(table.name for table in layout.tables)
        ((version, size, inline),) = self._rows(query, names=names)
        can = Capability.ENFORCED_READ_ONLY | Capability.WRITES
        can |= Capability(0) if layout.shallow else Capability.HISTORY
        adding = layout.hashed and not layout.shallow and not layout.unknown
        can |= Capability.ADDING if adding else Capability(0)
        can |= Capability.TASK_PATH if layout.task_path else Capability(0)
        saver = layout.saver
        if inline and not layout.shallow:
            saver = "langgraph-checkpoint-mysql 2.0.17 or later"
        return StoreInfo(
            layout=layout.name,
            url=str(self._url),
            engine=engine_of(version),
            saver=saver,
            capabilities=can,
            tables=names,
            size=None if size is None else int(size),
            notes=tuple(self.notes()),
        )

    def notes(self) -> Sequence[str]:
        found = []
        if self._layout.unknown:
            found.append(f"written by an unknown saver: {', '.join(self._layout.unknown)}")
        if not self._layout.hashed:
            found.append("written by a saver older than 2.0.10, so ckpt only reads it")
        return [*found, *self._merged_threads()]

    def _merged_threads(self) -> list[str]:
        """A note if different thread ids are equal in the column's collation; otherwise empty.

        The saver mixes up such threads. Reads only the index of thread ids.
        """
        if self._merged is None:
            self._merged = []
            if self._layout.merging:
                query = sql.MERGED.format(checkpoints=self._layout.checkpoints.sql)
                self._merged = [
                    f"the saver mixes the threads '{_text(one)}' and '{_text(other)}', because both"
                    f" ids are equal in the collation {self._layout.merging}; ckpt shows them"
                    " separately"
                    for one, other in self._rows(query)
                ]
        return self._merged

    def threads(self, *, limit: int | None = None) -> Iterator[Thread]:
        # `LISTED` groups by the collation, which would merge threads with equal ids.
        grouped = sql.GROUPED if self._merged_threads() else sql.LISTED
        query = grouped.format(**self._names, where="")
        values: dict[str, Any] = {"root": self._layout.ns_key("")}
        if limit is not None:
            found = self._rows(f"{query} LIMIT %(limit)s", **values, limit=limit)
            yield from map(_thread, found)
        else:
            yield from map(_thread, self._connection.stream(query, values))

    def thread(self, thread_id: str) -> Thread | None:
        if not storable(thread_id):
            return None
        where, values = self._where(thread_id)
        query = sql.GROUPED.format(**self._names, where=f"WHERE {where}")
        rows = self._rows(query, root=self._layout.ns_key(""), **values)
        return _thread(rows[0]) if rows else None

    def size(self, thread_id: str) -> ThreadSize:
        return self.sizes([thread_id])[0]

    def sizes(self, thread_ids: Sequence[str]) -> list[ThreadSize]:
        asked = tuple(sorted({one for one in thread_ids if storable(one)}))
        layout = self._layout
        counts = []
        for table, size in (
            (layout.checkpoints, f"{_BODY} + {_METADATA}"),
            (layout.writes, _BLOB),
            (layout.blobs, _BLOB),
        ):
            marks = {f"t{n}": one for n, one in enumerate(asked)}
            column = table.columns["thread_id"]
            query = sql.SIZES.format(
                table=table.sql,
                size=size,
                threads=", ".join(bound(f"%({mark})s", column) for mark in marks),
            )
            rows = self._rows(query, **marks) if asked else []
            counts.append({_text(thread): (number, int(size)) for thread, number, size in rows})
        none = (0, 0)
        of_each = [[found.get(one, none) for found in counts] for one in thread_ids]
        return [
            ThreadSize(rows[0], writes[0], rows[1] + writes[1] + blobs[1], blobs[0])
            for rows, writes, blobs in of_each
        ]

    def checkpoint_sizes(self, thread_id: str) -> Iterator[tuple[CheckpointKey, ThreadSize]]:
        if not storable(thread_id):
            return
        where, values = self._where(thread_id)
        for name, size in (("checkpoints", f"{_BODY} + {_METADATA}"), ("writes", _BLOB)):
            query = sql.CHECKPOINT_SIZES.format(table=self._names[name], size=size, where=where)
            for ns, checkpoint_id, number, taken in self._connection.stream(query, values):
                key = CheckpointKey(thread_id, _text(ns), _text(checkpoint_id or b""))
                checkpoints, writes = (0, number) if name == "writes" else (number, 0)
                yield key, ThreadSize(checkpoints, writes, int(taken))

    def usage(self, thread_id: str | None = None) -> Iterator[Usage]:
        if not storable(thread_id or ""):
            return
        layout = self._layout
        where, values = ("", {}) if thread_id is None else self._where(thread_id)
        apart = (sql.exact("c.channel"), sql.exact("COALESCE(c.type, '')"), _BLOB)
        inside = ("NULL", "_binary'json'")
        parts = [
            sql.USAGE.format(
                table=table.sql,
                label=f"'{name}', '{column}'",
                channel=channel,
                tag=tag,
                size=size,
                where=f"WHERE {where}" if where else "",
            )
            for table, name, column, channel, tag, size in (
                (layout.checkpoints, CHECKPOINTS, "checkpoint", *inside, _BODY),
                (layout.checkpoints, CHECKPOINTS, "metadata", *inside, _METADATA),
                (layout.blobs, BLOBS, "blob", *apart),
                (layout.writes, WRITES, "blob", *apart),
            )
        ]
        query = f"{' UNION ALL '.join(parts)} ORDER BY thread"
        for thread, name, column, ns, channel, tag, rows, size in self._connection.stream(
            query, values
        ):
            of = None if channel is None else _text(channel)
            yield Usage(
                name, column, _text(thread), _text(ns), of, _text(tag), int(rows), int(size)
            )

    def namespaces(self, thread_id: str) -> list[str]:
        if not storable(thread_id):
            return []
        where, values = self._where(thread_id)
        query = sql.NAMESPACES.format(**self._names, where=where)
        return [_text(ns) for (ns,) in self._rows(query, **values)]

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
        listed = self._of_thread(
            self._names["checkpoints"],
            self._listed(body=body, metadata=metadata),
            "c.checkpoint_id DESC",
            thread_id,
            checkpoint_ns,
            checkpoint_ids,
        )
        at_once = _STATES_AT_ONCE if body and values else AT_ONCE
        for chunk in in_chunks(listed, at_once):
            yield from self._read(chunk, body=body, metadata=metadata, values=values)

    def checkpoints_at(
        self, keys: Sequence[CheckpointKey], *, body: bool = False, metadata: bool = False
    ) -> Iterator[Checkpoint]:
        columns = self._listed(body=body, metadata=metadata)
        for chunk in in_chunks(self._at(keys, self._names["checkpoints"], columns), AT_ONCE):
            yield from self._read(chunk, body=body, metadata=metadata, values=False)

    def _listed(self, *, body: bool, metadata: bool) -> str:
        """The columns to list: key, parent, and the size of the columns to read later."""
        sizes = [size for size, wanted in ((_BODY, body), (_METADATA, metadata)) if wanted]
        return (
            "c.thread_id, c.checkpoint_ns, c.checkpoint_id, c.parent_checkpoint_id,"
            f" {' + '.join(sizes) or '0'}, c.{self._layout.ns}"
        )

    def _read(
        self,
        listed: Sequence[tuple[Any, ...]],
        *,
        body: bool,
        metadata: bool,
        values: bool | Collection[str],
    ) -> Iterator[Checkpoint]:
        """The listed checkpoints, with the bodies, metadata and values that are asked for."""
        found: dict[tuple[Any, ...], Sequence[Any]] = {}
        if body or metadata:
            columns = ["checkpoint" if body else "NULL", "metadata" if metadata else "NULL"]
            sizes = {row[:3]: row[4] for row in listed if row[4] <= MOST_BYTES}
            places = [(row[0], row[5], row[2]) for row in listed if row[:3] in sizes]
            found = {
                row[:3]: row[3:]
                for row in self._fetcher.rows(
                    self._names["checkpoints"],
                    ("thread_id", self._layout.ns, "checkpoint_id"),
                    ["thread_id", "checkpoint_ns", "checkpoint_id", *columns],
                    places,
                )
            }
        read = []
        for thread_id, ns, checkpoint_id, parent, size, _ in listed:
            text, meta = found.get((thread_id, ns, checkpoint_id), (None, None))
            too_long = unread("json", size) if size > MOST_BYTES else None
            read.append(
                Checkpoint(
                    CheckpointKey(thread_id, ns, checkpoint_id or ""),
                    parent,
                    (too_long or json_bytes(text)) if body else None,
                    (too_long or json_bytes(meta)) if metadata else None,
                )
            )
        if body:
            yield from read_blobs(self._fetcher, self._layout, read, values)
        else:
            yield from read

    def writes(
        self,
        thread_id: str,
        *,
        checkpoint_ns: str | None = None,
        checkpoint_ids: Collection[str] | None = None,
        channels: Collection[str] | None = None,
        values: bool | Collection[str] = False,
    ) -> Iterator[Write]:
        listed = self._of_thread(
            self._names["writes"],
            self._listed_of_writes(values),
            f"{sql.exact('c.checkpoint_id')}, {self._order_of_writes}",
            thread_id,
            checkpoint_ns,
            checkpoint_ids,
        )
        yield from self._read_writes(listed, channels, values)

    def writes_at(
        self,
        keys: Sequence[CheckpointKey],
        *,
        channels: Collection[str] | None = None,
        values: bool | Collection[str] = False,
    ) -> Iterator[Write]:
        listed = self._at(
            keys, self._names["writes"], self._listed_of_writes(values), self._order_of_writes
        )
        yield from self._read_writes(listed, channels, values)

    @property
    def _order_of_writes(self) -> str:
        return f"{sql.exact(self._path)}, {sql.exact('c.task_id')}, c.idx"

    @property
    def _path(self) -> str:
        return "c.task_path" if self._layout.task_path else "''"

    def _listed_of_writes(self, values: bool | Collection[str]) -> str:
        small = f"CASE WHEN OCTET_LENGTH(c.`blob`) <= {_SMALL} THEN c.`blob` END"
        return (
            f"c.thread_id, c.checkpoint_ns, c.checkpoint_id, c.task_id, {self._path}, c.idx,"
            f" c.channel, c.type, {_BLOB}, {'NULL' if values is False else small},"
            f" c.{self._layout.ns}"
        )

    def _read_writes(
        self,
        listed: Iterator[tuple[Any, ...]],
        channels: Collection[str] | None,
        values: bool | Collection[str],
    ) -> Iterator[Write]:
        wanted = (row for row in listed if channels is None or row[6] in channels)
        for chunk in in_chunks(wanted, AT_ONCE):
            yield from self._read_some(chunk, values)

    def _read_some(
        self, rows: Sequence[tuple[Any, ...]], values: bool | Collection[str]
    ) -> Iterator[Write]:
        def is_read(channel: str) -> bool:
            return values if isinstance(values, bool) else channel in values

        apart = [
            (row[8], (row[0], row[10], row[2], row[3], row[5]))
            for row in rows
            if is_read(row[6]) and _SMALL < row[8] <= MOST_BYTES
        ]
        fetched = self._fetcher.values(
            self._names["writes"],
            ("thread_id", self._layout.ns, "checkpoint_id", "task_id", "idx"),
            apart,
        )
        for row in rows:
            thread_id, ns, checkpoint_id, task_id, path, idx, channel, tag, size, blob, _ = row
            value = None
            if is_read(channel):
                if _SMALL < size <= MOST_BYTES:
                    blob = next(fetched)
                value = typed(tag or "", size, blob)
            key = CheckpointKey(thread_id, ns, checkpoint_id)
            yield Write(key, task_id, path, idx, channel, size, value)

    def blobs(self, thread_id: str) -> Iterator[tuple[BlobKey, int]]:
        if not storable(thread_id) or self._layout.shallow:
            return
        where, values = self._where(thread_id)
        query = sql.BLOB_KEYS.format(**self._names, where=where)
        for ns, channel, version, size in self._connection.stream(query, values):
            yield BlobKey(ns, channel, version), size

    def rows(self, thread_id: str) -> Iterator[Row]:
        if not storable(thread_id):
            return
        layout = self._layout
        where, values = self._where(thread_id)
        for name, table, own in (
            (BLOBS, layout.blobs, ("channel", *([] if layout.shallow else ["version"]))),
            (WRITES, layout.writes, ("checkpoint_id", "task_id", "idx")),
            (CHECKPOINTS, layout.checkpoints, () if layout.shallow else ("checkpoint_id",)),
        ):
            size = _BLOB if name != CHECKPOINTS else f"{_BODY} + {_METADATA}"
            key = ("thread_id", layout.ns, *own)
            listed = ", ".join(f"c.{column}" for column in key)
            found = self._rows(
                f"SELECT {size}, {listed} FROM {table.sql} c WHERE {where}", **values
            )
            places = [(size, tuple(place)) for size, *place in found]
            columns = [quoted_name(column) for column in table.stored]
            for row in self._fetcher.each(table.sql, key, columns, places):
                yield Row(name, dict(zip(table.stored, row, strict=True)))

    def own_rows(self, thread_id: str, rows: Iterable[Row]) -> Iterator[Row]:
        columns = {table.name: table.columns.keys() for table in self._layout.tables}
        return own_rows(thread_id, rows, columns)

    def row_key(self, row: Row) -> Hashable:
        return sql_key(row)

    def sources(self, key: CheckpointKey) -> list[str]:
        layout = self._layout
        thread, ns = literal(key.thread_id), literal(key.checkpoint_ns)
        of_ns = f"UNHEX(MD5({ns}))" if layout.hashed else ns
        where = (
            f"c.thread_id = {thread} AND BINARY c.thread_id = {thread} AND c.{layout.ns} = {of_ns}"
        )
        exactly = f"{where} AND c.checkpoint_id = {literal(key.checkpoint_id)}"
        row = where if layout.shallow else exactly
        join = "b.thread_id = c.thread_id AND b.checkpoint_ns = c.checkpoint_ns AND "
        version = "JSON_EXTRACT(c.checkpoint, CONCAT('$.channel_versions.\"', b.channel, '\"'))"
        join += (
            f"{version} IS NOT NULL" if layout.shallow else f"b.version = JSON_UNQUOTE({version})"
        )
        return [
            f"SELECT * FROM {layout.checkpoints.sql} c WHERE {row};",
            f"SELECT b.* FROM {layout.checkpoints.sql} c JOIN {layout.blobs.sql} b ON {join}"
            f" WHERE {row};",
            f"SELECT * FROM {layout.writes.sql} c WHERE {exactly};",
        ]

    def refresh(self) -> None:
        self._connection.restart()
        self._merged = None

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def _where(self, thread_id: str) -> tuple[str, dict[str, Any]]:
        """The condition for rows of exactly this thread, and its parameters."""
        mark = bound("%(thread)s", self._layout.checkpoints.columns["thread_id"])
        where = f"c.thread_id = {mark} AND {sql.exact('c.thread_id')} = %(exact)s"
        return where, {"thread": thread_id, "exact": thread_id.encode()}

    def _of_thread(
        self,
        table: str,
        columns: str,
        order: str,
        thread_id: str,
        checkpoint_ns: str | None,
        checkpoint_ids: Collection[str] | None,
    ) -> Iterator[tuple[Any, ...]]:
        """Rows of a thread, ordered by namespace.

        `columns` must begin with thread id, namespace and checkpoint id.
        """
        if not storable(thread_id) or not storable(checkpoint_ns or ""):
            return
        where, values = self._where(thread_id)
        if checkpoint_ns is not None:
            where += f" AND c.{self._layout.ns} = %(ns)s"
            values["ns"] = self._layout.ns_key(checkpoint_ns)
        ids = None
        if checkpoint_ids is not None:
            ids = {one for one in checkpoint_ids if storable(one)}
            if not ids:
                return
            where += " AND c.checkpoint_id IN %(ids)s"
            values["ids"] = tuple(sorted(ids))
        query = f"SELECT {columns} FROM {table} c WHERE {where}"
        for row in self._connection.stream(
            f"{query} ORDER BY {sql.exact('c.checkpoint_ns')}, {order}", values
        ):
            if checkpoint_ns in {None, row[1]} and (ids is None or row[2] in ids):
                yield row

    def _at(
        self, keys: Sequence[CheckpointKey], table: str, columns: str, order: str = ""
    ) -> Iterator[tuple[Any, ...]]:
        """Rows of the checkpoints with these keys. `columns` must begin with the key."""
        asked = {(one.thread_id, one.checkpoint_ns, one.checkpoint_id): None for one in keys}
        places = [
            (thread_id, self._layout.ns_key(ns), checkpoint_id)
            for thread_id, ns, checkpoint_id in asked
            if storable(thread_id + ns + checkpoint_id)
        ]
        rows = self._fetcher.rows(
            table, ("thread_id", self._layout.ns, "checkpoint_id"), [columns], places, order
        )
        return (row for row in rows if row[:3] in asked)

    @property
    def _fetcher(self) -> Fetcher:
        return Fetcher(self._connection, self._layout)

    @property
    def _connection(self) -> MySQLConnection:
        if self._open is None:
            raise StoreUnavailable(f"'{self._url}' is closed")
        return self._open

    def _rows(self, query: str, **values: object) -> list[tuple[Any, ...]]:
        return self._connection.rows(query, values)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _thread(row: tuple[Any, ...]) -> Thread:
    thread_id, head, first_id, last_id, checkpoints, namespaces = row
    first, last = time_of(first_id or ""), time_of(last_id or "")
    return Thread(_text(thread_id), head, first, last, int(checkpoints), namespaces)
