"""Changes LangGraph's PostgreSQL layouts, under an advisory lock of the thread."""

from __future__ import annotations

from ckpt_backends import shell
from ckpt_backends.errors import UnknownLayout
from ckpt_backends.postgres.connect import PostgresConnection
from ckpt_backends.postgres.layout import PostgresLayout
from ckpt_backends.postgres.tables import PostgresDatabase
from ckpt_backends.sql.saver_tables import SaverTables
from ckpt_backends.sql.write import WritableSqlStore
from ckpt_backends.url import StoreUrl


class WritablePostgresStore(WritableSqlStore):
    """A PostgreSQL database, opened for changing."""

    def __init__(
        self, connection: PostgresConnection, url: StoreUrl, layout: PostgresLayout
    ) -> None:
        if layout.unknown:
            raise UnknownLayout(
                f"'{url}' was written by a saver that ckpt does not know, so ckpt only reads it",
                hint=f"unknown columns: {', '.join(map(shell.word, layout.unknown))}",
            )
        tables = (layout.blobs, layout.checkpoints, layout.writes)
        found = SaverTables(
            # In a query with parameters, `%` must be written as `%%`.
            names={table.name: table.sql.replace("%", "%%") for table in tables},
            columns={table.name: list(table.columns) for table in tables},
            checkpoints=layout.checkpoints.name,
            writes=layout.writes.name,
            blobs=layout.blobs.name,
            own_id="(checkpoint ->> 'id')" if layout.shallow else "checkpoint_id",
            keeps_history=not layout.shallow,
        )
        super().__init__(PostgresDatabase(connection, url, tables), url, found)
