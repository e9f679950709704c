"""SQLite files."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from ckpt_backends.testing.harness import TestServer
from tests.kit.harness.sql import SqlHarness


class SqliteHarness(SqlHarness):
    """langgraph-checkpoint-sqlite on a file."""

    TABLES = ("checkpoints", "writes")
    name: ClassVar[str] = "sqlite"
    of_thread: ClassVar[str] = "thread_id = ?"
    size_of_body: ClassVar[str] = "length(checkpoint) + length(metadata)"
    size_of_value: ClassVar[str] = "length(value)"

    def create(self, folder: Path, server: TestServer | None) -> str:
        return str(folder / "store.db")

    @property
    def path(self) -> Path:
        return Path(self._url)

    @cached_property
    def connection(self) -> sqlite3.Connection:
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

    def run(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        with self.connection:
            return self.connection.execute(query, values).fetchall()

    def columns(self, table: str) -> list[str]:
        found = self.run("SELECT name FROM pragma_table_info(?)", table)
        return [name for (name,) in found if name != "thread_id"]
