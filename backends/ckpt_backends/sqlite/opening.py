"""Opens SQLite files with the tables of LangGraph's saver or of an application."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckpt_backends.protocol import Store, WritableStore
from ckpt_backends.url import StoreUrl

if TYPE_CHECKING:
    # Memory has many classes, and a store of checkpoints needs none of them.
    from ckpt_backends.memory import MemoryStore, WritableMemoryStore


def open_store(url: StoreUrl) -> Store:
    """Open a file for reading. Raises `StoreUnavailable` or `UnknownLayout`."""
    from ckpt_backends.sql.database import recognised
    from ckpt_backends.sqlite.connect import open_read_only
    from ckpt_backends.sqlite.journals import reading
    from ckpt_backends.sqlite.layout import decode_text, tables_of

    opened = open_read_only(url)
    opened.connection.text_factory = decode_text
    try:
        with reading(url):
            tables = tables_of(opened.connection)
        if saver := recognised(tables):
            from ckpt_backends.sqlite.database import OpenedDatabase

            return saver.open(OpenedDatabase(opened, url), tables, url)
        from ckpt_backends.sqlite.store import SqliteStore

        return SqliteStore(opened, url, tables)
    except BaseException:
        opened.connection.close()
        opened.cleanup()
        raise


def open_writable(url: StoreUrl) -> WritableStore:
    """Open a file for changing. Raises `StoreUnavailable` or `UnknownLayout`."""
    from ckpt_backends.sql.database import recognised
    from ckpt_backends.sqlite.connect import open_for_writing
    from ckpt_backends.sqlite.journals import writing
    from ckpt_backends.sqlite.layout import decode_text, tables_of

    connection = open_for_writing(url)
    connection.text_factory = decode_text
    try:
        with writing(url):
            tables = tables_of(connection)
        if saver := recognised(tables):
            from ckpt_backends.sqlite.database import SqliteDatabase

            return saver.open_writable(SqliteDatabase(connection, url), tables, url)
        from ckpt_backends.sqlite.write import WritableSqliteStore

        return WritableSqliteStore(connection, url, tables)
    except BaseException:
        connection.close()
        raise


def open_memory(url: StoreUrl) -> MemoryStore:
    """Open a file's long-term memory. Raises `StoreUnavailable` or `UnknownLayout`."""
    from ckpt_backends.sqlite import memory as memory_store
    from ckpt_backends.sqlite.connect import open_read_only

    return memory_store.open_memory(open_read_only(url), url)


def open_writable_memory(url: StoreUrl) -> WritableMemoryStore:
    """Open it for changing. Raises the errors of `open_memory`, and `Unsupported`."""
    from ckpt_backends.sqlite import memory as memory_store
    from ckpt_backends.sqlite.connect import open_for_writing

    return memory_store.open_writable_memory(open_for_writing(url), url)
