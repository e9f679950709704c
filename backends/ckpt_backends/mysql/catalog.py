"""Finds the tables of a database and their layout."""

from __future__ import annotations

from collections.abc import Mapping

from ckpt_backends.apart import CHECKPOINTS
from ckpt_backends.mysql import sql
from ckpt_backends.mysql.connect import Connection
from ckpt_backends.mysql.layout import Column, MySQLLayout, Table, detect
from ckpt_backends.url import StoreUrl


def find_tables(connection: Connection) -> dict[str, Table]:
    """The tables of the database, by their names."""
    columns: dict[str, dict[str, Column]] = {}
    for table, column, kind, extra, charset, collation in connection.rows(sql.COLUMNS):
        generated = "GENERATED" in extra.upper() and "DEFAULT_GENERATED" not in extra.upper()
        columns.setdefault(table, {})[column] = Column(
            kind.lower(), generated, charset or "", collation or ""
        )
    return {name: Table(name, found) for name, found in columns.items()}


def find_layout(connection: Connection, tables: Mapping[str, Table], url: StoreUrl) -> MySQLLayout:
    """The layout of LangGraph's saver that the tables have. Raises `UnknownLayout`."""
    migration = None
    migrations = tables.get("checkpoint_migrations")
    if CHECKPOINTS in tables and migrations is not None and "v" in migrations.columns:
        ((migration,),) = connection.rows(sql.MIGRATION)
    return detect(tables, migration, url.params.get("layout"), str(url))
