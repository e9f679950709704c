"""What is erased from a server is in none of its rows, and what it may still hold is named."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.erase.canary import CANARY, OTHER, erase, fill, still_there
from tests.harness.opening import empty_store
from tests.harness.postgres import PostgresHarness

pytestmark = pytest.mark.engines


@pytest.fixture
def postgres(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[PostgresHarness]:
    with empty_store(PostgresHarness, request, tmp_path) as harness:
        yield harness


def relation_files(url: str) -> bytes:
    """Return the bytes of all tables and indexes of a database, as they are on disk."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CHECKPOINT")
        ((folder, number),) = connection.execute(
            "SELECT current_setting('data_directory'), oid FROM pg_database"
            " WHERE datname = current_database()"
        ).fetchall()
    files = sorted((Path(folder) / "base" / str(number)).iterdir())
    return b"".join(one.read_bytes() for one in files)


def test_postgres_rewrites_its_tables(postgres: PostgresHarness) -> None:
    rows = fill(postgres)
    assert CANARY.encode() in relation_files(postgres.url)
    remains = erase(postgres.url, rewrite=True)
    assert 'VACUUM (FULL, ANALYZE) "public"."checkpoints"' in remains.done
    assert len(remains.done) == 4
    assert still_there(remains) == []
    assert CANARY.encode() not in relation_files(postgres.url)
    assert postgres.rows(OTHER) == rows
    assert {"write-ahead log", "backups"} <= {one.place for one in remains.places}


def test_postgres_names_what_it_does_not_overwrite(postgres: PostgresHarness) -> None:
    fill(postgres)
    remains = erase(postgres.url)
    assert still_there(remains) == ["free space in tables and indexes"]


def test_postgres_names_what_older_transactions_see(postgres: PostgresHarness) -> None:
    fill(postgres)
    with psycopg.connect(postgres.url) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT 1 FROM pg_class").fetchone()
        remains = erase(postgres.url, rewrite=True)
    assert 'table "public"."checkpoints"' in still_there(remains)
    assert CANARY.encode() in relation_files(postgres.url)


def test_postgres_names_a_missing_right(postgres: PostgresHarness) -> None:
    from tests.backends.agent import role

    fill(postgres)
    rights = """
        CREATE ROLE {role} LOGIN;
        GRANT USAGE ON SCHEMA public TO {role};
        GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role};
    """
    with role(postgres.url, rights) as url:
        remains = erase(url)
    assert remains.done == ()
    assert 'table "public"."checkpoints"' in still_there(remains)
    assert CANARY not in repr(postgres.connection.execute("SELECT * FROM checkpoints").fetchall())
