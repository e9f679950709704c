"""Reads LangGraph's SQLite layout.

The only indexes of `checkpoints` and `writes` are their primary keys, which begin with thread,
namespace and checkpoint id. `metadata` is stored after the body in its row, so reading it also
reads the overflow pages of the body. Listings therefore read keys only.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ckpt_backends.base import BaseStore
from ckpt_backends.changes.rows import Row, own_rows
from ckpt_backends.checkpoint_ids import time_of
from ckpt_backends.codec.value_limit import MOST_BYTES, unread
from ckpt_backends.model import (
    Capability,
    Checkpoint,
    CheckpointKey,
    StoreInfo,
    Thread,
    ThreadSize,
    TypedBytes,
    Usage,
    Write,
)
from ckpt_backends.shell import is_shown
from ckpt_backends.sqlite.binding import (
    TEXT,
    bind,
    stored_bytes,
    text,
)
from ckpt_backends.sqlite.file import FileReader
from ckpt_backends.sqlite.journals import space_of
from ckpt_backends.sqlite.layout import SqliteLayout, detect
from ckpt_backends.sqlite.open import Opened
from ckpt_backends.url import StoreUrl

_IDS_PER_QUERY, _KEYS_PER_QUERY = 500, 300
"""With these, no query has more than 999 parameters, the limit of old SQLite releases."""

_FIRST = f"""
    SELECT type, CASE WHEN length(checkpoint) <= {MOST_BYTES} THEN substr(checkpoint, 1, 200) END
    FROM checkpoints LIMIT 1
"""
_TIME = re.compile(rb'"ts": ?"([^"]*)"')
"""The time in a body. It ends with Z if JavaScript wrote it, with an offset if Python did."""

_THREADS = """
    SELECT thread_id,
           CASE WHEN last_ns = '' THEN newest ELSE (
               SELECT max(checkpoint_id) FROM checkpoints AS c
               WHERE c.thread_id = t.thread_id AND c.checkpoint_ns = '') END,
           oldest, newest, n,
           CASE WHEN last_ns = first_ns THEN 1 ELSE (
               SELECT count(DISTINCT checkpoint_ns) FROM checkpoints AS c
               WHERE c.thread_id = t.thread_id) END
    FROM (SELECT thread_id, min(checkpoint_ns) AS first_ns, max(checkpoint_ns) AS last_ns,
                 min(checkpoint_id) AS oldest, max(checkpoint_id) AS newest, count(*) AS n
          FROM checkpoints {where} GROUP BY thread_id) AS t
    ORDER BY newest DESC, thread_id LIMIT ?
"""
"""Most threads have one namespace. The subqueries run only for threads with more."""
_CHECKPOINT_SIZES = f"""
    SELECT checkpoint_ns, checkpoint_id, 1, 0,
           coalesce(length(checkpoint), 0) + coalesce(length(metadata), 0)
    FROM checkpoints WHERE thread_id = {TEXT}
    UNION ALL
    SELECT checkpoint_ns, checkpoint_id, 0, count(*), coalesce(sum(length(value)), 0)
    FROM writes WHERE thread_id = {TEXT} GROUP BY checkpoint_ns, checkpoint_id
"""
_USAGE = """
    SELECT thread_id, 'checkpoints', 'checkpoint', checkpoint_ns, NULL, type, count(*), total(n)
    FROM (SELECT thread_id, checkpoint_ns, type, length(checkpoint) AS n
          FROM checkpoints {where} LIMIT -1)
    GROUP BY thread_id, checkpoint_ns, type
    UNION ALL
    SELECT thread_id, 'checkpoints', 'metadata', checkpoint_ns, NULL, 'json', count(*), total(n)
    FROM (SELECT thread_id, checkpoint_ns, length(metadata) AS n
          FROM checkpoints {where} LIMIT -1)
    GROUP BY thread_id, checkpoint_ns
    UNION ALL
    SELECT thread_id, 'writes', 'value', checkpoint_ns, channel, type, count(*), total(n)
    FROM (SELECT thread_id, checkpoint_ns, channel, type, length(value) AS n
          FROM writes {where} LIMIT -1)
    GROUP BY thread_id, checkpoint_ns, channel, type
    ORDER BY 1
