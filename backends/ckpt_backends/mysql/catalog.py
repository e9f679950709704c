"""The layout of the database that a connection is open to."""

from __future__ import annotations

from ckpt_backends.apart import CHECKPOINTS
from ckpt_backends.mysql import sql
from ckpt_backends.mysql.connect import Connection
from ckpt_backends.mysql.layout import Column, MySQLLayout, Table, detect
from ckpt_backends.url import StoreUrl


def find_layout(connection: Connection, url: StoreUrl) -> MySQLLayout:
    """Look at the tables. Raises `UnknownLayout`."""
    columns: dict[str, dict[str, Column]] = {}
    for table, column, kind, extra, charset, collation in connection.rows(sql.COLUMNS):
        generated = "GENERATED" in extra.upper() and "DEFAULT_GENERATED" not in extra.upper()
        columns.setdefault(table, {})[column] = Column(
            kind.lower(), generated, charset or "", collation or ""
        )
    migration = None
    if CHECKPOINTS in columns and "v" in columns.get("checkpoint_migrations", {}):
        ((migration,),) = connection.rows(sql.MIGRATION)
    tables = {name: Table(name, found) for name, found in columns.items()}
    return detect(tables, migration, url.params.get("layout"), str(url))
