"""Faults of SQLite and PostgreSQL: each is planted by a statement, and mended by another."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ckpt_backends.sql import health
from tests.doctor.engine_health import faults, only
from tests.kit.agents import steps as agent
from tests.kit.command import FIXTURES, SAMPLE, ckpt, copy_store, eras, later
from tests.kit.planting.journals import killed
from tests.kit.savers.three_table import connected, maker
from tests.kit.servers import Server, postgres_database
from tests.kit.stores import restore, restore_rows


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files count, too."""
    monkeypatch.setattr(health, "LARGE", 1 << 12)


# SQLite


@pytest.mark.parametrize("folder", [*eras()], ids=lambda one: one.name)
def test_a_file_of_any_release_has_no_fault(folder: Path, tmp_path: Path) -> None:
    assert faults(copy_store(folder / "store.db", tmp_path)) == []


def test_a_table_without_its_key_is_named(sample: Path) -> None:
    with closing(sqlite3.connect(sample)) as file, file:
        file.execute("ALTER TABLE writes RENAME TO old")
        file.execute("CREATE TABLE writes AS SELECT * FROM old")
        file.execute("CREATE INDEX part ON writes (thread_id)")
    found = only(sample)
    assert found.code == "index-missing"
    assert "table 'writes' has no primary key (thread_id, checkpoint_ns" in found.detail
    with closing(sqlite3.connect(sample)) as file, file:
        file.execute(found.fix)
    assert faults(sample) == []


def test_a_journal_that_a_killed_process_left_is_named(tmp_path: Path) -> None:
    store = killed(tmp_path / "it's hot.db")
    refused = ckpt("-s", store, "doctor")
    assert (refused.code, "unfinished transaction" in refused.err) == (4, True)
    answer = ckpt("-s", store, "--copy", "doctor", "-o", "json")
    (found,) = answer.json["findings"]
    assert (answer.code, found["code"], found["severity"]) == (0, "journal-hot", "info")
    assert "it's hot.db-journal" in found["detail"]
    assert found["fix"] == f"""sqlite3 '{tmp_path}/it'"'"'s hot.db' .tables"""
    with closing(sqlite3.connect(store)) as file:
        file.execute("SELECT count(*) FROM checkpoints")
    assert ckpt("-s", store, "--copy", "doctor", "-o", "json").json["findings"] == []


