"""SQLite files."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, ClassVar

from tests.conformance.benches.bench import Bench
from tests.servers import Server


class SqliteBench(Bench):
    """langgraph-checkpoint-sqlite on a file."""

    name: ClassVar[str] = "sqlite"
    server: ClassVar[str | None] = None

    def __init__(self, folder: Path, server: Server | None) -> None:
        self.path = folder / "store.db"

    @property
    def url(self) -> str:
        return str(self.path)

    @contextmanager
    def saver(self) -> Iterator[Any]:
        from langgraph.checkpoint.sqlite import SqliteSaver

        with closing(sqlite3.connect(self.path, check_same_thread=False)) as connection:
            saver = SqliteSaver(connection)
            saver.setup()
            yield saver

    def forget(self, saver: Any, thread_id: str) -> None:
        saver.delete_thread(thread_id)

    def fingerprint(self) -> object:
        return self.path.read_bytes()

    def close(self) -> None:
        """The folder is removed by pytest."""
