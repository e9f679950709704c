"""MySQL and MariaDB databases."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import pymysql

from ckpt_backends.testing.counting import Count
from ckpt_backends.testing.harness import Harness, Refusal, StoredRows, TestServer
from tests.kit.harness.counting import HOLDS, sized
from tests.kit.savers.mysql import exactly
from tests.kit.servers import Server, mysql_connection, mysql_database


class MySQLHarness(Harness):
    """langgraph-checkpoint-mysql on a separate database.

    The server compares ids by its default collation, which treats `User` and `user` as equal. The
    reading faults of the saver are corrected while it fills the store too; otherwise a thread
    `User` would be a turn of the thread `user`.
    """

    TABLES = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
    name: ClassVar[str] = "mysql"
    server: ClassVar[str | None] = "mysql"
    failing_scenarios: ClassVar[frozenset[str]] = frozenset({"zoo-floats"})
    """JSON has no NaN."""
    scenario_errors: ClassVar[Refusal] = pymysql.Error
    options_of_database: ClassVar[str] = ""

    def create(self, folder: Path, server: TestServer | None) -> str:
        assert isinstance(server, Server)
        return self.stack.enter_context(mysql_database(server, self.options_of_database))

    @cached_property
    def connection(self) -> Any:
        """A connection of its own, open until the harness is closed."""
        return self.stack.enter_context(closing(mysql_connection(self.url)))

    @contextmanager
    def saver(self) -> Iterator[Any]:
        from langgraph.checkpoint.mysql.pymysql import PyMySQLSaver

        with PyMySQLSaver.from_conn_string(self.url) as saver:
            saver.setup()
            yield exactly(saver)

    def fingerprint(self) -> object:
        names = ("checkpoints", "checkpoint_blobs", "checkpoint_writes", "checkpoint_migrations")
        found = {}
        with mysql_connection(self.url) as connection, connection.cursor() as cursor:
            for name in names:
                cursor.execute(f"SELECT * FROM {name}")
                found[name] = sorted(map(repr, cursor.fetchall()))
        return found

    def rows(self, thread_id: str) -> StoredRows:
        found: StoredRows = {}
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

    def has_stateful_subgraph(self, thread_id: str) -> bool:
        query = "SELECT 1 FROM checkpoints WHERE BINARY thread_id = %s AND checkpoint_ns > ''"
        return bool(self._run(f"{query} AND LOCATE(':', checkpoint_ns) = 0", thread_id))

    def forget(self, thread_id: str) -> None:
        for table in self.TABLES:
            self._run(f"DELETE FROM {table} WHERE BINARY thread_id = %s", thread_id)

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

    def count(self) -> Count:
        found = Count()
        with mysql_connection(self.url) as connection, connection.cursor() as cursor:
            for table, query in sized("octet_length(checkpoint) + octet_length(metadata)"):
                cursor.execute(query)
                ((rows, size),) = cursor.fetchall()
                found.add(table, HOLDS[table], int(size), rows)
        return found


class ShallowMySQLHarness(MySQLHarness):
    """The saver that keeps only the newest checkpoint of each namespace.

    Ids are compared by their code points; with another collation, `User` would replace `user`.
    """

    name: ClassVar[str] = "mysql-shallow"
    has_history: ClassVar[bool] = False
    options_of_database: ClassVar[str] = "COLLATE utf8mb4_bin"
    failing_scenarios: ClassVar[frozenset[str]] = frozenset(
        {"fork-invoke", "fork-update", "fork-update-open", "fork-copy", "fork-chat"}
        | {"fork-subgraph", "delta-fork-often", "delta-fork-rarely"}
    )
    """There is no history to go back to."""
    scenario_errors: ClassVar[Refusal] = StopIteration
    run_options: ClassVar[Mapping[str, Any]] = {"durability": "sync"}
    """A `put` removes the writes of all other checkpoints. If the graph does not wait for it, it
    may come late and remove the writes of the next checkpoint.
    """

    @contextmanager
    def saver(self) -> Iterator[Any]:
        from langgraph.checkpoint.mysql.pymysql import ShallowPyMySQLSaver

        with mysql_connection(self.url) as connection, warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            saver = ShallowPyMySQLSaver(connection)
            saver.setup()
            yield exactly(saver)
