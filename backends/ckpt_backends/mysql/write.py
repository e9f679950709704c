"""Changes LangGraph's layout on MySQL and MariaDB, and makes its tables.

A change runs under a named lock of the thread.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ckpt_backends.errors import Refused, UnknownLayout, Unsupported
from ckpt_backends.model import in_chunks
from ckpt_backends.mysql.connect import MySQLConnection, connect
from ckpt_backends.mysql.database import (
    FULL,
    HASH,
    MySQLDatabase,
    MySQLLayout,
    MySQLTable,
    detect,
    exact,
    find_layout,
    find_tables,
    transaction,
)
from ckpt_backends.mysql.store import tables_of
from ckpt_backends.protocol import WritableStore
from ckpt_backends.rows import Row
from ckpt_backends.servers import opening
from ckpt_backends.sql.database import MEMORY_TABLES, something_else
from ckpt_backends.sql.tables import BLOBS, CHECKPOINTS, WRITES, not_changed, recognised
from ckpt_backends.sql.write import WritableSqlStore
from ckpt_backends.transfer.form import CannotHold, Language
from ckpt_backends.url import StoreUrl

_RIVAL = f"""
    SELECT {exact("thread_id")} FROM {{checkpoints}}
    WHERE thread_id = {{mark}} AND {exact("thread_id")} <> {exact("%(thread)s")} LIMIT 1
"""
"""Another thread with an id that is equal in the collation."""
_RIVALS = f"""
    SELECT MIN({exact("thread_id")}) AS one, MAX({exact("thread_id")}) AS other
    FROM {{checkpoints}} WHERE thread_id IN ({{threads}}) GROUP BY thread_id HAVING one <> other
