"""Opens PostgreSQL databases that LangGraph's savers, Python or JavaScript, wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckpt_backends.protocol import Store, WritableStore
from ckpt_backends.servers import opening
from ckpt_backends.url import StoreUrl

if TYPE_CHECKING:
    # Memory has many classes, and a store of checkpoints needs none of them.
    from ckpt_backends.memory import MemoryStore, WritableMemoryStore


def open_store(url: StoreUrl) -> Store:
    """Open for reading. Raises `StoreUnavailable` or `UnknownLayout`."""
    from ckpt_backends.postgres.connect import connect
    from ckpt_backends.postgres.database import find_tables, of_application

    with opening(connect(url), url) as connection:
        tables, schemas = find_tables(connection, url)
        if found := of_application(tables, schemas):
            from ckpt_backends.postgres.database import PostgresDatabase

            saver, own = found
            database = PostgresDatabase(connection, url, own)
            return saver.open(database, database.columns, url, own[0].schema)
        from ckpt_backends.postgres.layout import detect
        from ckpt_backends.postgres.store import PostgresStore

        layout = detect(tables, schemas, url.params.get("layout"), str(url))
        return PostgresStore(connection, url, layout)


def open_writable(url: StoreUrl) -> WritableStore:
    """Open for changing. Raises the errors of `open`, and `Unsupported`."""
    from ckpt_backends.postgres.connect import connect
    from ckpt_backends.postgres.database import find_tables, of_application

    with opening(connect(url, writable=True), url) as connection:
        tables, schemas = find_tables(connection, url)
        connection.restart()
        if found := of_application(tables, schemas):
            from ckpt_backends.postgres.database import PostgresDatabase

            saver, own = found
            database = PostgresDatabase(connection, url, own)
            return saver.open_writable(database, database.columns, url, own[0].schema)
        from ckpt_backends.postgres.layout import detect
        from ckpt_backends.postgres.write import WritablePostgresStore

        layout = detect(tables, schemas, url.params.get("layout"), str(url))
        return WritablePostgresStore(connection, url, layout)


def open_memory(url: StoreUrl) -> MemoryStore:
    """Open long-term memory for reading. Raises the errors of `open`."""
    from ckpt_backends.postgres import memory as memory_store
    from ckpt_backends.postgres.connect import connect

    with opening(connect(url), url) as connection:
        return memory_store.open_memory(connection, url)


def open_writable_memory(url: StoreUrl) -> WritableMemoryStore:
    """Open it for changing. Raises the errors of `open`, and `Unsupported`."""
    from ckpt_backends.postgres import memory as memory_store
    from ckpt_backends.postgres.connect import connect

    with opening(connect(url, writable=True), url) as connection:
        return memory_store.open_writable_memory(connection, url)
