"""Baselines of a copy, and the stores that are copied."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg

from ckpt_backends.open_for_writing import create_store
from ckpt_backends.transfer.form import Language
from ckpt_backends.url import parse_url
from tests.bench.clone import CHECKPOINTS, WRITES
from tests.bench.declared import Made, ckpt
from tests.bench.made_servers import POSTGRES_TABLES, on_postgres
from tests.bench.made_sqlite import count, source
from tests.bench.measure import run
from tests.bench.stores import Stores
from tests.servers import postgres_database

_COLUMNS = {"checkpoints": CHECKPOINTS, "writes": WRITES}
TO_POSTGRES = f"""
import psycopg, sqlite3, sys
source, target, folder = sys.argv[1:]
connection = sqlite3.connect(source)
for table in {tuple(_COLUMNS)!r}:
    for row in connection.execute(f"SELECT * FROM {{table}}"):
        pass
with psycopg.connect(target) as connection, connection.cursor() as cursor:
    for table in {POSTGRES_TABLES!r}:
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
    for table in {POSTGRES_TABLES!r}:
        with connection.cursor("rows", binary=True) as cursor:
            cursor.itersize = 2000
            for row in cursor.execute(f"SELECT * FROM {{table}}"):
                pass
rows, connection = sqlite3.connect(ready), sqlite3.connect(target)
for table, columns in {_COLUMNS!r}.items():
    marks = ", ".join("?" * (columns.count(",") + 1))
    connection.executemany(
        f"INSERT INTO {{table}} ({{columns}}) VALUES ({{marks}})",
        rows.execute(f"SELECT {{columns}} FROM {{table}}"),
    )
connection.commit()
"""


@contextmanager
def to_postgres(stores: Stores) -> Iterator[Made]:
    """Yield a SQLite file; its scratch copy has two new targets on PostgreSQL."""
    server = stores.server("postgres")
    with (
        source(stores) as made,
        postgres_database(server) as copied,
        TemporaryDirectory(prefix="ckpt-bench-") as folder,
    ):
        run(_copying(made, copied))
        with psycopg.connect(copied) as connection, connection.cursor() as cursor:
            for table in POSTGRES_TABLES:
                statement = f"COPY {table} TO STDOUT (FORMAT BINARY)".encode()
                with Path(folder, table).open("wb") as file, cursor.copy(statement) as rows:
                    file.writelines(rows)

        @contextmanager
        def scratch() -> Iterator[Made]:
            with postgres_database(server) as target, postgres_database(server) as prepared:
                create_store(parse_url(prepared), Language.PYTHON)
                yield _with_targets(made, target, prepared, Path(folder))

        yield Made("SQLite to PostgreSQL", made.url, made.facts, scratch)


@contextmanager
def to_sqlite(stores: Stores) -> Iterator[Made]:
    """Yield a PostgreSQL database; its scratch copy has two new targets, which are files."""
    server = stores.server("postgres")
    with (
        source(stores) as made,
        postgres_database(server) as copied,
        TemporaryDirectory(prefix="ckpt-bench-") as folder,
    ):
        run(_copying(made, copied))
        there = Made("PostgreSQL to SQLite", copied, made.facts)
        ready = Path(folder, "ready.db")
        run(_copying(there, str(ready)))

        @contextmanager
        def scratch() -> Iterator[Made]:
            with TemporaryDirectory(prefix="ckpt-bench-") as place:
                target, prepared = Path(place, "target.db"), Path(place, "prepared.db")
                create_store(parse_url(str(prepared)), Language.PYTHON)
                yield _with_targets(there, str(target), str(prepared), ready)

        yield Made(there.engine, copied, made.facts, scratch)


def same_number(made: Made) -> None:
    """Assert that one of the two targets holds all checkpoints."""
    numbers = [_number(made.facts[name]) for name in ("target", "prepared")]
    assert max(numbers) == int(made.facts["checkpoints"]), numbers


def _copying(made: Made, target: str) -> list[str | Path]:
    words = ("copy", "--all", "--to", target, "--create", "--yes", "-o", "ndjson")
    return [*ckpt(*words)(made)]


def _with_targets(made: Made, target: str, prepared: str, ready: Path) -> Made:
    facts = {**made.facts, "target": target, "prepared": prepared, "ready": str(ready)}
    return Made(made.engine, made.url, facts)


def _number(target: str) -> int:
    if "://" in target:
        there = "SELECT count(*) FROM pg_tables WHERE tablename = 'checkpoints'"
        if on_postgres(target, there) == [(0,)]:
            return 0
        ((found,),) = on_postgres(target, "SELECT count(*) FROM checkpoints")
        return int(found)
    return count(target, "checkpoints") if Path(target).exists() else 0
