"""Finds the tables of a database and their layout."""

from __future__ import annotations

from collections.abc import Mapping

from ckpt_backends.mysql import sql
from ckpt_backends.mysql.connect import MySQLConnection
from ckpt_backends.mysql.layout import CatalogColumn, MySQLLayout, MySQLTable, detect
from ckpt_backends.sql.blob_tables import CHECKPOINTS
from ckpt_backends.url import StoreUrl


def find_tables(connection: MySQLConnection) -> dict[str, MySQLTable]:
    """The tables of the database, by their names."""
    columns: dict[str, dict[str, CatalogColumn]] = {}
    for table, column, kind, extra, charset, collation, must in connection.rows(sql.COLUMNS):
        generated = "GENERATED" in extra.upper() and "DEFAULT_GENERATED" not in extra.upper()
        columns.setdefault(table, {})[column] = CatalogColumn(
            kind.lower(),
            generated,
            charset or "",
            collation or "",
            required=bool(must) and not generated and "AUTO_INCREMENT" not in extra.upper(),
        )
    return {name: MySQLTable(name, found) for name, found in columns.items()}


def find_layout(
    connection: MySQLConnection, tables: Mapping[str, MySQLTable], url: StoreUrl
) -> MySQLLayout:
    """The layout of LangGraph's saver that the tables have. Raises `UnknownLayout`."""
    migration = None
    migrations = tables.get("checkpoint_migrations")
    if CHECKPOINTS in tables and migrations is not None and "v" in migrations.columns:
        ((migration,),) = connection.rows(sql.MIGRATION)
    return detect(tables, migration, url.params.get("layout"), str(url))
