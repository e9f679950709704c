"""Copying 100,000 checkpoints from SQLite to PostgreSQL and back. Prints only.

Beside it: programs that read the same rows of the source and load the same rows into the target,
with COPY and `executemany`, without conversion, and without a look at the result.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from ckpt_backends.open_for_writing import create_store
from ckpt_backends.transfer.form import Language
from ckpt_backends.url import parse_url
from tests.bench.clone import CHECKPOINTS, WRITES
from tests.bench.make_store import make_large
from tests.bench.measure import Command, Figure, Run, Runs, compared, memory, run
from tests.servers import Server, postgres_database

pytestmark = pytest.mark.bench

CKPT = Path(sysconfig.get_path("scripts")) / "ckpt"
MEMORY = 150
BUDGET = 2
ROUNDS = 2
TABLES = ("checkpoint_blobs", "checkpoint_writes", "checkpoints")
COLUMNS = {"checkpoints": CHECKPOINTS, "writes": WRITES}

TO_POSTGRES = f"""
import psycopg, sqlite3, sys
source, target, folder = sys.argv[1:]
connection = sqlite3.connect(source)
for table in {tuple(COLUMNS)!r}:
    for row in connection.execute(f"SELECT * FROM {{table}}"):
        pass
with psycopg.connect(target) as connection, connection.cursor() as cursor:
    for table in {TABLES!r}:
        with (
            open(f"{{folder}}/{{table}}", "rb") as file,
            cursor.copy(f"COPY {{table}} FROM STDIN (FORMAT BINARY)") as copy,
        ):
            while data := file.read(1 << 16):
                copy.write(data)
"""
TO_SQLITE = f"""
import psycopg, sqlite3, sys
source, target, ready = sys.argv[1:]
with psycopg.connect(source) as connection:
    for table in {TABLES!r}:
        with connection.cursor("rows", binary=True) as cursor:
            cursor.itersize = 2000
            for row in cursor.execute(f"SELECT * FROM {{table}}"):
                pass
rows, connection = sqlite3.connect(ready), sqlite3.connect(target)
for table, columns in {COLUMNS!r}.items():
    marks = ", ".join("?" * (columns.count(",") + 1))
    connection.executemany(
        f"INSERT INTO {{table}} ({{columns}}) VALUES ({{marks}})",
        rows.execute(f"SELECT {{columns}} FROM {{table}}"),
    )
connection.commit()
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with threads of 14 checkpoints each."""
    path = tmp_path_factory.mktemp("copy") / "source.db"
    make_large(path, int(os.environ.get("CKPT_BENCH_COPY_THREADS", "7000")))
    return path


@pytest.fixture(scope="module")
def copied(postgres_server: Server, source: Path) -> Iterator[str]:
    """A database with these threads."""
    with postgres_database(postgres_server) as url:
        run(_copy(source, url))
        yield url


def _copy(source: object, target: object, *words: str) -> Command:
    to = ("copy", "--all", "--to", str(target), "--create", "--yes", *words)
    return [CKPT, "-s", str(source), *to, "-o", "ndjson"]


def test_to_postgresql(
    postgres_server: Server, source: Path, copied: str, tmp_path: Path, figures: list[Figure]
) -> None:
    with psycopg.connect(copied) as connection, connection.cursor() as cursor:
        for table in TABLES:
            statement = f"COPY {table} TO STDOUT (FORMAT BINARY)".encode()
            with (tmp_path / table).open("wb") as file, cursor.copy(statement) as rows:
                file.writelines(rows)
    found: dict[str, list[Run]] = {}
    for _ in range(ROUNDS):
        for name in ("copy", "copy, 2 jobs", "COPY"):
            with postgres_database(postgres_server) as target:
                if name == "COPY":
                    create_store(parse_url(target), Language.PYTHON)
                    raw: Command = [sys.executable, "-c", TO_POSTGRES, source, target, tmp_path]
                    found.setdefault(name, []).append(run(raw))
                else:
                    words = ("--jobs", "2") if "jobs" in name else ()
                    found.setdefault(name, []).append(run(_copy(source, target, *words)))
    _report(figures, "SQLite to PostgreSQL", found, "COPY", _checkpoints(source))


def test_to_sqlite(source: Path, copied: str, tmp_path: Path, figures: list[Figure]) -> None:
    ready = tmp_path / "ready.db"
    run(_copy(copied, ready))
    found: dict[str, list[Run]] = {}
    for n in range(ROUNDS):
        target = tmp_path / f"ours {n}.db"
        found.setdefault("copy", []).append(run(_copy(copied, target)))
        target = tmp_path / f"raw {n}.db"
        create_store(parse_url(str(target)), Language.PYTHON)
        raw: Command = [sys.executable, "-c", TO_SQLITE, copied, target, ready]
        found.setdefault("executemany", []).append(run(raw))
    _report(figures, "PostgreSQL to SQLite", found, "executemany", _checkpoints(source))


def _checkpoints(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        number: int = connection.execute("SELECT count(*) FROM checkpoints").fetchone()[0]
        return number


def _report(
    figures: list[Figure], way: str, found: Mapping[str, list[Run]], raw: str, number: int
) -> None:
    runs = {name: Runs(some) for name, some in found.items()}
    for name, ours in runs.items():
        if name != raw:
            figures.append(compared(f"{way}: {name}", ours, raw, runs[raw], BUDGET))
            figures.append(memory(f"{way}: {name}", ours.mib, MEMORY))
            figures.append(Figure(f"{way}: {name}", f"{number / ours.least:,.0f} checkpoints/s"))
