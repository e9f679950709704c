"""Reads and changes LangGraph's PostgresStore: table `store` and, with an index, `store_vectors`.

Source: `MIGRATIONS` and `VECTOR_MIGRATIONS` in `langgraph/store/postgres/base.py`, 2.0 to 3.2.0.
Expired rows stay until a sweep. PostgresStore hides them only with the option `omit_expired`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any
from urllib.parse import quote

from ckpt_backends import shell
from ckpt_backends.changes.rows import Restored, Row
from ckpt_backends.codec.value_limit import MOST_BYTES, unread
from ckpt_backends.errors import UnknownLayout, Unsupported
from ckpt_backends.memory import dotted_namespaces
from ckpt_backends.memory.base import BaseMemoryStore, BaseWritableMemoryStore
from ckpt_backends.memory.dotted_namespaces import STORE, VECTORS
from ckpt_backends.memory.protocol import (
    Item,
    ItemKey,
    MemoryInfo,
    Namespace,
    NamespaceSize,
    Vector,
    begins,
    check_unchanged,
)
from ckpt_backends.model import TypedBytes
from ckpt_backends.postgres import sql
from ckpt_backends.postgres.catalog import begin
from ckpt_backends.postgres.connect import PostgresConnection
from ckpt_backends.postgres.database import DatabaseReader, DatabaseWriter
from ckpt_backends.postgres.layout import PostgresTable, storable
from ckpt_backends.postgres.restoring import restore_rows
from ckpt_backends.servers.answer_types import MEMORY, checked
from ckpt_backends.url import StoreUrl

LAYOUT = "postgres-store"
_ITEMS_AT_ONCE, _VALUES_AT_ONCE, _KEYS_AT_ONCE = 2000, 50, 200
_SELECT = """
    SELECT s.prefix, s.key, {created}, {updated}, {expires}, pg_column_size(s.value),
           {fields}, {value}
    FROM {store} s
"""
"""`pg_column_size` gives the compressed size of a value without reading the value."""
_TIME = "CASE WHEN {0} BETWEEN '0001-01-02' AND '9999-12-30' THEN {0} END"
"""NULL for times that Python cannot represent. PostgreSQL's range is larger and has infinity."""
_FIELDS = """
    (SELECT array_agg(ARRAY[v.field_name, coalesce(pg_column_size(v.embedding), 0)::text]
                      ORDER BY v.field_name COLLATE "C")
     FROM {vectors} v WHERE v.prefix = s.prefix AND v.key = s.key)
"""
_VALUE = f"CASE WHEN octet_length(s.value::text) <= {MOST_BYTES} THEN s.value::text END"
_LABELS = "replace(s.prefix, '.', E'\\x01') COLLATE \"C\""
"""Sorts namespaces label by label. Sorting `prefix` itself would not, as `-` sorts before `.`."""
_ORDER = f'ORDER BY {_LABELS}, s.key COLLATE "C"'
_UNDER = """
    (s.prefix = %(prefix)s OR s.prefix ~>=~ %(first)s AND s.prefix ~<~ %(end)s)
"""
"""Uses the index that PostgresStore creates."""
_AT = "s.prefix = %(prefix)s AND s.key = %(key)s"
_THESE = """
    JOIN unnest(%(prefixes)s::text[], %(keys)s::text[]) k(prefix, key)
         ON k.prefix = s.prefix AND k.key = s.key
"""


