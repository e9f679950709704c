"""Changes LangGraph's PostgreSQL layouts, and makes their tables.

A change runs under an advisory lock of the thread.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from ckpt_backends.errors import Refused, UnknownLayout, Unsupported
from ckpt_backends.postgres.connect import PostgresConnection, connect
from ckpt_backends.postgres.database import (
    FULL,
    PostgresDatabase,
    PostgresLayout,
    detect,
    find_tables,
    of_application,
    quoted_name,
    transaction,
)
from ckpt_backends.postgres.memory import find_memory_tables
from ckpt_backends.postgres.store import tables_of
from ckpt_backends.protocol import WritableStore
from ckpt_backends.servers import opening
from ckpt_backends.sql.database import MEMORY_TABLES, THREAD_TABLES, something_else
from ckpt_backends.sql.tables import BLOBS, CHECKPOINTS, WRITES, not_changed
from ckpt_backends.sql.write import WritableSqlStore
from ckpt_backends.transfer.form import Language
from ckpt_backends.url import StoreUrl


class WritablePostgresStore(WritableSqlStore):
    """A PostgreSQL database, opened for changing."""

    def __init__(
        self, connection: PostgresConnection, url: StoreUrl, layout: PostgresLayout
    ) -> None:
        if layout.only_read:
            raise not_changed(str(url), layout.only_read)
        tables = (layout.blobs, layout.checkpoints, layout.writes)
        database = PostgresDatabase(connection, tables)
        super().__init__(database, url, tables_of(layout, database))


def open_writable(url: StoreUrl) -> WritableStore:
    """Open for changing. Raises the errors of `store.open_store`, and `Unsupported`."""
    with opening(connect(url, writable=True), url) as connection:
        tables, schemas = find_tables(connection)
        connection.restart()
        if found := of_application(tables, schemas):
            saver, own = found
            database = PostgresDatabase(connection, own)
            return saver.open_writable(database, database.columns, url, own[0].schema)
        layout = detect(tables, schemas, url.params.get("layout"), str(url))
        return WritablePostgresStore(connection, url, layout)


# Makes the tables of LangGraph's saver in an empty schema, as its newest release does.
#
# The saver is langgraph-checkpoint-postgres 3.2 or @langchain/langgraph-checkpoint-postgres 1.0.


_KEY = "thread_id text NOT NULL, checkpoint_ns text NOT NULL DEFAULT ''"
_MIGRATIONS = "checkpoint_migrations"
_TABLES = {
    _MIGRATIONS: "v integer PRIMARY KEY",
    CHECKPOINTS: f"{_KEY}, checkpoint_id text NOT NULL, parent_checkpoint_id text, type text,"
    " checkpoint jsonb NOT NULL, metadata jsonb NOT NULL DEFAULT '{{}}',"
    " PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id)",
    BLOBS: f"{_KEY}, channel text NOT NULL, version text NOT NULL, type text NOT NULL, blob bytea,"
    " PRIMARY KEY (thread_id, checkpoint_ns, channel, version)",
    WRITES: f"{_KEY}, checkpoint_id text NOT NULL, task_id text NOT NULL, idx integer NOT NULL,"
    " channel text NOT NULL, type text, blob bytea NOT NULL,"
    " PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx)",
}
_OF_PYTHON = (
    *(
        f"CREATE INDEX {table}_thread_id_idx ON {{schema}}.{table} (thread_id)"
        for table in (CHECKPOINTS, BLOBS, WRITES)
    ),
    f"ALTER TABLE {{schema}}.{WRITES} ADD COLUMN task_path text NOT NULL DEFAULT ''",
)
_LAST_MIGRATION = {Language.PYTHON: 9, Language.JAVASCRIPT: 4}
IN_SCHEMA = """
    SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %(schema)s AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
    AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e')
"""
"""The tables and views of a schema, without those of extensions."""


def create_store(url: StoreUrl, language: Language) -> None:
    """Make the tables in an empty schema, unless they are there.

    A schema that the URL names is made, too. Raises `Refused` if there are other tables, and
    `StoreUnavailable`.
    """
    if (wanted := url.params.get("layout", FULL)) != FULL:
        raise Unsupported(f"cannot make a store of the layout '{wanted}'")
    connection = connect(url, writable=True)
    try:
        try:
            found = detect(*find_tables(connection), None, str(url))
        except UnknownLayout:
            _make(connection, _statements(language), MEMORY_TABLES)
            return
        if found.shallow:
            raise Refused(
                f"cannot make a store in '{url}': it has the tables of the shallow saver",
                hint="name an empty database, or an empty schema: ?schema=NAME",
            )
    finally:
        connection.close()


def _statements(language: Language) -> Iterator[str]:
    for name, columns in _TABLES.items():
        yield f"CREATE TABLE {{schema}}.{name} ({columns})"
    if language is Language.PYTHON:
        yield from _OF_PYTHON
    numbers = f"generate_series(0, {_LAST_MIGRATION[language]})"
    yield f"INSERT INTO {{schema}}.{_MIGRATIONS} SELECT {numbers}"


def _make(
    connection: PostgresConnection, statements: Iterable[str], beside: Collection[str]
) -> None:
    """Make tables in the first schema, if it has no others than those `beside`.

    All is made in one transaction, so a schema has all of it or nothing.
    """
    schemas, url = connection.schemas(), connection.url
    if not schemas:
        raise Refused(
            f"cannot make a store in '{url}': its search path names no schema that exists",
            hint="name one: ?schema=NAME",
        )
    connection.restart()
    with transaction(connection):
        found = {name for (name,) in connection.rows(IN_SCHEMA, {"schema": schemas[0]})}
        if others := found.difference(beside):
            raise something_else(str(url), others)
        schema = quoted_name(schemas[0])
        if "schema" in url.params:
            connection.change(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        for statement in statements:
            connection.change(statement.format(schema=schema))


# Makes the table of PostgresStore (langgraph-checkpoint-postgres 3.2), without vectors.


_STATEMENTS = (
    "CREATE TABLE {schema}.store_migrations (v integer PRIMARY KEY)",
    "CREATE TABLE {schema}.store (prefix text NOT NULL, key text NOT NULL, value jsonb NOT NULL,"
    " created_at timestamptz DEFAULT CURRENT_TIMESTAMP,"
    " updated_at timestamptz DEFAULT CURRENT_TIMESTAMP,"
    " expires_at timestamptz, ttl_minutes integer, PRIMARY KEY (prefix, key))",
    "CREATE INDEX store_prefix_idx ON {schema}.store USING btree (prefix text_pattern_ops)",
    "CREATE INDEX idx_store_expires_at ON {schema}.store (expires_at) WHERE expires_at IS NOT NULL",
    "INSERT INTO {schema}.store_migrations (v) VALUES (0), (1), (2), (3)",
)


def create_memory(url: StoreUrl) -> None:
    """Make the table in a schema with nothing or threads, unless it is there.

    A schema that the URL names is made, too. Raises `Refused` if there are other tables, and
    `StoreUnavailable`.
    """
    connection = connect(url, writable=True)
    try:
        find_memory_tables(connection)
    except UnknownLayout:
        _make(connection, _STATEMENTS, THREAD_TABLES)
    finally:
        connection.close()
