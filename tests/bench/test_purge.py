"""Purging 10,000 of 100,000 threads, beside the official loop and the raw DELETE. Prints only."""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from tests.backends.agent import fill, graph_of
from tests.bench.measure import Command, Figure, Runs, compared, memory, run
from tests.servers import Server, postgres_database

pytestmark = pytest.mark.bench

CKPT = Path(sysconfig.get_path("scripts")) / "ckpt"
MEMORY = 150
ROUNDS = 3
OFFICIAL = "delete_thread loop"
WORDS = ["--match", "old-*", "--yes", "-o", "ndjson"]
TABLES = {
    "sqlite": ("writes", "checkpoints"),
    "postgres": ("checkpoint_writes", "checkpoint_blobs", "checkpoints"),
}

OFFICIAL_SQLITE = """
import sqlite3, sys
from langgraph.checkpoint.sqlite import SqliteSaver
with sqlite3.connect(sys.argv[1]) as connection:
    saver = SqliteSaver(connection)
    for n in range(int(sys.argv[2])):
        saver.delete_thread(f"old-{n}")
"""
OFFICIAL_POSTGRES = """
import sys
from langgraph.checkpoint.postgres import PostgresSaver
with PostgresSaver.from_conn_string(sys.argv[1]) as saver:
    for n in range(int(sys.argv[2])):
        saver.delete_thread(f"old-{n}")
"""
RAW_SQLITE = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
names = [f"old-{n}" for n in range(int(sys.argv[2]))]
for start in range(0, len(names), 100):
    batch = names[start:start + 100]
    marks = ", ".join("?" * len(batch))
    connection.execute("BEGIN IMMEDIATE")
    for table in ("writes", "checkpoints"):
        connection.execute(f"DELETE FROM {table} WHERE thread_id IN ({marks})", batch)
    connection.execute("COMMIT")
"""
RAW_POSTGRES = """
import psycopg, sys
names = [f"old-{n}" for n in range(int(sys.argv[2]))]
with psycopg.connect(sys.argv[1]) as connection:
    for start in range(0, len(names), 100):
        batch = names[start:start + 100]
        for table in ("checkpoint_writes", "checkpoint_blobs", "checkpoints"):
            connection.execute(f"DELETE FROM {table} WHERE thread_id = ANY(%s)", [batch])
        connection.commit()
"""


FOUND_SQLITE = RAW_SQLITE.replace(
    'names = [f"old-{n}" for n in range(int(sys.argv[2]))]',
    """query = "SELECT thread_id, max(checkpoint_id), count(*) FROM checkpoints GROUP BY thread_id"
