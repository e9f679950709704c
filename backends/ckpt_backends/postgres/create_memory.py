"""Makes the table of PostgresStore (langgraph-checkpoint-postgres 3.2), without vectors.

All is made in one transaction, so a schema has all of it or nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from ckpt_backends.errors import Refused, UnknownLayout
from ckpt_backends.memory.dotted_namespaces import STORE
from ckpt_backends.postgres.catalog import begin
from ckpt_backends.postgres.changing import transaction
from ckpt_backends.postgres.connect import PostgresConnection, connect
from ckpt_backends.postgres.create import IN_SCHEMA
from ckpt_backends.postgres.layout import quoted_name
from ckpt_backends.postgres.memory_store import find_tables
from ckpt_backends.sql.creating import THREAD_TABLES, something_else
from ckpt_backends.url import StoreUrl

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
        schemas = [url.params["schema"]] if "schema" in url.params else begin(connection)
        connection.restart()
        try:
            find_tables(connection, url)
        except UnknownLayout:
            connection.restart()
            with transaction(connection, url):
                _make(connection, url, schemas)
    finally:
        connection.close()


def _make(connection: PostgresConnection, url: StoreUrl, schemas: Sequence[str]) -> None:
    if not schemas:
        raise Refused(
            f"cannot make a store in '{url}': its search path names no schema that exists",
            hint="name one: ?schema=NAME",
        )
    others = {name for (name,) in connection.rows(IN_SCHEMA, {"schema": schemas[0]})}
    if STORE in others or others - THREAD_TABLES:
        raise something_else(str(url), others - THREAD_TABLES)
    schema = quoted_name(schemas[0])
    if "schema" in url.params:
        connection.change(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    for statement in _STATEMENTS:
        connection.change(statement.format(schema=schema))
