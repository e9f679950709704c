"""Opens the tables of langgraph-checkpoint-mysql, on MySQL and MariaDB.

They are `checkpoints`, `checkpoint_blobs` and `checkpoint_writes`.
"""

from __future__ import annotations

from typing import ClassVar

from ckpt_backends.errors import MissingDependency
from ckpt_backends.protocol import Store, WritableStore
from ckpt_backends.servers.answer_errors import understood
from ckpt_backends.url import StoreUrl


class MySQLBackend:
    """Opens MySQL and MariaDB databases that LangGraph's savers wrote."""

    schemes: ClassVar[tuple[str, ...]] = ("mysql", "mariadb")

    @classmethod
    def open(cls, url: StoreUrl) -> Store:
        """Open for reading. Raises `StoreUnavailable`, `UnknownLayout` or `MissingDependency`."""
        _need_driver(url)
        from ckpt_backends.apps.three_table.layout import is_three_table
        from ckpt_backends.mysql.catalog import find_layout, find_tables
        from ckpt_backends.mysql.connect import connect

        connection = connect(url)
        try:
            with understood(url):
                tables = find_tables(connection)
                if is_three_table(
                    columns := {name: set(one.columns) for name, one in tables.items()}
                ):
                    from ckpt_backends.apps.three_table.read import open_tables
                    from ckpt_backends.mysql.tables import MySQLDatabase

                    return open_tables(MySQLDatabase(connection, url, tables), columns, url)
                from ckpt_backends.mysql.read import MySQLStore

                return MySQLStore(connection, url, find_layout(connection, tables, url))
        except BaseException:
            connection.close()
            raise

    @classmethod
    def open_writable(cls, url: StoreUrl) -> WritableStore:
        """Open for changing. Raises the errors of `open`, and `Unsupported`."""
        _need_driver(url)
        from ckpt_backends.apps.three_table.layout import is_three_table
        from ckpt_backends.mysql.catalog import find_layout, find_tables
        from ckpt_backends.mysql.connect import connect

        connection = connect(url, writable=True)
        try:
            with understood(url):
                tables = find_tables(connection)
                if is_three_table(
                    columns := {name: set(one.columns) for name, one in tables.items()}
                ):
                    from ckpt_backends.apps.three_table.write import open_writable_tables
                    from ckpt_backends.mysql.tables import MySQLDatabase

                    connection.restart()
                    return open_writable_tables(
                        MySQLDatabase(connection, url, tables), columns, url
                    )
                from ckpt_backends.mysql.write import WritableMySQLStore

                layout = find_layout(connection, tables, url)
                connection.restart()
                return WritableMySQLStore(connection, url, layout)
        except BaseException:
            connection.close()
            raise


def _need_driver(url: StoreUrl) -> None:
    try:
        import pymysql  # noqa: F401
    except ImportError as error:
        raise MissingDependency(
            f"cannot open '{url}': MySQL and MariaDB need the driver PyMySQL",
            hint="install it: pip install 'langgraph-ckpt[mysql]'",
        ) from error