@checked(*MEMORY)
class PostgresMemory(DatabaseReader, BaseMemoryStore):
    """A PostgresStore's database, opened for reading."""

    def __init__(self, connection: PostgresConnection, url: StoreUrl) -> None:
        super().__init__(connection, url)
        try:
            self._tables = find_tables(connection, url)
        except BaseException:
            self.close()
            raise

    def describe(self) -> MemoryInfo:
        return MemoryInfo(
            layout=LAYOUT,
            url=str(self._url),
            engine=f"PostgreSQL {self._connection.version}",
            tables=tuple(f"{table.schema}.{table.name}" for table in self._tables.values()),
            changes=dotted_namespaces.why_unchangeable(self._tables[STORE].columns.keys()),
        )

    def namespaces(self, prefix: Namespace = ()) -> Iterator[NamespaceSize]:
        where, bound = _under(prefix)
        query = (
            "SELECT s.prefix, count(*), coalesce(sum(pg_column_size(s.value)), 0)::bigint"
            f" FROM {_name(self._tables[STORE])} s WHERE {where}"
            f" GROUP BY s.prefix ORDER BY {_LABELS}"
        )
        for found, items, size in self._stream(query, _ITEMS_AT_ONCE, **bound):
            yield NamespaceSize(dotted_namespaces.parted(found), items, size)

    def items(
        self,
        *,
        prefix: Namespace = (),
        key: str | None = None,
        keys: Collection[ItemKey] | None = None,
        values: bool = False,
    ) -> Iterator[Item]:
        if keys is not None:
            wanted = sorted(one for one in keys if begins(one.namespace, prefix))
            named = [one for one in wanted if key in {None, one.key}]
            yield from self._these(named, values=values)
        else:
            # List the keys first: in one query, the server would sort the values too.
            listed = self._listed(prefix, key)
            while some := list(islice(listed, _KEYS_AT_ONCE)):
                yield from self._these(some, values=values)

    def _listed(self, prefix: Namespace, key: str | None) -> Iterator[ItemKey]:
        where, bound = _under(prefix)
        if key is not None:
            where, bound = f"{where} AND s.key = %(key)s", {**bound, "key": key}
        if key is None or storable(key):
            store = _name(self._tables[STORE])
            query = f"SELECT s.prefix, s.key FROM {store} s WHERE {where} {_ORDER}"
            for stored, name in self._stream(query, _ITEMS_AT_ONCE, **bound):
                yield ItemKey(dotted_namespaces.parted(stored), name)

    def _these(self, keys: Sequence[ItemKey], *, values: bool) -> Iterator[Item]:
        query = f"{select_items(self._tables, values=values)} {_THESE} {_ORDER}"
        for start in range(0, len(keys), _KEYS_AT_ONCE):
            bound = [one for one in map(_bound, keys[start : start + _KEYS_AT_ONCE]) if one]
            prefixes, names = [one["prefix"] for one in bound], [one["key"] for one in bound]
            for row in self._stream(query, _VALUES_AT_ONCE, prefixes=prefixes, keys=names):
                yield item_of(row, read=values)

    def rows(self, key: ItemKey) -> Iterator[Row]:
        bound = _bound(key)
        if bound is not None:
            for name, table in self._tables.items():
                where = "prefix = %(prefix)s AND key = %(key)s"
                yield from self._whole_rows(name, table, where, _VALUES_AT_ONCE, **bound)

    def key_of(self, row: Row) -> ItemKey:
        columns = {name: table.columns.keys() for name, table in self._tables.items()}
        return dotted_namespaces.key_of_row(row, columns)


@checked("remove")
class WritablePostgresMemory(DatabaseWriter, BaseWritableMemoryStore):
    """A PostgresStore's database, opened for changing."""

    def __init__(self, connection: PostgresConnection, url: StoreUrl) -> None:
        super().__init__(connection, url)
        try:
            self._tables = find_tables(connection, url)
            connection.restart()
            if why := dotted_namespaces.why_unchangeable(self._tables[STORE].columns.keys()):
                raise Unsupported(f"cannot change '{url}': {why}")
        except BaseException:
            self.close()
            raise

    def remove(self, items: Sequence[Item]) -> int:
        # Lock the checked rows, so they cannot change before they are removed.
        select = f"{select_items(self._tables, values=False)} WHERE {_AT} FOR UPDATE OF s"
        with self._transaction() as connection:
            for one in items:
                bound = _bound(one.key) or {"prefix": None, "key": None}
                rows = connection.rows(select, bound)
                check_unchanged(one, item_of(rows[0], read=False) if rows else None)
                for table in reversed(self._tables.values()):
                    connection.change(f"DELETE FROM {_name(table)} s WHERE {_AT}", bound)
        return len(items)

    def restore(self, rows: Iterable[Row]) -> Restored:
        with self._transaction() as connection:
            return restore_rows(connection, self._tables, rows)


