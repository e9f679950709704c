"""Opens LangGraph's SqliteStore.

Source: `MIGRATIONS`, `VECTOR_MIGRATIONS` and `_prepare_batch_PUT_queries` in
`langgraph/store/sqlite/base.py`, 2.0 to 3.1.2. Values are bound as bytes, so they are BLOBs in a
text column. Times are text in UTC: the form of `CURRENT_TIMESTAMP`, or a Python datetime with an
offset. Expired rows can be read until a sweep.

SqliteStore does not enable foreign keys, so it leaves behind the vectors of the items it deletes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from ckpt_backends import shell
from ckpt_backends.codec.values import MOST_BYTES
from ckpt_backends.errors import UnknownLayout
from ckpt_backends.memory import COLUMNS, STORE, VECTORS, Vector, check_whole
from ckpt_backends.sql.database import text
from ckpt_backends.sql.memory import MemoryDialect, MemoryTables, SqlMemory, WritableSqlMemory
from ckpt_backends.sqlite.database import (
    OpenedDatabase,
    SqliteDatabase,
    open_for_writing,
    open_read_only,
)
from ckpt_backends.sqlite.journals import reading, stored_tables, writing
from ckpt_backends.url import StoreUrl

_SIZE = """CASE typeof(s.value) WHEN 'blob' THEN length(s.value)
           ELSE length(CAST(s.value AS BLOB)) END"""
"""The length of a BLOB is in the row's header; text would be counted in characters."""


def _vectors(fields: str | None) -> Iterable[Vector]:
    parts = (one.partition(":") for one in (fields or "").split(",") if one)
    found = (Vector(text(bytes.fromhex(name)), int(size)) for name, _, size in parts)
    return sorted(found, key=lambda one: one.field)


_DIALECT = MemoryDialect(
    layout="sqlite-store",
    size=_SIZE,
    value=f"CASE WHEN {_SIZE} <= {MOST_BYTES} THEN s.value END",
    # Names are in hex, because they may contain commas.
    vectors="""(SELECT group_concat(hex(field_name) || ':' || coalesce(length(embedding), 0), ',')
                FROM {vectors} v WHERE v.prefix = s.prefix AND v.key = s.key)""",
    vectors_of=_vectors,
    place=("rowid",),
    at_once=1,
    # The library reads JSON with orjson, which has no longer whole numbers.
    check_value=lambda value: check_whole(value, -(1 << 63), (1 << 64) - 1),
    is_typed=False,
)


def open_memory(url: StoreUrl) -> SqlMemory:
    """Open a file for reading. Raises `StoreUnavailable` or `UnknownLayout`."""
    opened = open_read_only(url)
    database = OpenedDatabase(opened, url)
    try:
        with reading(url):
            tables = _find_tables(opened.connection, url)
        return SqlMemory(database, url, tables, _DIALECT)
    except BaseException:
        database.close()
        raise


def open_writable_memory(url: StoreUrl) -> WritableSqlMemory:
    """Open a file for changing. Raises the errors of `open_memory`, and `Unsupported`."""
    connection = open_for_writing(url)
    database = SqliteDatabase(connection, url)
    try:
        with writing(url):
            tables = _find_tables(connection, url)
        return WritableSqlMemory(database, url, tables, _DIALECT)
    except BaseException:
        database.close()
        raise


def _find_tables(connection: sqlite3.Connection, url: StoreUrl) -> MemoryTables:
    tables = stored_tables(connection)
    if not tables.get(STORE, frozenset()) >= COLUMNS:
        found = ", ".join(map(shell.word, sorted(tables))) or "no tables at all"
        raise UnknownLayout(
            f"no long-term memory in '{url}'",
            hint=f"found {found}; a LangGraph SqliteStore has the table 'store'",
        )
    columns = {name: list(tables[name]) for name in (STORE, VECTORS) if name in tables}
    return MemoryTables({name: name for name in columns}, columns, list(columns))
