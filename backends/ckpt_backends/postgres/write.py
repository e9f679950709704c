"""Changes LangGraph's PostgreSQL layouts, under an advisory lock of the thread."""

from __future__ import annotations

from ckpt_backends.postgres.connect import PostgresConnection
from ckpt_backends.postgres.database import PostgresDatabase
from ckpt_backends.postgres.layout import PostgresLayout
from ckpt_backends.postgres.store import tables_of
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
