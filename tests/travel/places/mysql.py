"""MySQL and MariaDB databases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.mysql import exactly
from tests.servers import mysql_connection
from tests.travel.places.place import Rows


class MySQLPlace:
    """A database of the MySQL saver."""

    TABLES = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")

    def __init__(self, url: str) -> None:
        from langgraph.checkpoint.mysql.pymysql import PyMySQLSaver

        self.url = url
        self.connection = mysql_connection(url)
        saver = PyMySQLSaver(self.connection)
        saver.setup()
        self._saver = exactly(saver)

    def saver(self) -> Any:
        return self._saver

    def rows(self, thread_id: str) -> Rows:
        found: Rows = {}
        for table in self.TABLES:
            columns = ", ".join(self._columns(table))
            query = f"SELECT {columns} FROM {table} WHERE BINARY thread_id = %s ORDER BY 1, 2, 3, 4"
            found[table] = [*self._run(query, thread_id)]
        return found

    def copy(self, thread_id: str, new_id: str, until: str = "~") -> None:
        for table in self.TABLES:
            columns = ", ".join(self._columns(table))
            only = "" if table == "checkpoint_blobs" else f" AND checkpoint_id <= '{until}'"
            self._run(
                f"INSERT INTO {table} (thread_id, {columns})"
                f" SELECT %s, {columns} FROM {table} WHERE BINARY thread_id = %s{only}",
                new_id,
                thread_id,
            )

    def has_memory(self, thread_id: str) -> bool:
        query = "SELECT 1 FROM checkpoints WHERE BINARY thread_id = %s AND checkpoint_ns > ''"
        return bool(self._run(f"{query} AND LOCATE(':', checkpoint_ns) = 0", thread_id))

    def forget(self, thread_id: str) -> None:
        for table in self.TABLES:
            self._run(f"DELETE FROM {table} WHERE BINARY thread_id = %s", thread_id)

    def close(self) -> None:
        self.connection.close()

    def _columns(self, table: str) -> list[str]:
        found = self._run(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = DATABASE()"
            " AND table_name = %s AND column_name <> 'thread_id' ORDER BY ordinal_position",
            table,
        )
        return [f"`{name}`" for (name,) in found]

    def _run(self, query: str, *values: str) -> tuple[tuple[Any, ...], ...]:
        with self.connection.cursor() as cursor:
            cursor.execute(query, values)
            return tuple(cursor.fetchall())


@contextmanager
def mysql_place(url: str) -> Iterator[MySQLPlace]:
    place = MySQLPlace(url)
    try:
        yield place
    finally:
        place.close()