"""
"""LIMIT -1 stops SQLite from flattening the subqueries. It would then sort whole values."""


class SqliteStore(FileReader, BaseStore):
    """A SQLite file, opened for reading."""

    sums_sizes = True

    def __init__(self, opened: Opened, url: StoreUrl, tables: Mapping[str, Set[str]]) -> None:
        super().__init__(opened, url)
        self._tables = {name: tables[name] for name in ("checkpoints", "writes") if name in tables}
        self._layout = detect(tables, str(url), url.params.get("layout"))

    def describe(self) -> StoreInfo:
        first = next(self._query(_FIRST), (None, None))
        with self._errors():
            space = space_of(self._opened.path, self._opened.connection)
        can = Capability.HISTORY | Capability.WRITES | Capability.INLINE_VALUES
        can |= Capability.ENFORCED_READ_ONLY
        can |= Capability(0) if self._layout.unknown else Capability.ADDING
        return StoreInfo(
            layout="sqlite",
            url=str(self._url),
            engine=f"SQLite {sqlite3.sqlite_version}",
            saver=_saver(self._layout, *first),
            capabilities=can | Capability.TASK_PATH if self._layout.task_path else can,
            tables=("checkpoints", "writes"),
            size=space.size,
            free=space.free,
            log=space.log,
            notes=tuple(self.notes()),
        )

    def notes(self) -> Sequence[str]:
        notes = list(self._opened.notes)
        if self._layout.unknown:
            notes.append(
                f"unknown columns, maybe of a newer saver: {', '.join(self._layout.unknown)}"
            )
        return notes

    def threads(self, *, limit: int | None = None) -> Iterator[Thread]:
        sql = _THREADS.format(where="")
        yield from map(_thread, self._query(sql, [-1 if limit is None else limit]))

    def thread(self, thread_id: str) -> Thread | None:
        sql = _THREADS.format(where=f"WHERE thread_id = {TEXT}")
        row = next(self._query(sql, [bind(thread_id), 1]), None)
        return None if row is None else _thread(row)

    def size(self, thread_id: str) -> ThreadSize:
        return self.sizes([thread_id])[0]

    def sizes(self, thread_ids: Sequence[str]) -> list[ThreadSize]:
        found: dict[str, list[tuple[int, float]]] = {one: [(0, 0), (0, 0)] for one in thread_ids}
        for ids in _chunks(list(found), _IDS_PER_QUERY):
            of_threads = f"WHERE thread_id IN ({_texts(ids)}) GROUP BY thread_id"
            sql = (
                "SELECT 0, thread_id, count(*), total(length(checkpoint)) + total(length(metadata))"
                f" FROM checkpoints {of_threads} UNION ALL"
                f" SELECT 1, thread_id, count(*), total(length(value)) FROM writes {of_threads}"
            )
            for table, thread, rows, size in self._query(sql, [bind(one) for one in ids] * 2):
                found[text(thread)][table] = (rows, size)
        return [
            ThreadSize(checkpoints, writes, int(in_checkpoints + in_writes))
            for (checkpoints, in_checkpoints), (writes, in_writes) in (
                found[one] for one in thread_ids
            )
        ]

    def checkpoint_sizes(self, thread_id: str) -> Iterator[tuple[CheckpointKey, ThreadSize]]:
        rows = self._query(_CHECKPOINT_SIZES, [bind(thread_id)] * 2)
        for ns, checkpoint_id, checkpoints, writes, size in rows:
            key = CheckpointKey(thread_id, text(ns), text(checkpoint_id))
            yield key, ThreadSize(checkpoints, writes, size)

    def usage(self, thread_id: str | None = None) -> Iterator[Usage]:
        where = "" if thread_id is None else f"WHERE thread_id = {TEXT}"
        bound = [] if thread_id is None else [bind(thread_id)] * 3
        rows = self._query(_USAGE.format(where=where), bound)
        for thread, table, column, ns, channel, tag, number, size in rows:
            yield Usage(
                table,
                column,
                text(thread),
                text(ns),
                None if channel is None else text(channel),
                text(tag),
                number,
                int(size),
            )

    def namespaces(self, thread_id: str) -> list[str]:
        sql = f"SELECT DISTINCT checkpoint_ns FROM checkpoints WHERE thread_id = {TEXT} ORDER BY 1"
        return [text(ns) for (ns,) in self._query(sql, [bind(thread_id)])]

    def checkpoints(
        self,
        thread_id: str,
        *,
        checkpoint_ns: str | None = None,
        checkpoint_ids: Collection[str] | None = None,
        body: bool = False,
        metadata: bool = False,
        values: bool | Collection[str] = False,  # noqa: ARG002  (they are in the body)
    ) -> Iterator[Checkpoint]:
        query = _Query(
            f"SELECT {_columns(body=body, metadata=metadata)} FROM checkpoints",
            " ORDER BY checkpoint_ns, checkpoint_id DESC",
            newest_first=True,
            has_bodies=body or metadata,
        )
        rows = self._of_thread(query, thread_id, checkpoint_ns, checkpoint_ids)
        for ns, checkpoint_id, *rest in rows:
            key = CheckpointKey(thread_id, text(ns), text(checkpoint_id))
            yield _checkpoint(key, rest, body=body, metadata=metadata)

    def checkpoints_at(
        self, keys: Sequence[CheckpointKey], *, body: bool = False, metadata: bool = False
    ) -> Iterator[Checkpoint]:
        query = _Query(f"SELECT {_columns(body=body, metadata=metadata)}", "")
        for key, (_, _, *rest) in self._at("checkpoints", keys, query):
            yield _checkpoint(key, rest, body=body, metadata=metadata)

    def writes(
        self,
        thread_id: str,
        *,
        checkpoint_ns: str | None = None,
        checkpoint_ids: Collection[str] | None = None,
        channels: Collection[str] | None = None,
        values: bool | Collection[str] = False,
    ) -> Iterator[Write]:
        select, bound = self._select_writes(values)
        only = "" if channels is None else f" AND channel IN ({_texts(channels)})"
        query = _Query(
            f"{select} FROM writes",
            f"{only} ORDER BY checkpoint_ns, checkpoint_id, path, task_id, idx",
            bound,
            [bind(name) for name in channels or ()],
        )
        rows = self._of_thread(query, thread_id, checkpoint_ns, checkpoint_ids)
        for ns, checkpoint_id, *rest in rows:
            yield _write(CheckpointKey(thread_id, text(ns), text(checkpoint_id)), rest)

    def writes_at(
        self,
        keys: Sequence[CheckpointKey],
        *,
        channels: Collection[str] | None = None,
        values: bool | Collection[str] = False,
    ) -> Iterator[Write]:
        select, bound = self._select_writes(values)
        only = "" if channels is None else f" WHERE channel IN ({_texts(channels)})"
        query = _Query(
            select,
            f"{only} ORDER BY n, path, task_id, idx",
            bound,
            [bind(name) for name in channels or ()],
        )
        for key, (_, _, *rest) in self._at("writes", keys, query):
            yield _write(key, rest)

    def _select_writes(self, values: bool | Collection[str]) -> tuple[str, list[bytes]]:
        """The SELECT clause for writes, and its parameters."""
        path = "task_path" if self._layout.task_path else "''"
        columns = ["checkpoint_ns", "checkpoint_id", "task_id", f"{path} AS path", "idx"]
        length, value = _sized("value")
        columns += ["channel", length]
        bound: list[bytes] = []
        if isinstance(values, bool):
            columns += ["1", "type", value] if values else ["0", "NULL", "NULL"]
        else:
            wanted = f"channel IN ({_texts(values)})"
            columns += [wanted, "type", f"CASE WHEN {wanted} THEN {value} END"]
            bound = [bind(name) for name in values] * 2
        return f"SELECT {', '.join(columns)}", bound

    def _at(
        self, table: str, keys: Sequence[CheckpointKey], query: _Query
    ) -> Iterator[tuple[CheckpointKey, tuple[Any, ...]]]:
        """Rows of some checkpoints, each with its key."""
        for start in range(0, len(keys), _KEYS_PER_QUERY):
            some = keys[start : start + _KEYS_PER_QUERY]
            wanted = ", ".join(f"({n}, {TEXT}, {TEXT}, {TEXT})" for n in range(len(some)))
            bound = [
                bind(part)
                for key in some
                for part in (key.thread_id, key.checkpoint_ns, key.checkpoint_id)
            ]
            sql = (
                f"WITH k(n, thread, ns, id) AS (VALUES {wanted}) {query.select}, n"
                f" FROM k CROSS JOIN {table} ON thread_id = thread AND checkpoint_ns = ns"
                f" AND checkpoint_id = id{query.rest}"
            )
            for *row, n in self._query(sql, [*bound, *query.before, *query.after]):
                yield some[n], tuple(row)

    def _of_thread(
        self,
        query: _Query,
        thread_id: str,
        checkpoint_ns: str | None,
        checkpoint_ids: Collection[str] | None,
    ) -> Iterator[tuple[Any, ...]]:
        """Rows of a thread. With `checkpoint_ids`, they are read in chunks of ids, in order.

        Bodies are read namespace by namespace. For several namespaces in one query, SQLite would
        copy all bodies to a temporary table to sort them.
        """
        of_thread, thread = f"thread_id = {TEXT}", bind(thread_id)
        if checkpoint_ns is not None:
            where = f"{of_thread} AND checkpoint_ns = {TEXT}"
            yield from self._in(query, where, [thread, bind(checkpoint_ns)], checkpoint_ids)
        elif not query.has_bodies and len(checkpoint_ids or ()) <= _IDS_PER_QUERY:
            yield from self._in(query, of_thread, [thread], checkpoint_ids)
        else:
            sql = f"SELECT DISTINCT checkpoint_ns FROM checkpoints WHERE {of_thread} ORDER BY 1"
            for (ns,) in list(self._query(sql, [thread])):
                # In SQLite, a namespace may be of any type, or NULL.
                name, one = (TEXT, bind(ns)) if isinstance(ns, str) else ("?", ns)
                where = f"{of_thread} AND checkpoint_ns IS {name}"
                yield from self._in(query, where, [thread, one], checkpoint_ids)

    def _in(
        self,
        query: _Query,
        where: str,
        values: Sequence[object],
        checkpoint_ids: Collection[str] | None,
    ) -> Iterator[tuple[Any, ...]]:
        bound = [*query.before, *values]
        if checkpoint_ids is None:
            sql = f"{query.select} WHERE {where}{query.rest}"
            yield from self._query(sql, [*bound, *query.after])
            return
        for ids in _chunks(sorted(set(checkpoint_ids), reverse=query.newest_first), _IDS_PER_QUERY):
            sql = f"{query.select} WHERE {where} AND checkpoint_id IN ({_texts(ids)}){query.rest}"
            yield from self._query(sql, [*bound, *map(bind, ids), *query.after])

    def rows(self, thread_id: str) -> Iterator[Row]:
        for table in ("writes", "checkpoints"):
            yield from self._whole_rows(table, f"thread_id = {TEXT}", [bind(thread_id)])

    def own_rows(self, thread_id: str, rows: Iterable[Row]) -> Iterator[Row]:
        return own_rows(thread_id, rows, self._tables)

    def sources(self, key: CheckpointKey) -> list[str]:
        where = " AND ".join(
            f"{name} = {_quoted(value)}"
            for name, value in [
                ("thread_id", key.thread_id),
                ("checkpoint_ns", key.checkpoint_ns),
                ("checkpoint_id", key.checkpoint_id),
            ]
        )
        return [f"SELECT * FROM {table} WHERE {where};" for table in ("checkpoints", "writes")]


def _columns(*, body: bool, metadata: bool) -> str:
    """The columns of a checkpoint."""
    columns = ["checkpoint_ns", "checkpoint_id", "parent_checkpoint_id"]
    columns += ["type", *_sized("checkpoint")] if body else ["NULL"] * 3
    columns += _sized("metadata") if metadata else ["NULL"] * 2
    return ", ".join(columns)


def _checkpoint(
    key: CheckpointKey, rest: Sequence[Any], *, body: bool, metadata: bool
) -> Checkpoint:
    parent, tag, length, stored, meta_length, meta = rest
    return Checkpoint(
        key,
        None if parent is None else text(parent),
        _typed(text(tag), length, stored) if body else None,
        _typed("json", meta_length, meta) if metadata else None,
    )


def _write(key: CheckpointKey, rest: Sequence[Any]) -> Write:
    task_id, task_path, idx, channel, size, read, tag, value = rest
    return Write(
        key,
        text(task_id),
        text(task_path),
        idx if isinstance(idx, int) else 0,
        text(channel),
        size or 0,
        _typed(text(tag), size, value) if read else None,
    )


def _sized(column: str) -> list[str]:
    """Two columns: the length (read without the blob), and the value or NULL if too long."""
    length = f"length({column})"
    return [length, f"CASE WHEN {length} > {MOST_BYTES} THEN NULL ELSE {column} END"]


def _typed(tag: str, length: object, value: object) -> TypedBytes:
    """A value as stored, or a placeholder if it is too long."""
    if isinstance(length, int) and length > MOST_BYTES:
        return unread(tag, length)
    return TypedBytes(tag, stored_bytes(value))


@dataclass(frozen=True, slots=True)
class _Query:
    """A query for rows, without the condition that selects the thread or the checkpoints."""

    select: str
    rest: str
    """The end of the query, after the conditions on thread, namespace and ids."""
    before: Sequence[bytes] = ()
    """Parameters of `select`."""
    after: Sequence[bytes] = ()
    """Parameters of `rest`."""
    newest_first: bool = False
    """Order of the ids if several queries are needed."""
    has_bodies: bool = False
    """Whether bodies or metadata are read."""


def _texts(values: Collection[str]) -> str:
    return ", ".join([TEXT] * len(values))


def _thread(row: tuple[Any, ...]) -> Thread:
    thread_id, head, first_id, last_id, checkpoints, namespaces = row
    return Thread(
        text(thread_id),
        None if head is None else text(head),
        time_of(text(first_id)),
        time_of(text(last_id)),
        checkpoints,
        namespaces,
    )


def _chunks(items: list[str], size: int) -> Iterator[list[str]]:
    stream = iter(items)
    while chunk := list(islice(stream, size)):
        yield chunk


def _quoted(text: str) -> str:
    """A SQL literal that can be pasted: what a terminal may alter is written as hex."""
    if is_shown(text):
        return "'" + text.replace("'", "''") + "'"
    return f"CAST(X'{bind(text).hex()}' AS TEXT)"


def _saver(layout: SqliteLayout, tag: object, beginning: object) -> str:
    """The saver that wrote a file, by the type of a checkpoint and the beginning of its body."""
    if layout.task_path:
        return "langgraph-checkpoint-sqlite 3.1.2 or later"
    if tag == "json":
        time = _TIME.search(stored_bytes(beginning))
        if time is not None and time[1].endswith(b"Z"):
            return "LangGraph.js, @langchain/langgraph-checkpoint-sqlite"
        return "langgraph-checkpoint-sqlite with langgraph-checkpoint before 1.0.10"
    return "langgraph-checkpoint-sqlite before 3.1.2"
