"""What comes first on any connection: a safe search path, a limit for locks, and the layout."""

from __future__ import annotations

from ckpt_backends.apart import NAMES
from ckpt_backends.postgres import sql
from ckpt_backends.postgres.connect import Connection
from ckpt_backends.postgres.layout import PostgresLayout, Table, detect
from ckpt_backends.url import StoreUrl

_LOCK_TIMEOUT = "5s"
"""How long to wait for a table that is locked, where the server sets no limit."""


def begin(connection: Connection) -> list[str]:
    """What comes first in a transaction. Gives the schemas to look in."""
    ((schemas, *_),) = connection.rows(sql.START, {"lock_timeout": _LOCK_TIMEOUT})
    return list(schemas)


def find_layout(connection: Connection, url: StoreUrl) -> PostgresLayout:
    """Begin a transaction and look at the tables. Raises `UnknownLayout`."""
    schemas = begin(connection)
    if "schema" in url.params:
        schemas = [url.params["schema"]]
    columns: dict[tuple[str, str], dict[str, str]] = {}
    for schema, table, column, kind in connection.rows(sql.COLUMNS, {"names": list(NAMES)}):
        columns.setdefault((schema, table), {})[column] = kind
    if not any(schema in schemas for schema, _ in columns):
        for schema, table in connection.rows(sql.TABLES, {"schemas": schemas}):
            columns.setdefault((schema, table), {})
    tables = [Table(schema, name, found) for (schema, name), found in columns.items()]
    return detect(tables, schemas, url.params.get("layout"), str(url))
