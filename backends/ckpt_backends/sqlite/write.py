"""Changes LangGraph's SQLite layout.

`BEGIN IMMEDIATE` takes SQLite's write lock, so the checked rows cannot change before the writes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Set

from ckpt_backends.protocol import WritableStore
from ckpt_backends.sql.database import recognised
from ckpt_backends.sql.tables import not_changed
from ckpt_backends.sql.write import WritableSqlStore
from ckpt_backends.sqlite.connect import open_for_writing
from ckpt_backends.sqlite.database import SqliteDatabase
from ckpt_backends.sqlite.journals import writing
from ckpt_backends.sqlite.layout import decode_text, detect, stored_tables
from ckpt_backends.sqlite.store import only_read_of, tables_of
from ckpt_backends.url import StoreUrl


class WritableSqliteStore(WritableSqlStore):
    """A SQLite file, opened for changing."""

    def __init__(
        self, connection: sqlite3.Connection, url: StoreUrl, tables: Mapping[str, Set[str]]
    ) -> None:
        layout = detect(tables, str(url), url.params.get("layout"))
        database = SqliteDatabase(connection, url)
        if reason := only_read_of(layout, database):
            raise not_changed(str(url), reason)
        super().__init__(database, url, tables_of(layout, tables))


def open_writable(url: StoreUrl) -> WritableStore:
    """Open a file for changing. Raises `StoreUnavailable` or `UnknownLayout`."""
    connection = open_for_writing(url)
    connection.text_factory = decode_text
    try:
        with writing(url):
            tables = stored_tables(connection)
        if saver := recognised(tables):
            return saver.open_writable(SqliteDatabase(connection, url), tables, url)
        return WritableSqliteStore(connection, url, tables)
    except BaseException:
        connection.close()
        raise
