"""Changes LangGraph's layout on MySQL and MariaDB, under a named lock of the thread."""

from __future__ import annotations

from collections.abc import Sequence

from ckpt_backends.errors import Unsupported
from ckpt_backends.model import in_chunks
from ckpt_backends.mysql.connect import MySQLConnection, connect
from ckpt_backends.mysql.database import MySQLDatabase, find_layout, find_tables
from ckpt_backends.mysql.layout import HASH, MySQLLayout, bound
from ckpt_backends.mysql.queries import exact
from ckpt_backends.mysql.store import tables_of
from ckpt_backends.protocol import WritableStore
from ckpt_backends.rows import Row
from ckpt_backends.servers import opening
from ckpt_backends.sql.database import recognised
from ckpt_backends.sql.tables import not_changed
from ckpt_backends.sql.write import WritableSqlStore
from ckpt_backends.transfer.form import CannotHold
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
        database = MySQLDatabase(connection, url, {table.name: table for table in layout.tables})
        super().__init__(database, url, tables_of(layout, database))
        self._layout = layout

    def _check_thread(self, thread_id: str) -> None:
        mark = bound("%(thread)s", self._layout.checkpoints.columns["thread_id"])
        query = _RIVAL.format(checkpoints=self._layout.checkpoints.sql, mark=mark)
        for (other,) in self._database.rows(query, {"thread": thread_id}):
            raise Unsupported(
                f"the saver cannot tell thread '{thread_id}' from '{other.decode()}'",
                hint=f"both ids are equal in the collation {self._layout.merging or 'in use'}",
            )

    def _check_received(self, thread_ids: Sequence[str]) -> None:
        for some in in_chunks(thread_ids):
            marks = {f"t{n}": one for n, one in enumerate(some)}
            column = self._layout.checkpoints.columns["thread_id"]
            listed = ", ".join(bound(f"%({mark})s", column) for mark in marks)
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
            return saver.open_writable(MySQLDatabase(connection, url, tables), columns, url)
        layout = find_layout(connection, tables, url)
        connection.restart()
        return WritableMySQLStore(connection, url, layout)
