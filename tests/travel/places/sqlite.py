"""SQLite files."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.travel.places.place import Rows


class SqlitePlace:
    """A file of the SQLite saver."""

    TABLES = ("checkpoints", "writes")

    def __init__(self, path: Path) -> None:
        from langgraph.checkpoint.sqlite import SqliteSaver

        self.url = str(path)
        self.connection = sqlite3.connect(path, check_same_thread=False)
        self.connection.execute("PRAGMA synchronous = OFF")
        self._saver = SqliteSaver(self.connection)
        self._saver.setup()

    def saver(self) -> Any:
        return self._saver

    def rows(self, thread_id: str) -> Rows:
        return {
            table: self.connection.execute(
                f"SELECT {', '.join(self._columns(table))} FROM {table} WHERE thread_id = ?"
                " ORDER BY 1, 2, 3, 4",
                [thread_id],
            ).fetchall()
            for table in self.TABLES
        }

    def copy(self, thread_id: str, new_id: str, until: str = "~") -> None:
        for table in self.TABLES:
            columns = ", ".join(self._columns(table))
            self.connection.execute(
                f"INSERT INTO {table} (thread_id, {columns})"
                f" SELECT ?, {columns} FROM {table} WHERE thread_id = ? AND checkpoint_id <= ?",
                [new_id, thread_id, until],
            )
        self.connection.commit()

    def has_memory(self, thread_id: str) -> bool:
        found = self.connection.execute(
            "SELECT 1 FROM checkpoints WHERE thread_id = ? AND checkpoint_ns > ''"
            " AND checkpoint_ns NOT LIKE '%:%'",
            [thread_id],
        )
        return found.fetchone() is not None

    def forget(self, thread_id: str) -> None:
        for table in self.TABLES:
            self.connection.execute(f"DELETE FROM {table} WHERE thread_id = ?", [thread_id])
        self.connection.commit()

    def close(self) -> None:
        self.connection.close()

    def _columns(self, table: str) -> Sequence[str]:
        found = self.connection.execute(f"SELECT name FROM pragma_table_info('{table}')")
        return [name for (name,) in found if name != "thread_id"]


@contextmanager
def sqlite_place(path: Path) -> Iterator[SqlitePlace]:
    place = SqlitePlace(path)
    try:
        yield place
    finally:
        place.close()
