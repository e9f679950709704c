"""Reads kagent's tables; the module `layout` says which rows of them."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from typing import Any

from ckpt_backends.apps.kagent.layout import KEY, KagentTables, decoded
from ckpt_backends.base import BaseStore
from ckpt_backends.codec.values import MOST_BYTES, unread
from ckpt_backends.model import Checkpoint, CheckpointKey, Thread, TypedBytes, Write, in_chunks
from ckpt_backends.protocol import CheckpointQuery
from ckpt_backends.rows import Row
from ckpt_backends.servers import STORE, checked
from ckpt_backends.sql.database import Database
from ckpt_backends.sql.store import Keyed, SqlStore
from ckpt_backends.sql.tables import (
    BODIES_AT_ONCE,
    KEYS_AT_ONCE,
    STATES_AT_ONCE,
    GroupedThreads,
    RowQuery,
    SqlTable,
    Tables,
    where_all,
    why_only_read,
    with_extras,
)
from ckpt_backends.url import StoreUrl

_THREADS = """
    SELECT thread_id AS thread, max(checkpoint_id) FILTER (WHERE checkpoint_ns = '') AS head,
           min(checkpoint_id COLLATE "C") AS first_id, max(checkpoint_id COLLATE "C") AS newest,
           count(*) AS n, count(DISTINCT checkpoint_ns) AS spaces, min(user_id) AS user_id
    FROM {checkpoints} c {where} GROUP BY thread_id
"""
_KEYS = """
    unnest(%(threads)s::text[], %(spaces)s::text[], %(ids)s::text[])
    WITH ORDINALITY k(thread, ns, id, n) JOIN {table} c
    ON c.thread_id = k.thread AND c.checkpoint_ns = k.ns AND c.checkpoint_id = k.id
"""


def open_tables(database: Database, columns: Tables, url: StoreUrl, schema: str) -> KagentStore:
    """Open a database with these tables for reading. Raises `UnknownLayout` and `Unsupported`."""
    tables = KagentTables(database, columns, url, schema)
    tables.check_users()
    return KagentStore(database, url, tables)


class _WithUsers(GroupedThreads):
    """The query for threads, with the user as the last column."""

    @property
    def rows(self) -> str:
        columns = "t.thread, t.head, t.first_id, t.newest, t.n, t.spaces, t.user_id"
        return f"SELECT {columns} FROM ({self.query}) t"


@checked(*STORE, "faults")
class KagentStore(SqlStore):
    """kagent's tables, opened for reading."""

    _LENGTH = "(octet_length({0}) / 4 * 3 - octet_length({0}) + octet_length(rtrim({0}, '=')))"
    records_users = True
    _BODY_TYPE = "c.type"
    metadata_with = BaseStore.metadata_with  # no engine searches the base64 text

    def __init__(self, database: Database, url: StoreUrl, tables: KagentTables) -> None:
        super().__init__(database, url, tables.live())
        self._unknown = tables.unknown

    def _saver(self) -> str:
        return with_extras("kagent, KAgentCheckpointer", self._unknown)

    @property
    def _only_read(self) -> str:
        return why_only_read(self._unknown, ())

    def notes(self) -> Sequence[str]:
        return self._database.notes()

    def _grouped(self, where: str, made: str = "") -> GroupedThreads:
        where = where_all(where, made)
        source = self._tables.checkpoints.source
        return _WithUsers(_THREADS.format(checkpoints=source, where=where), {})

    def _threads(self, rows: Iterable[Sequence[Any]]) -> Iterator[Thread]:
        for row in rows:
            yield Thread(*row)

    def _select_checkpoints(self, asked: CheckpointQuery) -> RowQuery:
        columns = [
            f"octet_length({name}), CASE WHEN octet_length({name}) <= {MOST_BYTES} THEN {name} END"
            if is_read
            else "NULL, NULL"
            for name, is_read in (("c.checkpoint", asked.body), ("c.metadata", asked.metadata))
        ]
        has_bodies = asked.body or asked.metadata
        return RowQuery(
            table=self._tables.checkpoints,
            columns=f"c.parent_checkpoint_id, c.type, {', '.join(columns)}",
            order="c.checkpoint_id DESC",
            at_once=STATES_AT_ONCE
            if asked.body
            else BODIES_AT_ONCE
            if has_bodies
            else KEYS_AT_ONCE,
            has_bodies=has_bodies,
        )

    def _read_checkpoints(self, rows: Keyed, asked: CheckpointQuery) -> Iterator[Checkpoint]:
        for key, (parent, tag, size, body, meta_size, metadata) in rows:
            yield Checkpoint(
                key,
                parent,
                _value(tag, size, body) if asked.body else None,
                _value("json", meta_size, metadata) if asked.metadata else None,
            )

    def _write(self, key: CheckpointKey, row: Sequence[Any]) -> Write:
        task_id, path, idx, channel, tag, size, is_read, text = row
        value = _value(tag, size, text) if is_read else None
        return Write(key, task_id, path, idx, channel, size, value)

    def _at(self, query: RowQuery, keys: Sequence[CheckpointKey]) -> Keyed:
        keyed = _KEYS.format(table=query.table.source)
        text = f"SELECT n, {query.columns} FROM {keyed} {query.join} {query.rest}"
        stored = [key for key in keys if self._database.storable("".join(key))]
        for some in in_chunks(stored, BODIES_AT_ONCE):
            threads, spaces, ids = map(list, zip(*some, strict=True))
            values = {**query.values, "threads": threads, "spaces": spaces, "ids": ids}
            for n, *row in self._stream(text, values, query.at_once):
                yield some[n - 1], row

    # Rows hold texts, in which the engine cannot search for bytes.
    records_of = BaseStore.records_of

    def threads_that_may_hold(
        self, thread_ids: Sequence[str], texts: Collection[str], *, ignore_case: bool = False
    ) -> set[str]:
        return BaseStore.threads_that_may_hold(self, thread_ids, texts, ignore_case=ignore_case)

    def _stored_rows(self, table: SqlTable, thread_id: str) -> Iterator[Sequence[Any]]:
        order = ("checkpoint_ns", "checkpoint_id", "task_id", "write_idx")
        listed = ", ".join(f"c.{name}" for name in order if name in table.columns)
        columns = ", ".join(table.columns.values())
        query = f"SELECT {columns} FROM {table.sql} c WHERE {self._thread_is} ORDER BY {listed}"
        return self._stream(query, self._of(thread_id), STATES_AT_ONCE)

    def row_key(self, row: Row) -> Hashable:
        return row.table, *(row.cells.get(name) for name in (*KEY, "write_idx"))


def _value(tag: str, size: int, text: str | None) -> TypedBytes:
    """The value that a text stores; without it, the value was too long to read."""
    return unread(tag, size) if text is None else decoded(tag, text)