def find_tables(connection: PostgresConnection, url: StoreUrl) -> dict[str, PostgresTable]:
    """Begin a transaction and find the tables: `store` first, then `store_vectors` if it exists.

    Raises `UnknownLayout` if there is no table `store`.
    """
    schemas = begin(connection)
    if "schema" in url.params:
        schemas = [url.params["schema"]]
    columns: dict[tuple[str, str], dict[str, str]] = {}
    for schema, table, column, kind in connection.rows(sql.COLUMNS, {"names": [STORE, VECTORS]}):
        columns.setdefault((schema, table), {})[column] = kind
    for schema in schemas:
        if columns.get((schema, STORE), {}).keys() >= dotted_namespaces.COLUMNS:
            return {
                name: PostgresTable(schema, name, columns[schema, name])
                for name in (STORE, VECTORS)
                if (schema, name) in columns
            }
    elsewhere = sorted({schema for schema, name in columns if name == STORE} - set(schemas))
    hint = f"looked in {', '.join(schemas) or 'no schema'} for the table 'store'"
    if elsewhere:
        found, param = shell.name(elsewhere[0]), quote(elsewhere[0], safe="")
        hint += f"; there is one in {found}: add ?schema={param}"
    raise UnknownLayout(f"no long-term memory in '{url}'", hint=hint)


def select_items(tables: Mapping[str, PostgresTable], *, values: bool) -> str:
    """The query for items. Old databases have no columns for times to live."""
    return _SELECT.format(
        store=_name(tables[STORE]),
        created=_TIME.format("s.created_at"),
        updated=_TIME.format("s.updated_at"),
        expires=_TIME.format("s.expires_at") if "expires_at" in tables[STORE].columns else "NULL",
        fields=_FIELDS.format(vectors=_name(tables[VECTORS])) if VECTORS in tables else "NULL",
        value=_VALUE if values else "NULL",
    )


def item_of(row: Sequence[Any], *, read: bool) -> Item:
    """The item from a row that `select_items` read."""
    prefix, key, created, updated, expires, size, fields, value = row
    typed = None
    if read:
        typed = unread("json", size) if value is None else TypedBytes("json", value.encode())
    return Item(
        ItemKey(dotted_namespaces.parted(prefix), key),
        _time(created),
        _time(updated),
        size,
        _time(expires),
        tuple(Vector(name, int(length)) for name, length in fields or ()),
        typed,
    )


def _time(value: datetime | None) -> datetime | None:
    return None if value is None else value.astimezone(UTC)


def _name(table: PostgresTable) -> str:
    """The table's name for a query with parameters, where `%` must be written as `%%`."""
    return table.sql.replace("%", "%%")


def _under(prefix: Namespace) -> tuple[str, dict[str, object]]:
    """The condition for a namespace and all namespaces below it, and its parameters."""
    if not prefix:
        return "true", {}
    stored = dotted_namespaces.joined(prefix)
    if stored is None or not storable(stored):
        return "false", {}
    first, end = dotted_namespaces.below(stored)
    return _UNDER, {"prefix": stored, "first": first, "end": end}


def _bound(key: ItemKey) -> dict[str, object] | None:
    """The query parameters for an item; None if the item cannot be stored."""
    stored = dotted_namespaces.joined(key.namespace)
    if stored is None or not storable(stored) or not storable(key.key):
        return None
    return {"prefix": stored, "key": key.key}
