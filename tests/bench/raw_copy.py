"""Baselines of a copy, and the stores that are copied."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from ckpt_backends.open_for_writing import create_store
from ckpt_backends.transfer.form import Language
from ckpt_backends.url import parse_url
from tests.bench.declared import Made, ckpt
from tests.bench.made_servers import on_postgres
from tests.bench.made_sqlite import count, source
from tests.bench.measure import run
from tests.bench.stores import Stores
from tests.servers import postgres_database

TO_POSTGRES = Path(__file__).with_name("copy_to_postgres.py").read_text()
TO_SQLITE = Path(__file__).with_name("copy_to_sqlite.py").read_text()


@contextmanager
def to_postgres(stores: Stores) -> Iterator[Made]:
    """Yield a SQLite file; its scratch copy has two new targets on PostgreSQL."""
    server = stores.server("postgres")
    with source(stores) as made:

        @contextmanager
        def scratch() -> Iterator[Made]:
            with postgres_database(server) as target, postgres_database(server) as prepared:
                create_store(parse_url(prepared), Language.PYTHON)
                yield _with_targets(made, target, prepared)

        yield Made("SQLite to PostgreSQL", made.url, made.facts, scratch)


@contextmanager
def to_sqlite(stores: Stores) -> Iterator[Made]:
    """Yield a PostgreSQL database; its scratch copy has two new targets, which are files."""
    with source(stores) as made, postgres_database(stores.server("postgres")) as copied:
        words = ("copy", "--all", "--to", copied, "--create", "--yes", "-o", "ndjson")
        run([*ckpt(*words)(made)])
        there = Made("PostgreSQL to SQLite", copied, made.facts)

        @contextmanager
        def scratch() -> Iterator[Made]:
            with TemporaryDirectory(prefix="ckpt-bench-") as place:
                target, prepared = Path(place, "target.db"), Path(place, "prepared.db")
                create_store(parse_url(str(prepared)), Language.PYTHON)
                yield _with_targets(there, str(target), str(prepared))

        yield Made(there.engine, copied, made.facts, scratch)


def same_number(made: Made) -> None:
    """Assert that one of the two targets holds all checkpoints."""
    numbers = [_number(made.facts[name]) for name in ("target", "prepared")]
    assert max(numbers) == int(made.facts["checkpoints"]), numbers


def _with_targets(made: Made, target: str, prepared: str) -> Made:
    return Made(made.engine, made.url, {**made.facts, "target": target, "prepared": prepared})


def _number(target: str) -> int:
    if "://" in target:
        there = "SELECT count(*) FROM pg_tables WHERE tablename = 'checkpoints'"
        if on_postgres(target, there) == [(0,)]:
            return 0
        ((found,),) = on_postgres(target, "SELECT count(*) FROM checkpoints")
        return int(found)
    return count(target, "checkpoints") if Path(target).exists() else 0
