"""Changes LangGraph's PostgreSQL layouts, under an advisory lock of the thread."""

from __future__ import annotations

from ckpt_backends.postgres.connect import PostgresConnection, connect
from ckpt_backends.postgres.database import PostgresDatabase, find_tables, of_application
from ckpt_backends.postgres.layout import PostgresLayout, detect
from ckpt_backends.postgres.store import tables_of
from ckpt_backends.protocol import WritableStore
from ckpt_backends.servers import opening
from ckpt_backends.sql.tables import not_changed
from ckpt_backends.sql.write import WritableSqlStore
from ckpt_backends.url import StoreUrl


class WritablePostgresStore(WritableSqlStore):
    """A PostgreSQL database, opened for changing."""

    def __init__(
        self, connection: PostgresConnection, url: StoreUrl, layout: PostgresLayout
    ) -> None:
        if layout.only_read:
            raise not_changed(str(url), layout.only_read)
        tables = (layout.blobs, layout.checkpoints, layout.writes)
        database = PostgresDatabase(connection, url, tables)
        super().__init__(database, url, tables_of(layout, database))


def open_writable(url: StoreUrl) -> WritableStore:
    """Open for changing. Raises the errors of `store.open_store`, and `Unsupported`."""
    with opening(connect(url, writable=True), url) as connection:
        tables, schemas = find_tables(connection, url)
        connection.restart()
        if found := of_application(tables, schemas):
            saver, own = found
            database = PostgresDatabase(connection, url, own)
            return saver.open_writable(database, database.columns, url, own[0].schema)
        layout = detect(tables, schemas, url.params.get("layout"), str(url))
        return WritablePostgresStore(connection, url, layout)
