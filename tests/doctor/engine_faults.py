"""Faults that only some engines have: how each is planted into a store, by layout and code, and the
tests that plant what needs a story of its own."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from typing import NamedTuple

import psycopg
from bson import Binary

from ckpt_backends.testing.harness import Harness
from tests.kit.servers import mysql_connection

Plant = Callable[[Harness], AbstractContextManager[list[str]]]
"""Plants a fault while the context lasts. Gives the words that name the store."""


class EngineFault(NamedTuple):
    """A fault that only some engines have, in a store with the thread of one scenario."""

    layouts: tuple[str, ...]
    code: str
    plant: Plant
    says: str
    """Words of the detail."""
    stays: bool = False
    """Whether no statement mends it."""
    thread: str | None = None
    """The thread that the finding names."""
    follows: frozenset[str] = frozenset()
    """The other codes that may be found."""


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
_TRUNCATE = "PRAGMA wal_checkpoint(TRUNCATE)"
_FILL = ("CREATE TABLE filling (data)", "INSERT INTO filling VALUES (zeroblob(4000000))")


def _sqlite(url: str, *statements: str) -> None:
    with closing(sqlite3.connect(url, isolation_level=None)) as file:
        for statement in statements:
            file.execute(statement).fetchall()


def run(url: str, *statements: str) -> None:
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
        run(harness.url, *statements)
        yield ["-s", harness.url]

    return plant


@contextmanager
def _journal_left(harness: Harness) -> Iterator[list[str]]:
    """Kill a writer in the middle of a transaction."""
    _sqlite(harness.url, _TRUNCATE)
    store = f"{harness.url}.it's killed.db"
    shutil.copyfile(harness.url, store)
    done = subprocess.run([sys.executable, "-c", _KILLED, store], check=False)
    assert done.returncode == -signal.SIGKILL
    assert os.path.getsize(f"{store}-journal")
    yield ["-s", store, "--copy"]


def rows_deleted(table: str, columns_and_values: str) -> Plant:
    """Fill a table of PostgreSQL, and delete what was filled in."""
    return by(
        f"ALTER TABLE {table} SET (autovacuum_enabled = off)",
        f"INSERT INTO {table} {columns_and_values} FROM generate_series(1, 8000) n",
        f"DELETE FROM {table} WHERE thread_id = 'new'",
        "SELECT pg_stat_force_next_flush()",
    )


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


def without_index(collection: str, *fields: str) -> Plant:
    """Drop an index of MongoDB."""

    @contextmanager
    def plant(harness: Harness) -> Iterator[list[str]]:
        table = harness.database[collection]  # type: ignore[attr-defined]
        (name,) = (
            name
            for name, about in table.index_information().items()
            if tuple(field for field, _ in about["key"]) == fields
        )
        table.drop_index(name)
        yield ["-s", harness.url]

    return plant


def large_document(field: str) -> Plant:
    """Let a checkpoint have a body of 13 MiB."""

    @contextmanager
    def plant(harness: Harness) -> Iterator[list[str]]:
        table = harness.database["checkpoints"]  # type: ignore[attr-defined]
        some = sorted(table.find({"thread_id": CHAT}), key=lambda one: str(one["checkpoint_id"]))[
            -2
        ]
        table.update_one({"_id": some["_id"]}, {"$set": {field: Binary(bytes(13 << 20))}})
        yield ["-s", harness.url]

    return plant


POSTGRES = ("postgres", "postgres-shallow")
MYSQL = ("mysql", "mysql-shallow")
FILES = ("sqlite", "three-table", "three-table-latest")
CHAT = "chat"
_CHECKPOINT = ("thread_id", "checkpoint_ns", "checkpoint_id")
_BY_STATEMENT: Mapping[tuple[str, ...], Mapping[str, tuple[str, str]]] = {
    POSTGRES: {
        "DROP INDEX checkpoints_thread_id_idx": (
            "index-missing",
            "table 'checkpoints' has no index 'checkpoints_thread_id_idx' (thread_id)",
        ),
        "UPDATE pg_index SET indisvalid = false"
        " WHERE indexrelid = 'checkpoint_blobs_thread_id_idx'::regclass": (
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
        "DELETE FROM checkpoint_migrations WHERE v IN (2, 5)": ("schema-old", ", but not 2, 5"),
    },
    MYSQL: {
        "ALTER TABLE checkpoint_blobs DROP PRIMARY KEY": (
            "index-missing",
            "so rows may be stored twice",
        ),
        "ALTER TABLE checkpoint_writes DROP COLUMN task_path": (
            "schema-old",
            "table 'checkpoint_writes' has no column 'task_path', so the saver cannot save",
        ),
        "DELETE FROM checkpoint_migrations WHERE v IN (0, 3)": ("schema-old", ", but not 0, 3"),
        "ALTER TABLE checkpoint_blobs CONVERT TO CHARACTER SET utf8mb4"
        " COLLATE utf8mb4_unicode_ci": ("saver-limit", "utf8mb4_unicode_ci in 'checkpoint_blobs'"),
    },
    ("postgres",): {
        "ALTER TABLE checkpoint_blobs ALTER COLUMN blob SET NOT NULL": (
            "schema-old",
            "column 'blob' of table 'checkpoint_blobs' is NOT NULL, so empty values cannot be"
            " saved",
        )
    },
    ("mysql",): {
        "DROP INDEX checkpoints_checkpoint_id_idx ON checkpoints": (
            "index-missing",
            "table 'checkpoints' has no index 'checkpoints_checkpoint_id_idx' (checkpoint_id)",
        )
    },
}
ENGINE_FAULTS: list[EngineFault] = [
    *(
        EngineFault(layouts, code, by(statement), says)
        for layouts, planted in _BY_STATEMENT.items()
        for statement, (code, says) in planted.items()
    ),
    EngineFault(
        FILES, "file-damaged", _index_contradicted, "contradicts the rows of table", stays=True
    ),
    EngineFault(FILES, "journal-hot", _journal_left, "it's killed.db-journal"),
    EngineFault(FILES, "log-large", _log_grown, "-wal' has"),
    EngineFault(
        FILES,
        "space-free",
        by(*_FILL, "DROP TABLE filling", "PRAGMA journal_mode = WAL", _TRUNCATE),
        "of the file are unused",
    ),
    EngineFault(
        ("sqlite",),
        "index-missing",
        by(
            "ALTER TABLE writes RENAME TO old",
            "CREATE TABLE writes AS SELECT * FROM old",
            "DROP TABLE old",
            "CREATE INDEX part ON writes (thread_id)",
        ),
        "table 'writes' has no primary key (thread_id, checkpoint_ns",
    ),
    *(
        EngineFault(
            layouts, "space-free", rows_deleted(table, rows), f"of table '{table}' are unused"
        )
        for layouts, table, rows in (
            (
                POSTGRES,
                "checkpoint_writes",
                "(thread_id, checkpoint_id, task_id, idx, channel, blob)"
                " SELECT 'new', n::text, '', 0, '', convert_to(repeat('x', 500), 'UTF8')",
            ),
            (
                ("kagent",),
                "lg_checkpoint_write",
                "(user_id, thread_id, checkpoint_id, write_idx, value, value_type, channel,"
                " task_id) SELECT '', 'new', n::text, 0, repeat('x', 500), '', '', ''",
            ),
            (
                ("supabase",),
                "langgraph_checkpoint_writes",
                "(thread_id, checkpoint_id, task_id, idx, channel, write)"
                " SELECT 'new', n::text, '', 0, '', to_jsonb(repeat('x', 500))",
            ),
        )
    ),
    EngineFault(
        MYSQL,
        "index-stale",
        by("UPDATE checkpoint_blobs SET checkpoint_ns_hash = UNHEX(MD5('x'))"),
        "with the hash of another namespace",
        thread=CHAT,
        # Values that the saver does not find.
        follows=frozenset({"value-missing"}),
    ),
    EngineFault(
        MYSQL,
        "space-free",
        by(
            "INSERT INTO checkpoint_writes (thread_id, checkpoint_ns_hash, checkpoint_id, task_id,"
            " idx, channel, `blob`) SELECT 'new', UNHEX(MD5('')), seq, '', 0, '',"
            " REPEAT('x', 100000) FROM seq_1_to_200",
            "COMMIT",
            "DELETE FROM checkpoint_writes WHERE thread_id = 'new'",
        ),
        "of table 'checkpoint_writes' are unused",
    ),
    *(
        EngineFault(layouts, "index-missing", without_index(collection, *fields), f"'{collection}'")
        for layouts, collection, *fields in (
            (("mongodb",), "checkpoints", *_CHECKPOINT),
            (("mongodb", "mongodb-js"), "checkpoint_writes", *_CHECKPOINT, "task_id", "idx"),
            (("kaflow",), "checkpoints", "created_at"),
        )
    ),
    *(
        EngineFault(
            layouts,
            "document-near-limit",
            large_document(field),
            "13.0 MiB",
            stays=True,
            thread=CHAT,
        )
        for layouts, field in (
            (("mongodb", "mongodb-js"), "checkpoint"),
            (("kaflow",), "checkpoint_data"),
        )
    ),
]


DOCUMENTS = ("mongodb", "mongodb-js", "kaflow")
TENANTS = ("three-table", "three-table-latest", "kagent", "supabase")
SEARCHED = ("redis", "redis-shallow")
JS = ("redis-js", "redis-js-shallow")
REDIS = (*SEARCHED, *JS, "redis-hash", "redis-plain", "valkey", "valkey-agentcore")
ELSEWHERE: Mapping[tuple[str, tuple[str, ...]], str] = {
    ("rows-hidden", POSTGRES): "test_sql.test_a_policy_on_one_table",
    ("rows-hidden", MYSQL): "test_sql.test_a_view_on_mysql",
    ("rows-hidden", TENANTS): "test_sql.test_a_policy_on_the_tables_of_an_application",
    ("rows-hidden", DOCUMENTS): "test_sql.test_a_view_of_documents",
    ("value-replaced", ("postgres",)): "test_deep.test_a_conversation_replaced_on_postgres",
    ("value-replaced", ("sqlite",)): "test_deep.test_a_checkpoint_replaced_in_a_file",
    ("value-replaced", ("mongodb-js",)): "test_deep.test_a_checkpoint_replaced_on_mongodb",
    ("keys-evicted", REDIS): "test_redis.test_keys_that_expire_or_are_evicted",
    ("branches-share-value", ("postgres",)): "test_clean.test_postgres_of_javascript",
    ("branches-share-value", ("redis-plain",)): "test_planted.test_branches_that_share_values",
    ("index-missing", SEARCHED): "test_redis.test_a_search_index_that_is_gone",
    ("ttl-partial", REDIS): "test_redis.test_keys_that_expire_or_are_evicted",
    ("ttl-partial", ("mongodb",)): "test_documents.test_documents_that_expire_beside_others",
    ("ttl-partial", ("mongodb-js",)): "test_documents.test_documents_of_langgraph_js_that_expire",
    ("ttl-partial", ("dynamodb",)): "test_documents.test_items_that_stay",
    ("index-stale", ("redis",)): "test_redis.test_keys_that_contradict_documents",
    ("index-stale", ("redis-shallow",)): "test_redis.test_a_write_that_a_shallow_saver_lists_not",
    ("index-stale", JS): "test_redis.test_writes_that_langgraph_js_does_not_read",
    ("index-stale", ("valkey", "valkey-agentcore")): ("test_redis.test_contradicting_lists"),
    ("index-stale", ("redis-plain",)): "test_redis.test_a_timeline_that_names_lost_checkpoints",
    ("space-free", DOCUMENTS): "test_documents.test_unused_space_counts_only_if_it_is_much",
}
MENDED = {
    *(("dynamodb", "ttl-partial"), ("redis", "index-stale"), ("redis-shallow", "index-stale")),
    *(("valkey", "index-stale"), ("redis-plain", "index-stale")),
    ("valkey-agentcore", "index-stale"),
    *((layout, "ttl-partial") for layout in REDIS),
}
"""The layouts and codes of which these tests run the statement of the finding, and ask again."""
