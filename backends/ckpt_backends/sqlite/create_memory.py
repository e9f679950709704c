"""Makes the table of SqliteStore (langgraph-checkpoint-sqlite 3.1.2), without vectors."""

from __future__ import annotations

import sqlite3

from ckpt_backends.memory.dotted_namespaces import COLUMNS, STORE
from ckpt_backends.sql.creating import THREAD_TABLES, something_else
from ckpt_backends.sqlite.errors import writing
from ckpt_backends.sqlite.layout import tables_of
from ckpt_backends.sqlite.open import open_for_creating, transaction
from ckpt_backends.url import StoreUrl

_STATEMENTS = (
    "CREATE TABLE store_migrations (v INTEGER PRIMARY KEY)",
    "CREATE TABLE store (prefix text NOT NULL, key text NOT NULL, value text NOT NULL,"
    " created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,"
    " updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,"
    " expires_at TIMESTAMP, ttl_minutes REAL, PRIMARY KEY (prefix, key))",
    "CREATE INDEX store_prefix_idx ON store (prefix)",
    "CREATE INDEX idx_store_expires_at ON store (expires_at) WHERE expires_at IS NOT NULL",
    "INSERT INTO store_migrations (v) VALUES (0), (1), (2), (3), (4)",
)


def create_memory(url: StoreUrl) -> None:
    """Make the table in a missing file, or in one with nothing or threads, unless it is there.

    Raises `Refused` if there is anything else, and `StoreUnavailable`.
    """
    connection = open_for_creating(url)
    try:
        with writing(url):
            if _is_there(connection, url):
                return
            with transaction(connection):
                if not _is_there(connection, url):
                    for statement in _STATEMENTS:
                        connection.execute(statement)
    finally:
        connection.close()


def _is_there(connection: sqlite3.Connection, url: StoreUrl) -> bool:
    """Whether the file has the table. Raises `Refused` if it has others."""
    tables = tables_of(connection)
    if tables.get(STORE, frozenset()) >= COLUMNS:
        return True
    if others := tables.keys() - THREAD_TABLES:
        raise something_else(str(url), others)
    return False
