"""MySQL and MariaDB databases.

The official MySQL saver, with its reading faults corrected, and databases that it fills.
"""

import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import pymysql

from ckpt_backends.testing.harness import Refusal, TestServer
from tests.kit.agents.steps import talk, with_user
from tests.kit.harness.sql import Shallow, SqlHarness
from tests.kit.servers import Server, free_port, mysql_connection, mysql_database

_END_OF_PATH = "\x1f"
_THREAD = "thread_id = %(thread_id)s"
_REPLACED = {
    # With the path before the task id, writes are sorted as LangGraph applies them.
    "json_arrayagg(json_array(\n            cw.task_id,": (
        f"json_arrayagg(json_array(concat(cw.task_path, '{_END_OF_PATH}', cw.task_id),"
    ),
    # MariaDB does not find a key by a path with escapes, which are used for all non-ASCII names.
    """json_extract(checkpoint, concat('$.channel_versions.', '"', channel, '"'))""": (
        "json_extract(json_extract(checkpoint, '$.channel_versions.*'), concat('$[', nth - 1, ']'))"
    ),
    "'$[*]' columns (channel ": "'$[*]' columns (nth FOR ORDINALITY, channel ",
}


def _put_right(query: str) -> str:
    for text, other in _REPLACED.items():
        query = query.replace(text, other)
    return query


def exactly(saver: Any) -> Any:
    """Return the saver with its reading faults corrected.

    The official saver does not distinguish thread ids that differ in case, if the server does not.
    It returns writes by task id, so that writes of parallel tasks reach a DeltaChannel in the order
    of the task ids. On MariaDB it returns no values of channels with non-ASCII names.
    """

    class Exactly(type(saver)):  # type: ignore[misc]
        SELECT_SQL = _put_right(getattr(saver, "SELECT_SQL", ""))

        @staticmethod
        def _select_sql(where: str) -> str:
            exact = where.replace(_THREAD, f"{_THREAD} AND BINARY {_THREAD}")
            return _put_right(type(saver)._select_sql(exact))

        def _load_writes(self, writes: Any) -> Any:
            return [
                (task.partition(_END_OF_PATH)[2], channel, value)
                for task, channel, value in super()._load_writes(writes)
            ]

    found = copy(saver)
    found.__class__ = Exactly
    return found


TABLES = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")


def run(url: str, *statements: str) -> Any:
    with mysql_connection(url) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return cursor.fetchall()


@contextmanager
def saver_of(url: str, *, exact: bool = False) -> Iterator[Any]:
    from langgraph.checkpoint.mysql.pymysql import PyMySQLSaver

    with PyMySQLSaver.from_conn_string(url) as saver:
        saver.setup()
        yield exactly(saver) if exact else saver


def fill(url: str, *threads: str, exact: bool = False) -> None:
    with saver_of(url, exact=exact) as saver:
        talk(saver, *threads)


@contextmanager
def user(url: str, rights: str, password: str = "") -> Iterator[str]:
    """The URL of a new user with such rights on the database, without the password."""
    name, database = f"reader_{free_port()}", urlsplit(url).path.removeprefix("/")
    secret = password.replace("\\", "\\\\").replace("'", "''")
    granted = [f"GRANT {rights} ON {database}.{table} TO {name}@'%'" for table in TABLES]
    run(url, f"CREATE USER {name}@'%' IDENTIFIED BY '{secret}'", *granted)
    try:
        yield with_user(url, name)
    finally:
        run(url, f"DROP USER {name}@'%'")


def migrated(url: str, last: int, source: str) -> None:
    """Tables as a saver of that last migration left them, with the rows of another database."""
    from langgraph.checkpoint.mysql.base import MIGRATIONS

    names = MIGRATIONS[: last + 1]
    run(url, *names, *(f"INSERT INTO checkpoint_migrations VALUES ({n})" for n in range(last + 1)))
    whence = urlsplit(source).path.removeprefix("/")
    for table in TABLES:
        columns = ", ".join(
            f"`{name}`"
            for (name,) in run(
                url,
                "SELECT column_name FROM information_schema.columns"
                f" WHERE table_schema = DATABASE() AND table_name = '{table}'",
            )
        )
        run(url, f"INSERT INTO {table} ({columns}) SELECT {columns} FROM {whence}.{table}")


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