@pytest.mark.usefixtures("strict")
def test_a_large_log_is_named(sample: Path) -> None:
    with closing(sqlite3.connect(sample)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("PRAGMA wal_autocheckpoint = 0")
        for _ in range(2):
            writer.execute("UPDATE checkpoints SET checkpoint = checkpoint || ''")
            writer.commit()
        found = only(sample)
        assert found.code == "log-large"
        assert "'store.db-wal' has" in found.detail
        assert found.fix == f"sqlite3 {sample} 'PRAGMA wal_checkpoint(TRUNCATE)'"
        writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        assert faults(sample) == []


def three_tables(folder: Path) -> Path:
    store = folder / "three.db"
    with connected(str(store)) as execute:
        maker().fill("sqlite", execute)
    return store


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("make", [lambda folder: copy_store(SAMPLE, folder), three_tables])
def test_unused_pages_are_named(make: Any, tmp_path: Path) -> None:
    store = make(tmp_path)
    assert faults(store) == []
    with closing(sqlite3.connect(store, isolation_level=None)) as file:
        file.execute("CREATE TABLE filling (data)")
        file.execute("INSERT INTO filling VALUES (zeroblob(1000000))")
        file.execute("DROP TABLE filling")
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        found = only(store)
        assert found.code == "space-free"
        assert "of the file are unused" in found.detail
        assert found.fix == f"sqlite3 {store} VACUUM"
        file.execute("VACUUM")
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert faults(store) == []


def test_little_unused_space_and_a_small_part_are_no_fault() -> None:
    mib = 1 << 20
    assert list(health.unused_space("it", 60 * mib, 61 * mib, "")) == []
    assert list(health.unused_space("it", 100 * mib, 400 * mib, "")) == []
    (found,) = health.unused_space("it", 101 * mib, 400 * mib, "")
    assert found.detail == "101 of 400 MiB of it are unused"


# PostgreSQL


def execute(url: str, *statements: str) -> list[Any]:
    with psycopg.connect(url, autocommit=True) as admin:
        for statement in statements:
            found = admin.execute(statement.encode())
        return found.fetchall() if found.description else []


@pytest.fixture(scope="module")
def shared_url(postgres_server: Server) -> Iterator[str]:
    """A database whose faults are mended again."""
    with postgres_database(postgres_server) as url:
        agent.fill(url, "trip")
        yield url


INVALID = (
    "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'checkpoint_blobs_thread_id_idx'"
    "::regclass"
)
PLANTED_ON_POSTGRES = {
    "DROP INDEX checkpoints_thread_id_idx": (
        "index-missing",
        "table 'checkpoints' has no index 'checkpoints_thread_id_idx' (thread_id)",
    ),
    INVALID: (
        "index-missing",
        "index 'checkpoint_blobs_thread_id_idx' of table 'checkpoint_blobs' is invalid and not"
        " used",
    ),
    "ALTER TABLE checkpoint_writes DROP CONSTRAINT checkpoint_writes_pkey": (
        "index-missing",
        "table 'checkpoint_writes' has no primary key"
        " (thread_id, checkpoint_ns, checkpoint_id, task_id, idx), so the saver cannot save",
    ),
    "ALTER TABLE checkpoint_writes DROP COLUMN task_path": (
        "schema-old",
        "table 'checkpoint_writes' has no column 'task_path', so the saver cannot read",
    ),
    "ALTER TABLE checkpoint_blobs ALTER COLUMN blob SET NOT NULL": (
        "schema-old",
        "column 'blob' of table 'checkpoint_blobs' is NOT NULL, so empty values cannot be saved",
    ),
    "DELETE FROM checkpoint_migrations WHERE v IN (2, 5)": (
        "schema-old",
        "'checkpoint_migrations' records migration 9, but not 2, 5",
    ),
}


@pytest.mark.engines
@pytest.mark.parametrize("planted", PLANTED_ON_POSTGRES)
def test_what_keeps_the_saver_from_saving_is_an_error(postgres_url: str, planted: str) -> None:
    agent.fill(postgres_url, "trip")
    execute(postgres_url, planted)
    can_save = True
    try:
        agent.fill(postgres_url, "trip")
    except psycopg.Error:
        can_save = False
    found = only(postgres_url)
    assert found.is_error is not can_save
    (told,) = ckpt("-s", postgres_url, "doctor", "-o", "json").json["findings"]
    assert told["severity"] == ("warning" if can_save else "error")


@pytest.mark.parametrize("planted", PLANTED_ON_POSTGRES)
def test_what_a_database_lost_is_named_and_mended(shared_url: str, planted: str) -> None:
    execute(shared_url, planted)
    found = only(shared_url)
    assert (found.code, found.detail) == PLANTED_ON_POSTGRES[planted]
    execute(shared_url, found.fix)
    assert faults(shared_url) == []


def test_an_index_of_another_name_serves_as_well(shared_url: str) -> None:
    execute(shared_url, "ALTER INDEX checkpoints_thread_id_idx RENAME TO other")
    assert faults(shared_url) == []
    execute(shared_url, "ALTER INDEX other RENAME TO checkpoints_thread_id_idx")


@pytest.mark.engines
def test_an_index_that_is_being_built_is_no_fault(shared_url: str) -> None:
    """`CREATE INDEX CONCURRENTLY` waits for the writer here, and its index is not valid yet."""
    from threading import Thread

    execute(shared_url, "DROP INDEX checkpoint_writes_thread_id_idx")
    fix = only(shared_url).fix
    with psycopg.connect(shared_url) as writer:
        writer.execute("UPDATE checkpoint_writes SET idx = idx")
        builder = Thread(target=execute, args=(shared_url, fix))
        builder.start()
        building = "SELECT 1 FROM pg_stat_progress_create_index"
        while not execute(shared_url, building):
            pass
        with agent.role(shared_url) as url:
            assert faults(url) == []
    builder.join()
    assert faults(shared_url) == []


def test_nothing_is_expected_of_an_unknown_saver(postgres_url: str) -> None:
    agent.fill(postgres_url, "trip")
    execute(
        postgres_url,
        "DROP INDEX checkpoints_thread_id_idx",
        "ALTER TABLE checkpoints ADD COLUMN created_at timestamptz",
    )
    assert faults(postgres_url) == []


def test_a_role_that_may_only_read_the_three_tables_sees_faults(shared_url: str) -> None:
    with agent.role(shared_url) as url:
        assert faults(url) == []
        execute(shared_url, "DROP INDEX checkpoints_thread_id_idx")
        execute(shared_url, only(url).fix)
        assert faults(url) == []


@pytest.mark.engines
def test_views_have_no_indexes(postgres_url: str) -> None:
    agent.fill(postgres_url, "trip")
    execute(
        postgres_url,
        "CREATE SCHEMA shown",
        *(
            f"CREATE VIEW shown.{one} AS SELECT * FROM public.{one}"
            for one in ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
        ),
    )
    assert faults(f"{postgres_url}?schema=shown") == []


@pytest.mark.usefixtures("strict")
@pytest.mark.engines
def test_dead_rows_are_named(postgres_url: str) -> None:
    agent.fill(postgres_url, "trip")
    execute(
        postgres_url,
        "ALTER TABLE checkpoint_writes SET (autovacuum_enabled = off)",
        "INSERT INTO checkpoint_writes SELECT 'new', '', n::text, '', 0, '', '', repeat('x', 500)"
        "::bytea FROM generate_series(1, 1000) n",
        "DELETE FROM checkpoint_writes WHERE thread_id = 'new'",
        "SELECT pg_stat_force_next_flush()",
    )
    found = only(postgres_url)
    assert found.code == "space-free"
    assert "of table 'checkpoint_writes' are unused" in found.detail
    execute(postgres_url, found.fix, "SELECT pg_stat_force_next_flush()")
    assert faults(postgres_url) == []


ERAS = sorted(FIXTURES.glob("postgres/*/store.sql.gz")) + sorted(
    FIXTURES.glob("js-*/postgres.jsonl.gz")
)


@pytest.mark.parametrize("dump", [ERAS[0], *later(*ERAS[1:])], ids=lambda one: one.parent.name)
def test_a_database_of_any_release_has_no_fault(dump: Path, postgres_url: str) -> None:
    (restore if dump.name.endswith(".sql.gz") else restore_rows)(dump, postgres_url)
    assert faults(postgres_url) == []


@pytest.mark.engines
@pytest.mark.filterwarnings("ignore:ShallowPostgresSaver")
def test_what_a_shallow_database_lost_is_named(postgres_url: str) -> None:
    from langgraph.checkpoint.postgres.shallow import ShallowPostgresSaver

    with ShallowPostgresSaver.from_conn_string(postgres_url) as saver:
        saver.setup()
    assert faults(postgres_url) == []
    for planted in (
        "DROP INDEX checkpoint_writes_thread_id_idx",
        "ALTER TABLE checkpoints DROP CONSTRAINT checkpoints_pkey",
        "ALTER TABLE checkpoint_writes DROP COLUMN task_path",
        "DELETE FROM checkpoint_migrations WHERE v = 6",
    ):
        execute(postgres_url, planted)
        execute(postgres_url, only(postgres_url).fix)
        assert faults(postgres_url) == []
