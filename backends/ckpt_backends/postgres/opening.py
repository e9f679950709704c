"""Opens PostgreSQL databases that LangGraph's savers, Python or JavaScript, wrote."""

from __future__ import annotations

from ckpt_backends.memory.protocol import MemoryStore, WritableMemoryStore
from ckpt_backends.protocol import Store, WritableStore
from ckpt_backends.servers.answer_errors import understood
from ckpt_backends.url import StoreUrl


def open_store(url: StoreUrl) -> Store:
    """Open for reading. Raises `StoreUnavailable` or `UnknownLayout`."""
    from ckpt_backends.postgres.catalog import find_tables, three_tables
    from ckpt_backends.postgres.connect import connect

    connection = connect(url)
    try:
        with understood(url):
            tables, schemas = find_tables(connection, url)
            if three := three_tables(tables, schemas):
                from ckpt_backends.apps.three_table.read import open_tables
                from ckpt_backends.postgres.tables import PostgresDatabase

                database = PostgresDatabase(connection, url, three)
                return open_tables(database, database.columns, url, three[0].schema)
            from ckpt_backends.postgres.layout import detect
            from ckpt_backends.postgres.read import PostgresStore

            layout = detect(tables, schemas, url.params.get("layout"), str(url))
            return PostgresStore(connection, url, layout)
    except BaseException:
        connection.close()
        raise


def open_writable(url: StoreUrl) -> WritableStore:
    """Open for changing. Raises the errors of `open`, and `Unsupported`."""
    from ckpt_backends.postgres.catalog import find_tables, three_tables
    from ckpt_backends.postgres.connect import connect

    connection = connect(url, writable=True)
    try:
        with understood(url):
            tables, schemas = find_tables(connection, url)
            connection.restart()
            if three := three_tables(tables, schemas):
                from ckpt_backends.apps.three_table.write import open_writable_tables
                from ckpt_backends.postgres.tables import PostgresDatabase

                database = PostgresDatabase(connection, url, three)
                return open_writable_tables(database, database.columns, url, three[0].schema)
            from ckpt_backends.postgres.layout import detect
            from ckpt_backends.postgres.write import WritablePostgresStore

            layout = detect(tables, schemas, url.params.get("layout"), str(url))
            return WritablePostgresStore(connection, url, layout)
    except BaseException:
        connection.close()
        raise


def open_memory(url: StoreUrl) -> MemoryStore:
    """Open long-term memory for reading. Raises the errors of `open`."""
    from ckpt_backends.postgres import memory_store
    from ckpt_backends.postgres.connect import connect

    connection = connect(url)
    with understood(url):
        return memory_store.open_memory(connection, url)


def open_writable_memory(url: StoreUrl) -> WritableMemoryStore:
    """Open it for changing. Raises the errors of `open`, and `Unsupported`."""
    from ckpt_backends.postgres import memory_store
    from ckpt_backends.postgres.connect import connect

    connection = connect(url, writable=True)
    with understood(url):
        return memory_store.open_writable_memory(connection, url)
