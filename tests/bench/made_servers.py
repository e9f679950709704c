"""PostgreSQL and MariaDB stores that are measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any
from uuid import uuid4

import psycopg

from tests.backends.agent import fill as fill_one
from tests.bench.declared import Made, ckpt
from tests.bench.made_sqlite import ERROR, FAILED, WAITING, apart, copies
from tests.bench.make_postgres import STEPS, fill
from tests.bench.measure import run
from tests.bench.stores import Stores
from tests.servers import Server, mysql_connection, mysql_database, postgres_database

POSTGRES_TABLES = ("checkpoint_writes", "checkpoint_blobs", "checkpoints")
_FILTERED_STEPS = 12


def on_postgres(url: str, sql: str, *bound: object) -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(sql.encode(), bound or None).fetchall()


def on_mysql(url: str, sql: str) -> Any:
    with mysql_connection(url) as connection, connection.cursor() as cursor:
        cursor.execute(sql)
        return [*cursor.fetchall()]


def postgres(place: int) -> Callable[[Stores], AbstractContextManager[Made]]:
    """Return the maker of a database of one of the sizes."""

    @contextmanager
    def make(stores: Stores) -> Iterator[Made]:
        threads, deep = stores.size.postgres[place], stores.size.deep
        with postgres_database(stores.server("postgres")) as url:
            fill(url, threads, deep=deep)
            checkpoints = threads * STEPS + deep
            assert on_postgres(url, "SELECT count(*) FROM checkpoints") == [(checkpoints,)]
            asking = "SELECT thread_id FROM checkpoint_writes WHERE channel = '__interrupt__'"
            found = [one for (one,) in on_postgres(url, f"{asking} ORDER BY 1")]
            waiting = found[len(found) // 2]
            facts = {
                "threads": str(threads + 1),
                "checkpoints": str(checkpoints),
                "steps": str(STEPS),
                "deep": str(deep),
                "waiting": waiting,
                "thread": waiting,
            }
            yield Made(f"PostgreSQL, {checkpoints:,} checkpoints", url, facts)

    return make


@contextmanager
def largest_postgres(stores: Stores) -> Iterator[Made]:
    yield stores.get("postgres")


@contextmanager
def postgres_filtered(stores: Stores) -> Iterator[Made]:
    with postgres_database(stores.server("postgres")) as url:
        fill(url, stores.size.filtered, _FILTERED_STEPS, _FILTERED_STEPS)
        at = "FROM checkpoint_writes WHERE channel = '__interrupt__'"
        asking = f"SELECT DISTINCT thread_id {at} ORDER BY 1"
        failed, others = apart([one for (one,) in on_postgres(url, asking)])
        with psycopg.connect(url) as connection:
            connection.execute(
                "UPDATE checkpoint_writes SET channel = '__error__', idx = -1, blob = %s"
                " WHERE channel = '__interrupt__' AND thread_id = ANY(%s)",
                [ERROR, failed],
            )
            connection.execute(f"DELETE {at} AND thread_id = ANY(%s)".encode(), [others])
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM (ANALYZE) checkpoint_writes")
        engine = f"PostgreSQL, few of {stores.size.filtered} fail or wait"
        yield Made(engine, url, {"failed": str(FAILED), "waiting": str(WAITING)})


@contextmanager
def postgres_small_threads(stores: Stores) -> Iterator[Made]:
    server, number = stores.server("postgres"), stores.size.purged
    with postgres_database(server) as url:
        fill_one(url, "t")
        with psycopg.connect(url) as connection:
            for table in POSTGRES_TABLES:
                found = connection.execute(
                    "SELECT column_name FROM information_schema.columns WHERE table_name = %s"
                    " ORDER BY ordinal_position",
                    [table],
                )
                series = f"generate_series(0, {number - 1}) s(n)"
                names = [name for (name,) in found]
                connection.execute(copies(names, table, "", series, number).encode())
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")
        facts = {"threads": str(number), "old": "old-*"}
        yield Made("PostgreSQL", url, facts, partial(_postgres_scratch, server, url, facts))


@contextmanager
def _postgres_scratch(server: Server, url: str, facts: dict[str, str]) -> Iterator[Made]:
    name, source = f"ckpt_bench_{uuid4().hex[:12]}", url.rpartition("/")[2]
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name} TEMPLATE {source} STRATEGY file_copy".encode())
        admin.execute("CHECKPOINT")
    try:
        yield Made("PostgreSQL", server.at(name), facts)
    finally:
        with psycopg.connect(server.url, autocommit=True) as admin:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@contextmanager
def mysql(stores: Stores) -> Iterator[Made]:
    """Threads that `ckpt` copies from PostgreSQL."""
    source, threads = stores.get("postgres grown 1"), stores.size.postgres[1]
    with mysql_database(stores.server("mysql")) as url:
        # All but the long thread `deep`.
        run(
            ckpt("copy", "--match", "*-*", "--to", url, "--create", "--yes", "-o", "ndjson")(source)
        )
        # InnoDB counts its pages anew in the background; a query plan needs the numbers now.
        for table in ("checkpoints", "checkpoint_blobs", "checkpoint_writes"):
            on_mysql(url, f"ANALYZE TABLE {table}")
        asking = "SELECT thread_id FROM checkpoint_writes WHERE channel = '__interrupt__' LIMIT 1"
        ((waiting,),) = on_mysql(url, asking)
        facts = {"threads": str(threads), "checkpoints": str(threads * STEPS)}
        yield Made("MariaDB", url, {**facts, "waiting": waiting})


@contextmanager
def mysql_small_threads(stores: Stores) -> Iterator[Made]:
    from langgraph.checkpoint.mysql.pymysql import PyMySQLSaver

    from tests.backends.agent import graph_of

    server, number = stores.server("mysql"), stores.size.purged_keys
    with mysql_database(server) as url:
        with PyMySQLSaver.from_conn_string(url) as saver:
            saver.setup()
            graph_of(saver).invoke({"items": ["in"]}, {"configurable": {"thread_id": "t"}})
        on_mysql(url, "CREATE TABLE s (n int)")
        values = ", ".join(f"({n})" for n in range(number))
        on_mysql(url, f"INSERT INTO s VALUES {values}")
        for table in POSTGRES_TABLES:
            names = _stored_columns(url, table)
            on_mysql(url, copies(names, table, "", "s", number, concat=True))
            on_mysql(url, f"ANALYZE TABLE {table}")
        facts = {"threads": str(number), "old": "old-*"}
        yield Made("MariaDB", url, facts, partial(_mysql_scratch, server, url, facts))


def _stored_columns(url: str, table: str) -> list[str]:
    """Return the columns without those that the server computes; quoted, for one is `blob`."""
    described = on_mysql(url, f"SHOW COLUMNS FROM {table}")
    found = [row[0] for row in described if "GENERATED" not in row[5].upper()]
    return [name if name == "thread_id" else f"`{name}`" for name in found]


@contextmanager
def _mysql_scratch(server: Server, url: str, facts: dict[str, str]) -> Iterator[Made]:
    source = url.rpartition("/")[2]
    with mysql_database(server) as copy:
        on_mysql(copy, f"CREATE TABLE checkpoint_migrations LIKE {source}.checkpoint_migrations")
        on_mysql(
            copy, f"INSERT INTO checkpoint_migrations SELECT * FROM {source}.checkpoint_migrations"
        )
        for table in POSTGRES_TABLES:
            on_mysql(copy, f"CREATE TABLE {table} LIKE {source}.{table}")
            names = ", ".join(_stored_columns(copy, table))
            on_mysql(copy, f"INSERT INTO {table} ({names}) SELECT {names} FROM {source}.{table}")
            on_mysql(copy, f"ANALYZE TABLE {table}")
        yield Made("MariaDB", copy, facts)
