"""SQLite files."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from ckpt_backends.testing.counting import Count
from ckpt_backends.testing.harness import Harness, StoredRows, TestServer


class SqliteHarness(Harness):
    """langgraph-checkpoint-sqlite on a file."""

    TABLES = ("checkpoints", "writes")
    name: ClassVar[str] = "sqlite"

    def create(self, folder: Path, server: TestServer | None) -> str:
        return str(folder / "store.db")

    @property
    def path(self) -> Path:
        """The file or folder of the store."""
        return Path(self._url)

    @cached_property
    def connection(self) -> sqlite3.Connection:
        """A connection of its own, open until the harness is closed."""
        connection = sqlite3.connect(self.path, check_same_thread=False)
        connection.execute("PRAGMA synchronous = OFF")
        self.stack.callback(connection.close)
        return connection

    @cached_property
    def kept_saver(self) -> Any:
        from langgraph.checkpoint.sqlite import SqliteSaver

        saver = SqliteSaver(self.connection)
        saver.setup()
        return saver

    @contextmanager
    def saver(self) -> Iterator[Any]:
        from langgraph.checkpoint.sqlite import SqliteSaver

        with closing(sqlite3.connect(self.path, check_same_thread=False)) as connection:
            saver = SqliteSaver(connection)
            saver.setup()
            yield saver

    def fingerprint(self) -> object:
        return self.path.read_bytes()

    def rows(self, thread_id: str) -> StoredRows:
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

    def has_stateful_subgraph(self, thread_id: str) -> bool:
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

    def _columns(self, table: str) -> Sequence[str]:
        found = self.connection.execute(f"SELECT name FROM pragma_table_info('{table}')")
        return [name for (name,) in found if name != "thread_id"]

    def count(self) -> Count:
        found = Count()
        with closing(sqlite3.connect(self.path)) as connection:
            for table, size in (
                ("checkpoints", "length(checkpoint) + length(metadata)"),
                ("writes", "length(value)"),
            ):
                query = f"SELECT count(*), coalesce(sum({size}), 0) FROM {table}"
                ((rows, total),) = connection.execute(query)
                found.add(table, table, total, rows)
        return found
