"""Killed at any moment, a purge leaves each thread whole or gone, and nothing is lost."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.kit.agents.steps import graph_of, saver_of
from tests.kit.command import ckpt
from tests.kit.kill.anywhere import run_and_kill, seconds_of
from tests.kit.servers import Server, mysql_connection, mysql_database, postgres_database

THREADS = 40
Rows = dict[str, list[tuple[object, ...]]]
"""Every row of every thread."""


@dataclass(frozen=True)
class Full:
    """A store of many threads, written by the official saver."""

    url: str
    refill: Callable[[], None]
    """Make it as it was at first."""
    rows: Callable[[], Rows]


def _write(saver: Any) -> None:
    for number in range(THREADS):
        config = {"configurable": {"thread_id": f"t{number}"}}
        graph_of(saver).invoke({"items": ["x" * 2000]}, config)


@pytest.fixture(scope="module")
def on_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Full:
    from langgraph.checkpoint.sqlite import SqliteSaver

    path = tmp_path_factory.mktemp("killed") / "full.db"
    store = path.with_name("store.db")
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        _write(SqliteSaver(connection))
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def refill() -> None:
        for suffix in ("-wal", "-shm"):
            store.with_name(store.name + suffix).unlink(missing_ok=True)
        shutil.copyfile(path, store)

    def rows() -> Rows:
        with closing(sqlite3.connect(store)) as connection:
            return _by_thread(connection.execute, ("checkpoints", "writes"))

    return Full(str(store), refill, rows)


@pytest.fixture(scope="module")
def on_postgres(postgres_server: Server) -> Iterator[Full]:
    tables = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
    with postgres_database(postgres_server) as url:
        with saver_of(url) as saver:
            saver.setup()
            _write(saver)
        with psycopg.connect(url) as connection:
            for table in tables:
                connection.execute(f"CREATE TABLE full_{table} AS TABLE {table}".encode())

        def refill() -> None:
            with psycopg.connect(url) as connection:
                for table in tables:
                    text = f"TRUNCATE {table}; INSERT INTO {table} TABLE full_{table}"
                    connection.execute(text.encode())

        def rows() -> Rows:
            with psycopg.connect(url) as connection:
                return _by_thread(lambda text: connection.execute(text.encode()), tables)

        yield Full(url, refill, rows)


@pytest.fixture(scope="module")
def on_mysql(mysql_server: Server) -> Iterator[Full]:
    from langgraph.checkpoint.mysql.pymysql import PyMySQLSaver

    tables = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
    with mysql_database(mysql_server) as url, mysql_connection(url) as connection:

        def query(text: str) -> Any:
            with connection.cursor() as cursor:
                cursor.execute(text)
                return cursor.fetchall()

        saver = PyMySQLSaver(connection)
        saver.setup()
        _write(saver)
        for table in tables:
            query(f"CREATE TABLE full_{table} AS SELECT * FROM {table}")

        def refill() -> None:
            for table in tables:
                query(f"TRUNCATE {table}")
                query(f"INSERT INTO {table} SELECT * FROM full_{table}")

        yield Full(url, refill, lambda: _by_thread(query, tables))


def _by_thread(query: Callable[[str], Any], tables: tuple[str, ...]) -> Rows:
    found: Rows = {}
    for table in tables:
        for row in query(f"SELECT * FROM {table}"):
            found.setdefault(row[0], []).append((table, *row))
    return {thread: sorted(rows, key=repr) for thread, rows in found.items()}


def check(full: Full, folder: Path, seed: int, longest: float) -> str:
    """One round: kill a purge, then kill the import of what it archived."""
    dice, archive = random.Random(seed), folder / "archive"
    full.refill()
    before = full.rows()
    words: list[str | Path] = ["-s", full.url, "purge", "--match", "t*", "--batch", "4", "--yes"]
    ended = run_and_kill([*words, "--archive", archive], dice, longest)
    after = full.rows()
    for thread, rows in after.items():
        assert rows == before[thread], thread
    bundles = list(archive.glob("*.ckpt.gz")) if archive.exists() else []
    if bundles:
        run_and_kill(["-s", full.url, "import", *bundles, "--yes"], dice, longest)
        for thread, rows in full.rows().items():
            assert rows == before[thread], thread
        done = ckpt("-s", full.url, "import", *bundles, "--yes")
        assert done.code == 0, done.err
    assert full.rows() == before
    again = ckpt(*words, "-o", "json").json
    assert again["removed"]["threads"] == THREADS
    assert full.rows() == {}
    return "ended" if ended else "killed" if len(after) == THREADS else "in the middle"


def rounds(full: Full, folder: Path, number: int) -> Iterator[str]:
    full.refill()
    words: list[str | Path] = ["-s", full.url, "purge", "--match", "t*", "--batch", "4", "--yes"]
    longest = seconds_of([*words, "--archive", folder / "timed"])
    for seed in range(number):
        place = folder / str(seed)
        place.mkdir()
        yield check(full, place, seed, longest)
        shutil.rmtree(place)


@pytest.mark.slow
def test_some_kills_on_sqlite(on_sqlite: Full, tmp_path: Path) -> None:
    assert set(rounds(on_sqlite, tmp_path, 6)) & {"killed", "in the middle"}


@pytest.mark.slow
def test_thirty_kills(on_sqlite: Full, tmp_path: Path) -> None:
    assert "in the middle" in set(rounds(on_sqlite, tmp_path, 30))


@pytest.mark.slow
def test_some_kills_on_postgres(on_postgres: Full, tmp_path: Path) -> None:
    assert set(rounds(on_postgres, tmp_path, 8)) & {"killed", "in the middle"}


@pytest.mark.slow
def test_some_kills_on_mysql(on_mysql: Full, tmp_path: Path) -> None:
    assert set(rounds(on_mysql, tmp_path, 8)) & {"killed", "in the middle"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["on_sqlite", "on_postgres", "on_mysql"])
def test_a_thousand_kills(request: pytest.FixtureRequest, name: str, tmp_path: Path) -> None:
    assert "in the middle" in set(rounds(request.getfixturevalue(name), tmp_path, 1000))
