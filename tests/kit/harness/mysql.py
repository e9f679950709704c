"""MySQL and MariaDB databases."""

import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import pymysql

from ckpt_backends.testing.harness import Refusal, TestServer
from tests.kit.harness.sql import Shallow, SqlHarness
from tests.kit.savers.mysql import exactly
from tests.kit.servers import Server, mysql_connection, mysql_database


class MySQLHarness(SqlHarness):
    """langgraph-checkpoint-mysql on a separate database.

    The server compares ids by its default collation, which treats `User` and `user` as equal. The
    reading faults of the saver are corrected while it fills the store too; otherwise a thread
    `User` would be a turn of the thread `user`.
    """

    name: ClassVar[str] = "mysql"
    server: ClassVar[str | None] = "mysql"
    failing_scenarios: ClassVar[frozenset[str]] = frozenset({"zoo-floats"})
    """JSON has no NaN."""
    scenario_errors: ClassVar[Refusal] = pymysql.Error
    of_thread: ClassVar[str] = "BINARY thread_id = %s"
    size_of_body: ClassVar[str] = "octet_length(checkpoint) + octet_length(metadata)"
    size_of_value: ClassVar[str] = "coalesce(octet_length(`blob`), 0)"
    options_of_database: ClassVar[str] = ""

    def create(self, folder: Path, server: TestServer | None) -> str:
        assert isinstance(server, Server)
        return self.stack.enter_context(mysql_database(server, self.options_of_database))

    @cached_property
    def connection(self) -> Any:
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

    def run(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(query, values)
            return [*cursor.fetchall()]

    def columns(self, table: str) -> list[str]:
        found = self.run(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = DATABASE()"
            " AND table_name = %s AND column_name <> 'thread_id' ORDER BY ordinal_position",
            table,
        )
        return [f"`{name}`" for (name,) in found]


class ShallowMySQLHarness(Shallow, MySQLHarness):
    """The saver that keeps the newest checkpoint of each namespace, with ids compared exactly."""

    name: ClassVar[str] = "mysql-shallow"
    options_of_database: ClassVar[str] = "COLLATE utf8mb4_bin"

    @contextmanager
    def saver(self) -> Iterator[Any]:
        from langgraph.checkpoint.mysql.pymysql import ShallowPyMySQLSaver

        with mysql_connection(self.url) as connection, warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            saver = ShallowPyMySQLSaver(connection)
            saver.setup()
            yield exactly(saver)
