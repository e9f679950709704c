"""Opens MySQL and MariaDB databases that LangGraph's savers wrote."""

from __future__ import annotations

from ckpt_backends.discovery import load
from ckpt_backends.protocol import Store, WritableStore
from ckpt_backends.servers.answer_errors import understood
from ckpt_backends.sql.recognised import recognised
from ckpt_backends.url import StoreUrl


def open_store(url: StoreUrl) -> Store:
    """Open for reading. Raises `StoreUnavailable` or `UnknownLayout`."""
    from ckpt_backends.mysql.catalog import find_layout, find_tables
    from ckpt_backends.mysql.connect import connect

    connection = connect(url)
    try:
        with understood(url):
            tables = find_tables(connection)
            columns = {name: set(one.columns) for name, one in tables.items()}
            if backend := recognised(columns):
                from ckpt_backends.mysql.database import MySQLDatabase

                database = MySQLDatabase(connection, url, tables)
                store: Store = load(backend.checkpoints)(database, columns, url)
                return store
            from ckpt_backends.mysql.read import MySQLStore

            return MySQLStore(connection, url, find_layout(connection, tables, url))
    except BaseException:
        connection.close()
        raise


def open_writable(url: StoreUrl) -> WritableStore:
    """Open for changing. Raises the errors of `open`, and `Unsupported`."""
    from ckpt_backends.mysql.catalog import find_layout, find_tables
    from ckpt_backends.mysql.connect import connect

    connection = connect(url, writable=True)
    try:
        with understood(url):
            tables = find_tables(connection)
            columns = {name: set(one.columns) for name, one in tables.items()}
            if backend := recognised(columns):
                from ckpt_backends.mysql.database import MySQLDatabase

                connection.restart()
                database = MySQLDatabase(connection, url, tables)
                store: WritableStore = load(backend.changes)(database, columns, url)
                return store
            from ckpt_backends.mysql.write import WritableMySQLStore

            layout = find_layout(connection, tables, url)
            connection.restart()
            return WritableMySQLStore(connection, url, layout)
    except BaseException:
        connection.close()
        raise