"""
"""Threads with ids that are equal in the collation, of those that are equal to some ids."""


class WritableMySQLStore(WritableSqlStore):
    """A MySQL or MariaDB database, opened for changing."""

    def __init__(self, connection: MySQLConnection, url: StoreUrl, layout: MySQLLayout) -> None:
        if layout.only_read:
            raise not_changed(str(url), layout.only_read)
        if not layout.hashed:
            raise Unsupported(
                f"'{url}' was written by a saver older than 2.0.10, so ckpt only reads it",
                hint="run setup() of langgraph-checkpoint-mysql 3.0 once",
            )
        database = MySQLDatabase(connection, {table.name: table for table in layout.tables})
        super().__init__(database, url, tables_of(layout, database))
        self._layout = layout
        self._comparable = database.comparable

    def _check_thread(self, thread_id: str) -> None:
        mark = self._comparable("thread_id", "thread")
        query = _RIVAL.format(checkpoints=self._layout.checkpoints.sql, mark=mark)
        for (other,) in self._database.rows(query, {"thread": thread_id}):
            raise Unsupported(
                f"the saver cannot tell thread '{thread_id}' from '{other.decode()}'",
                hint=f"both ids are equal in the collation {self._layout.merging or 'in use'}",
            )

    def _check_received(self, thread_ids: Sequence[str]) -> None:
        for some in in_chunks(thread_ids):
            marks = {f"t{n}": one for n, one in enumerate(some)}
            listed = ", ".join(self._comparable("thread_id", mark) for mark in marks)
            query = _RIVALS.format(checkpoints=self._layout.checkpoints.sql, threads=listed)
            for one, other in self._database.rows(query, marks):
                raise CannotHold(
                    f"the saver cannot tell thread '{other.decode()}' from '{one.decode()}':"
                    f" both ids are equal in the collation {self._layout.merging or 'in use'}"
                )

    def _stored(self, row: Row) -> Row:
        """An archived row with the cells that its table stores.

        Depending on the release, the server or the saver computes the hash of the namespace. So
        generated columns are left out, and a missing hash is added.
        """
        columns = {table.name: table.columns for table in self._layout.tables}.get(row.table, {})
        computed = {name for name, column in columns.items() if column.generated}
        cells = {name: cell for name, cell in row.cells.items() if name not in computed}
        if HASH in columns.keys() - computed - cells.keys():
            cells[HASH] = self._layout.ns_key(str(cells["checkpoint_ns"]))
        return Row(row.table, cells)


def open_writable(url: StoreUrl) -> WritableStore:
    """Open for changing. Raises the errors of `store.open_store`, and `Unsupported`."""
    with opening(connect(url, writable=True), url) as connection:
        tables = find_tables(connection)
        columns = {name: set(one.columns) for name, one in tables.items()}
        if saver := recognised(columns):
            connection.restart()
            return saver.open_writable(MySQLDatabase(connection, tables), columns, url)
        layout = find_layout(connection, tables)
        connection.restart()
        return WritableMySQLStore(connection, url, layout)


# Makes the tables of LangGraph's saver in an empty database, as its newest release does.
#
# The saver is langgraph-checkpoint-mysql 3.0. MySQL ends the transaction at each statement that
# makes a table, so a run that was killed may leave some tables, all empty; the next run makes the
# others.


_MIGRATIONS = "checkpoint_migrations"
_KEY = "thread_id varchar(150) NOT NULL, checkpoint_ns varchar(2000) NOT NULL DEFAULT ''"
_ID = "checkpoint_id varchar(150) NOT NULL"
_HASH = "checkpoint_ns_hash binary(16) NOT NULL"
_TABLES = {
    BLOBS: f"{_KEY}, channel varchar(150) NOT NULL, version varchar(150) NOT NULL,"
    f" type varchar(150) NOT NULL, `blob` longblob, {_HASH},"
    " PRIMARY KEY (thread_id, checkpoint_ns_hash, channel, version),"
    " KEY checkpoint_blobs_thread_id_idx (thread_id)",
    WRITES: f"{_KEY}, {_ID}, task_id varchar(150) NOT NULL, idx int NOT NULL,"
    " channel varchar(150) NOT NULL, type varchar(150), `blob` longblob NOT NULL,"
    f" {_HASH}, task_path varchar(2000) NOT NULL DEFAULT '',"
    " PRIMARY KEY (thread_id, checkpoint_ns_hash, checkpoint_id, task_id, idx),"
    " KEY checkpoint_writes_thread_id_idx (thread_id)",
    CHECKPOINTS: f"{_KEY}, {_ID}, parent_checkpoint_id varchar(150), type varchar(150),"
    f" checkpoint json NOT NULL, metadata json NOT NULL DEFAULT ('{{}}'), {_HASH},"
    " PRIMARY KEY (thread_id, checkpoint_ns_hash, checkpoint_id),"
    " KEY checkpoints_thread_id_idx (thread_id), KEY checkpoints_checkpoint_id_idx (checkpoint_id)",
    _MIGRATIONS: "v int PRIMARY KEY",
}
_LAST_MIGRATION = 21


def create_store(url: StoreUrl, language: Language) -> None:  # noqa: ARG001 - Python only
    """Make the tables in an empty database, unless they are there.

    Raises `Refused` if there are other tables, and `StoreUnavailable`.
    """
    if (wanted := url.params.get("layout", FULL)) != FULL:
        raise Unsupported(f"cannot make a store of the layout '{wanted}'")
    connection = connect(url, writable=True)
    try:
        tables = find_tables(connection)
        there = [name for name in _TABLES if name in tables]
        others = tables.keys() - _TABLES.keys() - MEMORY_TABLES
        if CHECKPOINTS in there and _has_rows(connection, there):
            _check(tables, others, url)
        elif others:
            raise something_else(str(url), others)
        else:
            _make(connection, there)
    finally:
        connection.close()


def _has_rows(connection: MySQLConnection, tables: Sequence[str]) -> bool:
    """Whether a saver set up these tables, so that at least its migrations have rows."""
    return any(connection.rows(f"SELECT 1 FROM {name} LIMIT 1") for name in tables)


def _check(tables: Mapping[str, MySQLTable], others: Collection[str], url: StoreUrl) -> None:
    """Raise `Refused` unless the tables are those of the saver."""
    try:
        found = detect(tables, None, None, str(url))
    except UnknownLayout:
        raise something_else(str(url), {*others, CHECKPOINTS}) from None
    if found.shallow:
        raise Refused(
            f"cannot make a store in '{url}': it has the tables of the shallow saver",
            hint="name an empty database",
        )


def _make(connection: MySQLConnection, there: Sequence[str]) -> None:
    """Make the tables that are missing."""
    connection.restart()
    with transaction(connection):
        for name, columns in _TABLES.items():
            if name not in there:
                connection.change(f"CREATE TABLE {name} ({columns})")
        numbers = ", ".join(f"({number})" for number in range(_LAST_MIGRATION + 1))
        connection.change(f"INSERT INTO {_MIGRATIONS} (v) VALUES {numbers}")
