"""The official MySQL saver, with its reading faults corrected, and databases that it fills."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any
from urllib.parse import urlsplit

from tests.kit.agents.steps import talk, with_user
from tests.kit.servers import free_port, mysql_connection

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
