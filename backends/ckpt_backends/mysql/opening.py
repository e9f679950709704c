"""Opens MySQL and MariaDB databases that LangGraph's savers wrote."""

from __future__ import annotations

from ckpt_backends.protocol import Store, WritableStore
from ckpt_backends.servers.answer_errors import understood
from ckpt_backends.url import StoreUrl


def open_store(url: StoreUrl) -> Store:
    """Open for reading. Raises `StoreUnavailable` or `UnknownLayout`."""
    from ckpt_backends.apps.three_table.layout import is_three_table
    from ckpt_backends.mysql.catalog import find_layout, find_tables
    from ckpt_backends.mysql.connect import connect

    connection = connect(url)
    try:
        with understood(url):
            tables = find_tables(connection)
            if is_three_table(columns := {name: set(one.columns) for name, one in tables.items()}):
                from ckpt_backends.apps.three_table.read import open_tables
                from ckpt_backends.mysql.tables import MySQLDatabase

                return open_tables(MySQLDatabase(connection, url, tables), columns, url)
            from ckpt_backends.mysql.read import MySQLStore

            return MySQLStore(connection, url, find_layout(connection, tables, url))
    except BaseException:
        connection.close()
        raise


def open_writable(url: StoreUrl) -> WritableStore:
    """Open for changing. Raises the errors of `open`, and `Unsupported`."""
    from ckpt_backends.apps.three_table.layout import is_three_table
    from ckpt_backends.mysql.catalog import find_layout, find_tables
    from ckpt_backends.mysql.connect import connect

    connection = connect(url, writable=True)
    try:
        with understood(url):
            tables = find_tables(connection)
            if is_three_table(columns := {name: set(one.columns) for name, one in tables.items()}):
                from ckpt_backends.apps.three_table.write import open_writable_tables
                from ckpt_backends.mysql.tables import MySQLDatabase

                connection.restart()
                return open_writable_tables(MySQLDatabase(connection, url, tables), columns, url)
            from ckpt_backends.mysql.write import WritableMySQLStore

            layout = find_layout(connection, tables, url)
            connection.restart()
            return WritableMySQLStore(connection, url, layout)
    except BaseException:
        connection.close()
        raise
