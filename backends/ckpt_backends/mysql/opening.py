"""Opens MySQL and MariaDB databases that LangGraph's savers wrote."""

from __future__ import annotations

from ckpt_backends.protocol import Store, WritableStore
from ckpt_backends.servers import opening
from ckpt_backends.url import StoreUrl


def open_store(url: StoreUrl) -> Store:
    """Open for reading. Raises `StoreUnavailable` or `UnknownLayout`."""
    from ckpt_backends.mysql.connect import connect
    from ckpt_backends.mysql.database import find_layout, find_tables
    from ckpt_backends.sql.database import recognised

    with opening(connect(url), url) as connection:
        tables = find_tables(connection)
        columns = {name: set(one.columns) for name, one in tables.items()}
        if saver := recognised(columns):
            from ckpt_backends.mysql.database import MySQLDatabase

            return saver.open(MySQLDatabase(connection, url, tables), columns, url)
        from ckpt_backends.mysql.store import MySQLStore

        return MySQLStore(connection, url, find_layout(connection, tables, url))


def open_writable(url: StoreUrl) -> WritableStore:
    """Open for changing. Raises the errors of `open`, and `Unsupported`."""
    from ckpt_backends.mysql.connect import connect
    from ckpt_backends.mysql.database import find_layout, find_tables
    from ckpt_backends.sql.database import recognised

    with opening(connect(url, writable=True), url) as connection:
        tables = find_tables(connection)
        columns = {name: set(one.columns) for name, one in tables.items()}
        if saver := recognised(columns):
            from ckpt_backends.mysql.database import MySQLDatabase

            connection.restart()
            return saver.open_writable(MySQLDatabase(connection, url, tables), columns, url)
        from ckpt_backends.mysql.write import WritableMySQLStore

        layout = find_layout(connection, tables, url)
        connection.restart()
        return WritableMySQLStore(connection, url, layout)
