"""The first queries on a connection: set a safe search path and lock timeout, find the tables."""

from __future__ import annotations

from collections.abc import Sequence

from ckpt_backends.postgres import sql
from ckpt_backends.postgres.connect import PostgresConnection
from ckpt_backends.postgres.layout import PostgresTable
from ckpt_backends.sql.blob_tables import CHECKPOINTS, NAMES
from ckpt_backends.sql.recognition import TableSaver, recognised
from ckpt_backends.url import StoreUrl

_LOCK_TIMEOUT = "5s"
"""How long to wait for a locked table, if the server sets no limit."""


def begin(connection: PostgresConnection) -> list[str]:
    """Begin a transaction with safe settings. Returns the schemas of the search path."""
    ((schemas, *_, read_only),) = connection.rows(sql.START, {"lock_timeout": _LOCK_TIMEOUT})
    connection.is_read_only = read_only == "on"
    return list(schemas)


def find_tables(
    connection: PostgresConnection, url: StoreUrl
) -> tuple[list[PostgresTable], list[str]]:
    """Begin a transaction. Returns the tables that were found, and the schemas to search."""
    schemas = begin(connection)
    if "schema" in url.params:
        schemas = [url.params["schema"]]
    columns: dict[tuple[str, str], dict[str, str]] = {}
    required: dict[tuple[str, str], set[str]] = {}
    for schema, table, column, kind, must in connection.rows(sql.COLUMNS, {"names": list(NAMES)}):
        columns.setdefault((schema, table), {})[column] = kind
        if must:
            required.setdefault((schema, table), set()).add(column)
    if not any(schema in schemas for schema, _ in columns):
        for schema, table in connection.rows(sql.TABLES, {"schemas": schemas}):
            columns.setdefault((schema, table), {})
    return [
        PostgresTable(*name, found, frozenset(required.get(name, ())))
        for name, found in columns.items()
    ], schemas


def of_application(
    tables: Sequence[PostgresTable], schemas: Sequence[str]
) -> tuple[TableSaver, list[PostgresTable]] | None:
    """The application's saver that made the tables of one schema, and these tables."""
    for schema in schemas:
        found = [one for one in tables if one.schema == schema]
        if any(one.name == CHECKPOINTS for one in found):
            saver = recognised({one.name: one.columns.keys() for one in found})
            return None if saver is None else (saver, found)
    return None
