"""Reads kagent's tables; the module `layout` says which rows of them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any

from ckpt_backends.apps.kagent.layout import KEY, KagentTables
from ckpt_backends.base import BaseStore
from ckpt_backends.model import Thread
from ckpt_backends.rows import Row
from ckpt_backends.servers import STORE, checked
from ckpt_backends.sql.base64_values import Base64Store
from ckpt_backends.sql.database import Database
from ckpt_backends.sql.tables import (
    STATES_AT_ONCE,
    GroupedThreads,
    SqlTable,
    Tables,
    why_only_read,
    with_extras,
)
from ckpt_backends.url import StoreUrl


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
class KagentStore(Base64Store):
    """kagent's tables, opened for reading."""

    _OF_THREADS = ", min(user_id) AS user_id"
    records_users = True
    metadata_with = BaseStore.metadata_with  # no engine searches the base64 text

    def __init__(self, database: Database, url: StoreUrl, tables: KagentTables) -> None:
        super().__init__(database, url, tables.live())
        self._unknown = tables.unknown

    def _saver(self) -> str:
        return with_extras("kagent, KAgentCheckpointer", self._unknown)

    @property
    def _only_read(self) -> str:
        return why_only_read(self._unknown, ())

    def _grouped(self, where: str, made: str = "") -> GroupedThreads:
        return _WithUsers(*super()._grouped(where, made))

    def _threads(self, rows: Iterable[Sequence[Any]]) -> Iterator[Thread]:
        for row in rows:
            yield Thread(*row)

    def _stored_rows(self, table: SqlTable, thread_id: str) -> Iterator[Sequence[Any]]:
        order = ("checkpoint_ns", "checkpoint_id", "task_id", "write_idx")
        listed = ", ".join(f"c.{name}" for name in order if name in table.columns)
        columns = ", ".join(table.columns.values())
        query = f"SELECT {columns} FROM {table.sql} c WHERE {self._thread_is} ORDER BY {listed}"
        return self._stream(query, self._of(thread_id), STATES_AT_ONCE)

    def row_key(self, row: Row) -> Hashable:
        return row.table, *(row.cells.get(name) for name in (*KEY, "write_idx"))
