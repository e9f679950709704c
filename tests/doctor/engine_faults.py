"""Faults of engines: how each is planted into a store, by layout and code."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager

import psycopg

from ckpt_backends.testing.harness import Harness
from tests.kit.servers import mysql_connection

Plant = Callable[[Harness], AbstractContextManager[list[str]]]
"""Plants a fault while the context lasts. Gives the words that name the store."""
LARGE = 1 << 18
"""Bytes from which unused space and logs are reported in these tests."""

_KILLED = """
import os, signal, sqlite3, sys
writer = sqlite3.connect(sys.argv[1], isolation_level=None)
writer.execute("PRAGMA journal_mode = DELETE")
writer.execute("PRAGMA cache_size = 1")
writer.execute("BEGIN IMMEDIATE")
writer.execute("CREATE TABLE filling (data)")
writer.execute("INSERT INTO filling VALUES (zeroblob(1000000))")
os.kill(os.getpid(), signal.SIGKILL)
"""
_FILL = ("CREATE TABLE filling (data)", "INSERT INTO filling VALUES (zeroblob(4000000))")


def _sqlite(url: str, *statements: str) -> None:
    with closing(sqlite3.connect(url, isolation_level=None)) as file:
        for statement in statements:
            file.execute(statement).fetchall()


def _run(url: str, *statements: str) -> None:
    """Run statements on any engine."""
    if url.startswith("postgresql"):
        with psycopg.connect(url, autocommit=True) as admin:
            for statement in statements:
                admin.execute(statement.encode())
    elif url.startswith("mysql"):
        with mysql_connection(url) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            connection.commit()
    else:
        _sqlite(url, *statements)


def by(*statements: str) -> Plant:
    """Plant a fault by statements."""

    @contextmanager
    def plant(harness: Harness) -> Iterator[list[str]]:
        _run(harness.url, *statements)
        yield ["-s", harness.url]

    return plant


@contextmanager
def _journal_left(harness: Harness) -> Iterator[list[str]]:
    """Kill a writer in the middle of a transaction."""
    _sqlite(harness.url, "PRAGMA wal_checkpoint(TRUNCATE)")
    store = f"{harness.url}.killed.db"
    shutil.copyfile(harness.url, store)
    done = subprocess.run([sys.executable, "-c", _KILLED, store], check=False)
    assert done.returncode == -signal.SIGKILL
    assert os.path.getsize(f"{store}-journal")
    yield ["-s", store, "--copy"]


def contradict_index(path: str) -> None:
    """Add a row to a table and not to its index: another table without an index has its pages."""
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        ((table, root),) = file.execute(
            "SELECT t.name, t.rootpage FROM sqlite_master t, sqlite_master i"
            " WHERE t.type = 'table' AND i.tbl_name = t.name AND i.name LIKE 'sqlite_autoindex_%'"
            " ORDER BY t.name DESC LIMIT 1"
        ).fetchall()
        columns = [name for _, name, *_ in file.execute(f"PRAGMA table_info({table})")]
        file.execute("PRAGMA writable_schema = ON")
        said = f"CREATE TABLE same ({', '.join(columns)})"
        file.execute(
            "INSERT INTO sqlite_master VALUES ('table', 'same', 'same', ?, ?)", (root, said)
        )
    _sqlite(path, "INSERT INTO same SELECT * FROM same LIMIT 1")
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("PRAGMA writable_schema = ON")
        file.execute("DELETE FROM sqlite_master WHERE name = 'same'")


@contextmanager
def _index_contradicted(harness: Harness) -> Iterator[list[str]]:
    contradict_index(harness.url)
    yield ["-s", harness.url]


@contextmanager
def _log_grown(harness: Harness) -> Iterator[list[str]]:
    """Let the log grow while its last connection is open."""
    with closing(sqlite3.connect(harness.url, isolation_level=None)) as writer:
        for statement in ("PRAGMA journal_mode = WAL", "PRAGMA wal_autocheckpoint = 0", *_FILL):
            writer.execute(statement).fetchall()
        yield ["-s", harness.url]


_PAGES_FREED = by(
    *_FILL, "DROP TABLE filling", "PRAGMA journal_mode = WAL", "PRAGMA wal_checkpoint(TRUNCATE)"
)
_OF_FILES: Mapping[str, Plant] = {
    "file-damaged": _index_contradicted,
    "journal-hot": _journal_left,
    "log-large": _log_grown,
    "space-free": _PAGES_FREED,
}
_OF_POSTGRES: Mapping[str, Plant] = {
    "index-missing": by("DROP INDEX checkpoint_blobs_thread_id_idx"),
    "schema-old": by("ALTER TABLE checkpoint_writes DROP COLUMN task_path"),
    "space-free": by(
        "ALTER TABLE checkpoint_writes SET (autovacuum_enabled = off)",
        "INSERT INTO checkpoint_writes (thread_id, checkpoint_id, task_id, idx, channel, blob)"
        " SELECT 'new', n::text, '', 0, '', convert_to(repeat('x', 500), 'UTF8')"
        " FROM generate_series(1, 8000) n",
        "DELETE FROM checkpoint_writes WHERE thread_id = 'new'",
        "SELECT pg_stat_force_next_flush()",
    ),
}
_OF_KAGENT: Mapping[str, Plant] = {
    "space-free": by(
        "ALTER TABLE lg_checkpoint_write SET (autovacuum_enabled = off)",
        "INSERT INTO lg_checkpoint_write (user_id, thread_id, checkpoint_id, write_idx, value,"
        " value_type, channel, task_id) SELECT '', 'new', n::text, 0, repeat('x', 500), '', '', ''"
        " FROM generate_series(1, 8000) n",
        "DELETE FROM lg_checkpoint_write WHERE thread_id = 'new'",
        "SELECT pg_stat_force_next_flush()",
    )
}
_OF_MYSQL: Mapping[str, Plant] = {
    "index-missing": by("DROP INDEX checkpoints_thread_id_idx ON checkpoints"),
    "schema-old": by("ALTER TABLE checkpoint_writes DROP COLUMN task_path"),
    "saver-limit": by(
        "ALTER TABLE checkpoint_blobs CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci"
    ),
    "index-stale": by("UPDATE checkpoint_blobs SET checkpoint_ns_hash = UNHEX(MD5('x'))"),
    "space-free": by(
        "INSERT INTO checkpoint_writes (thread_id, checkpoint_ns_hash, checkpoint_id, task_id, idx,"
        " channel, `blob`) SELECT 'new', UNHEX(MD5('')), seq, '', 0, '', REPEAT('x', 100000)"
        " FROM seq_1_to_200",
        "COMMIT",
        "DELETE FROM checkpoint_writes WHERE thread_id = 'new'",
    ),
}
_KEYLESS = by(
    "ALTER TABLE writes RENAME TO old", "CREATE TABLE writes AS SELECT * FROM old", "DROP TABLE old"
)
_BY_LAYOUT: Mapping[str, Mapping[str, Plant]] = {
    "sqlite": {"index-missing": _KEYLESS, **_OF_FILES},
    **dict.fromkeys(("postgres", "postgres-shallow"), _OF_POSTGRES),
    **dict.fromkeys(("mysql", "mysql-shallow"), _OF_MYSQL),
    "kagent": _OF_KAGENT,
    **dict.fromkeys(("three-table", "three-table-latest"), _OF_FILES),
}
ENGINE_FAULTS: Mapping[tuple[str, str], Plant] = {
    (layout, code): plant for layout, codes in _BY_LAYOUT.items() for code, plant in codes.items()
}