names = [row[0] for row in connection.execute(query) if row[0].startswith("old-")]""",
)
FOUND_POSTGRES = RAW_POSTGRES.replace(
    'names = [f"old-{n}" for n in range(int(sys.argv[2]))]\n', ""
).replace(
    "    for start",
    """    query = "SELECT thread_id, max(checkpoint_id) FROM checkpoints GROUP BY thread_id"
    names = [row[0] for row in connection.execute(query) if row[0].startswith("old-")]
    for start""",
    1,
)
"""The same, that looks for them as a purge has to."""


@pytest.fixture(scope="module")
def number() -> int:
    """How many threads there are; a tenth of them is old."""
    return int(os.environ.get("CKPT_BENCH_PURGE_THREADS", "100000"))


@pytest.fixture(scope="module")
def sqlite_store(tmp_path_factory: pytest.TempPathFactory, number: int) -> Path:
    from langgraph.checkpoint.sqlite import SqliteSaver

    path = tmp_path_factory.mktemp("purge") / "store.db"
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        saver = SqliteSaver(connection)
        graph_of(saver).invoke({"items": ["in"]}, {"configurable": {"thread_id": "t"}})
        connection.execute("PRAGMA synchronous = OFF")
        for table in TABLES["sqlite"]:
            connection.execute(
                _copies(
                    _columns(connection, table),
                    table,
                    "WITH RECURSIVE s(n) AS (SELECT 0 UNION"
                    f" ALL SELECT n + 1 FROM s WHERE n < {number - 1})",
                    "s",
                    number,
                )
            )
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path


@pytest.fixture(scope="module")
def postgres_store(postgres_server: Server, number: int) -> Iterator[str]:
    with postgres_database(postgres_server) as url:
        fill(url, "t")
        with psycopg.connect(url) as connection:
            for table in TABLES["postgres"]:
                found = connection.execute(
                    "SELECT column_name FROM information_schema.columns WHERE table_name = %s"
                    " ORDER BY ordinal_position",
                    [table],
                )
                series = f"generate_series(0, {number - 1}) s(n)"
                columns = [name for (name,) in found]
                connection.execute(_copies(columns, table, "", series, number).encode())
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")
        yield url


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    found = connection.execute(f"SELECT name FROM pragma_table_info('{table}')")
    return [name for (name,) in found]


def _copies(columns: list[str], table: str, before: str, series: str, number: int) -> str:
    """Copies of the thread that a saver wrote, the first tenth of them called old."""
    rest = ", ".join(f"t.{name}" for name in columns if name != "thread_id")
    names = ", ".join(["thread_id", *(name for name in columns if name != "thread_id")])
    thread = f"CASE WHEN n < {number // 10} THEN 'old-' ELSE 'new-' END || n"
    return (
        f"INSERT INTO {table} ({names}) {before} SELECT {thread}, {rest} FROM {series}, {table} t"
        " WHERE t.thread_id = 't'"
    )


def measured(
    commands: Mapping[str, Command], prepare: Callable[[], None], left: Callable[[], int]
) -> dict[str, Runs]:
    """Each command on a store of its own; afterwards none of the old threads is left."""
    found: dict[str, list[object]] = {name: [] for name in commands}
    for _ in range(ROUNDS):
        for name, command in commands.items():
            prepare()
            found[name].append(run(command))
            assert left() == 0, name
    return {name: Runs(runs) for name, runs in found.items()}  # type: ignore[arg-type]


def report(figures: list[Figure], engine: str, found: Mapping[str, Runs], rows: int) -> None:
    for name, ours in found.items():
        if name.startswith("purge"):
            for other, most in (("find and DELETE", 2), ("DELETE", None), (OFFICIAL, None)):
                if other in found:
                    figures.append(compared(f"{engine}: {name}", ours, other, found[other], most))
            figures.append(memory(f"{engine}: {name}", ours.mib, MEMORY))
            figures.append(Figure(f"{engine}: {name}", f"{rows / ours.least:,.0f} rows/s"))


def test_sqlite(sqlite_store: Path, number: int, tmp_path: Path, figures: list[Figure]) -> None:
    copy = tmp_path / "copy.db"
    purge: list[str | Path] = [CKPT, "-s", copy, "purge", *WORDS]
    blind: Command = [*purge, "--include-interrupted", "--include-pending"]
    old = str(number // 10)

    def prepare() -> None:
        for suffix in ("-wal", "-shm"):
            copy.with_name(copy.name + suffix).unlink(missing_ok=True)
        shutil.copyfile(sqlite_store, copy)

    def left() -> int:
        with closing(sqlite3.connect(copy)) as connection:
            return sum(
                _old_rows(connection.execute(_COUNT.format(table)).fetchone())
                for table in TABLES["sqlite"]
            )

    with closing(sqlite3.connect(sqlite_store)) as connection:
        rows = sum(
            _old_rows(connection.execute(_COUNT.format(table)).fetchone())
            for table in TABLES["sqlite"]
        )
    found = measured(
        {
            "purge": purge,
            "purge, whatever they wait for": blind,
            "DELETE": [sys.executable, "-c", RAW_SQLITE, copy, old],
            "find and DELETE": [sys.executable, "-c", FOUND_SQLITE, copy, old],
            OFFICIAL: [sys.executable, "-c", OFFICIAL_SQLITE, copy, old],
        },
        prepare,
        left,
    )
    report(figures, "SQLite", found, rows)


def test_postgres(
    postgres_server: Server, postgres_store: str, number: int, figures: list[Figure]
) -> None:
    admin, name = postgres_store.rpartition("/")[0] + "/postgres", "ckpt_bench_purge"
    url = postgres_store.rpartition("/")[0] + f"/{name}"
    purge: list[str | Path] = [CKPT, "-s", url, "purge", *WORDS]
    blind: Command = [*purge, "--include-interrupted", "--include-pending"]
    old, source = str(number // 10), postgres_store.rpartition("/")[2]

    def drop() -> None:
        with psycopg.connect(admin, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)".encode())

    def prepare() -> None:
        drop()
        with psycopg.connect(admin, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {source}".encode())

    def count(at: str) -> int:
        with psycopg.connect(at) as connection:
            return sum(
                _old_rows(connection.execute(_COUNT.format(table).encode()).fetchone())
                for table in TABLES["postgres"]
            )

    try:
        found = measured(
            {
                "purge": purge,
                "purge, whatever they wait for": blind,
                "DELETE": [sys.executable, "-c", RAW_POSTGRES, url, old],
                "find and DELETE": [sys.executable, "-c", FOUND_POSTGRES, url, old],
                OFFICIAL: [sys.executable, "-c", OFFICIAL_POSTGRES, url, old],
            },
            prepare,
            lambda: count(url),
        )
    finally:
        drop()
    report(figures, "PostgreSQL", found, count(postgres_store))


_COUNT = "SELECT count(*) FROM {} WHERE thread_id >= 'old-' AND thread_id < 'old.'"


def _old_rows(row: tuple[int] | None) -> int:
    assert row is not None
    return row[0]
