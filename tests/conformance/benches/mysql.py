"""MySQL and MariaDB databases."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pymysql

from tests.conformance.benches.bench import Bench, Refusal
from tests.mysql import exactly
from tests.servers import Server, mysql_connection, mysql_database


class MySQLBench(Bench):
    """langgraph-checkpoint-mysql on a separate database.

    The server compares ids by its default collation, which treats `User` and `user` as equal. The
    reading faults of the saver are corrected while it fills the store too; otherwise a thread
    `User` would be a turn of the thread `user`.
    """

    name: ClassVar[str] = "mysql"
    server: ClassVar[str | None] = "mysql"
    refused: ClassVar[frozenset[str]] = frozenset({"zoo-floats"})
    """JSON has no NaN."""
    refusal: ClassVar[Refusal] = pymysql.Error
    options_of_database: ClassVar[str] = ""

    def __init__(self, folder: Path, server: Server | None) -> None:
        assert server is not None
        self._stack = ExitStack()
        made = mysql_database(server, self.options_of_database)
        self._url = self._stack.enter_context(made)

    @property
    def url(self) -> str:
        return self._url

    @contextmanager
    def saver(self) -> Iterator[Any]:
        from langgraph.checkpoint.mysql.pymysql import PyMySQLSaver

        with PyMySQLSaver.from_conn_string(self._url) as saver:
            saver.setup()
            yield exactly(saver)

    def forget(self, saver: Any, thread_id: str) -> None:
        # The shallow saver has no `delete_thread`.
        with mysql_connection(self._url) as connection:
            for table in ("checkpoints", "checkpoint_blobs", "checkpoint_writes"):
                connection.cursor().execute(
                    f"DELETE FROM {table} WHERE BINARY thread_id = %s", [thread_id]
                )

    def fingerprint(self) -> object:
        names = ("checkpoints", "checkpoint_blobs", "checkpoint_writes", "checkpoint_migrations")
        found = {}
        with mysql_connection(self._url) as connection, connection.cursor() as cursor:
            for name in names:
                cursor.execute(f"SELECT * FROM {name}")
                found[name] = sorted(map(repr, cursor.fetchall()))
        return found

    def close(self) -> None:
        self._stack.close()


class ShallowMySQLBench(MySQLBench):
    """The saver that keeps only the newest checkpoint of each namespace.

    Ids are compared by their code points; with another collation, `User` would replace `user`.
    """

    name: ClassVar[str] = "mysql-shallow"
    has_history: ClassVar[bool] = False
    options_of_database: ClassVar[str] = "COLLATE utf8mb4_bin"
    refused: ClassVar[frozenset[str]] = frozenset(
        {"fork-invoke", "fork-update", "fork-update-open", "fork-copy", "fork-chat"}
        | {"fork-subgraph", "delta-fork-often", "delta-fork-rarely"}
    )
    """There is no history to go back to."""
    refusal: ClassVar[Refusal] = StopIteration
    options: ClassVar[Mapping[str, Any]] = {"durability": "sync"}
    """A `put` removes the writes of all other checkpoints. If the graph does not wait for it, it
    may come late and remove the writes of the next checkpoint.
    """

    @contextmanager
    def saver(self) -> Iterator[Any]:
        from langgraph.checkpoint.mysql.pymysql import ShallowPyMySQLSaver

        with (
            mysql_connection(self._url) as connection,
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore", DeprecationWarning)
            saver = ShallowPyMySQLSaver(connection)
            saver.setup()
            yield exactly(saver)
