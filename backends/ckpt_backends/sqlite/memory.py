"""Opens LangGraph's SqliteStore.

Source: `MIGRATIONS`, `VECTOR_MIGRATIONS` and `_prepare_batch_PUT_queries` in
`langgraph/store/sqlite/base.py`, 2.0 to 3.1.2. Values are bound as bytes, so they are BLOBs in a
text column. Times are text in UTC: the form of `CURRENT_TIMESTAMP`, or a Python datetime with an
offset. Expired rows can be read until a sweep.

SqliteStore does not enable foreign keys, so it leaves behind the vectors of the items it deletes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

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
    opening,
)
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
    with opening(OpenedDatabase(open_read_only(url), url)) as (database, tables):
        return SqlMemory(database, url, _of_store(tables, url), _DIALECT)


def open_writable_memory(url: StoreUrl) -> WritableSqlMemory:
    """Open a file for changing. Raises the errors of `open_memory`, and `Unsupported`."""
    with opening(SqliteDatabase(open_for_writing(url), url)) as (database, tables):
        return WritableSqlMemory(database, url, _of_store(tables, url), _DIALECT)


def _of_store(tables: Mapping[str, Set[str]], url: StoreUrl) -> MemoryTables:
    if not tables.get(STORE, frozenset()) >= COLUMNS:
        found = ", ".join(map(shell.word, sorted(tables))) or "no tables at all"
        raise UnknownLayout(
            f"no long-term memory in '{url}'",
            hint=f"found {found}; a LangGraph SqliteStore has the table 'store'",
        )
    columns = {name: list(tables[name]) for name in (STORE, VECTORS) if name in tables}
    return MemoryTables({name: name for name in columns}, columns, list(columns))
