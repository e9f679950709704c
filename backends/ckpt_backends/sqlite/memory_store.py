"""Reads and changes LangGraph's SqliteStore: the table `store` and, with an index, `store_vectors`.

Source: `MIGRATIONS`, `VECTOR_MIGRATIONS` and `_prepare_batch_PUT_queries` in
`langgraph/store/sqlite/base.py`, 2.0 to 3.1.2. Values are bound as bytes, so they are BLOBs in a
text column. Times are text in UTC: the form of `CURRENT_TIMESTAMP`, or a Python datetime with an
offset. Expired rows stay until a sweep and can be read until then.

SqliteStore does not enable foreign keys, so it leaves behind the vectors of the items it deletes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from datetime import UTC, datetime
from typing import Any

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
from ckpt_backends.sqlite.binding import TEXT, bind, stored_bytes, text
from ckpt_backends.sqlite.file import FileReader, FileWriter
from ckpt_backends.sqlite.layout import tables_of
from ckpt_backends.sqlite.open import Opened
from ckpt_backends.sqlite.restoring import restore_rows
from ckpt_backends.url import StoreUrl

LAYOUT = "sqlite-store"
_SIZE = """CASE typeof(value) WHEN 'blob' THEN length(value)
           ELSE length(CAST(value AS BLOB)) END"""
"""The length of a BLOB is in the row's header; text would be counted in characters."""
_ORDER = "replace(prefix, '.', char(1)), key"
"""Orders namespaces label by label, although a dot sorts after a dash."""
_AT = f"prefix = {TEXT} AND key = {TEXT}"
_FIELDS = """(SELECT group_concat(hex(field_name) || ':' || coalesce(length(embedding), 0), ',')
             FROM store_vectors v WHERE v.prefix = s.prefix AND v.key = s.key)"""
"""Names are in hex, because they may contain commas."""


class SqliteMemory(FileReader, BaseMemoryStore):
    """A SqliteStore's file, opened for reading."""

    def __init__(self, opened: Opened, url: StoreUrl) -> None:
        super().__init__(opened, url)
        try:
            with self._errors():
                self._tables = store_tables(opened.connection, url)
        except BaseException:
            self.close()
            raise

    def describe(self) -> MemoryInfo:
        return MemoryInfo(
            layout=LAYOUT,
            url=str(self._url),
            engine=f"SQLite {sqlite3.sqlite_version}",
            tables=tuple(self._tables),
            changes=dotted_namespaces.why_unchangeable(self._tables[STORE]),
            notes=self._opened.notes,
        )

    def namespaces(self, prefix: Namespace = ()) -> Iterator[NamespaceSize]:
        where, bound = _under(prefix)
        for found, items, size in self._query(
            f"SELECT prefix, count(*), sum({_SIZE}) FROM store s WHERE {where}"
            " GROUP BY prefix ORDER BY replace(prefix, '.', char(1))",
            bound,
        ):
            yield NamespaceSize(dotted_namespaces.parted(text(found)), items, size)

    def items(
        self,
        *,
        prefix: Namespace = (),
        key: str | None = None,
        keys: Collection[ItemKey] | None = None,
        values: bool = False,
    ) -> Iterator[Item]:
        select = f"{select_items(self._tables)} WHERE rowid = ?"
        for place in self._places(prefix, key, keys):
            for row in self._query(select, [place]):
                yield item_of(row, self._value(place, row) if values else None)

    def _places(
        self, prefix: Namespace, key: str | None, keys: Collection[ItemKey] | None
    ) -> Iterator[int]:
        """The rowids of items, in their order; only the index is read and sorted."""
        if keys is None:
            where, bound = _under(prefix)
            if key is not None:
                where, bound = f"{where} AND key = {TEXT}", [*bound, bind(key)]
            listed = f"SELECT rowid FROM store WHERE {where} ORDER BY {_ORDER}"
            yield from (place for (place,) in self._query(listed, bound))
            return
        for one in sorted(one for one in keys if begins(one.namespace, prefix)):
            at = _bound(one)
            if at is not None and key in {None, one.key}:
                found = self._query(f"SELECT rowid FROM store WHERE {_AT}", at)
                yield from (place for (place,) in found)

    def _value(self, place: int, row: Sequence[Any]) -> TypedBytes:
        """The value of a listed row."""
        if row[5] > MOST_BYTES:
            return unread("json", row[5])
        ((value,),) = self._query("SELECT value FROM store WHERE rowid = ?", [place])
        return TypedBytes("json", stored_bytes(value))

    def rows(self, key: ItemKey) -> Iterator[Row]:
        bound = _bound(key)
        for table in self._tables if bound is not None else ():
            yield from self._whole_rows(table, _AT, bound or ())

    def key_of(self, row: Row) -> ItemKey:
        return dotted_namespaces.key_of_row(row, self._tables)


class WritableSqliteMemory(FileWriter, BaseWritableMemoryStore):
    """A SqliteStore's file, opened for changing."""

    def __init__(self, connection: sqlite3.Connection, url: StoreUrl) -> None:
        super().__init__(connection, url)
        try:
            with self._errors():
                self._tables = store_tables(connection, url)
            if why := dotted_namespaces.why_unchangeable(self._tables[STORE]):
                raise Unsupported(f"cannot write to '{url}': {why}")
        except BaseException:
            self.close()
            raise

    def remove(self, items: Sequence[Item]) -> int:
        select = select_items(self._tables)
        with self._errors(), self._transaction() as connection:
            self._has_removed = True
            for one in items:
                bound = _bound(one.key) or ()
                row = connection.execute(f"{select} WHERE {_AT}", bound).fetchone()
                check_unchanged(one, None if row is None else item_of(row))
                for table in reversed(list(self._tables)):
                    connection.execute(f"DELETE FROM {table} WHERE {_AT}", bound)
        return len(items)

    def restore(self, rows: Iterable[Row]) -> Restored:
        with self._errors(), self._transaction() as connection:
            return restore_rows(connection, rows)


def store_tables(connection: sqlite3.Connection, url: StoreUrl) -> Mapping[str, Set[str]]:
    """The tables of a Store with their columns, `store` first. Raises `UnknownLayout`."""
    tables = tables_of(connection)
    columns = tables.get(STORE)
    if columns is None or not columns >= dotted_namespaces.COLUMNS:
        found = ", ".join(map(shell.word, sorted(tables))) or "no tables at all"
        raise UnknownLayout(
            f"no long-term memory in '{url}'",
            hint=f"found {found}; a LangGraph SqliteStore has the table 'store'",
        )
    return {name: tables[name] for name in (STORE, VECTORS) if name in tables}


def select_items(tables: Mapping[str, Set[str]]) -> str:
    """The query for listed items; an old file has no times to live."""
    expires = "expires_at" if "expires_at" in tables[STORE] else "NULL"
    fields = _FIELDS if VECTORS in tables else "NULL"
    return f"SELECT prefix, key, created_at, updated_at, {expires}, {_SIZE}, {fields} FROM store s"


def item_of(row: Sequence[Any], value: TypedBytes | None = None) -> Item:
    """The item of a row that `select_items` read."""
    prefix, key, created, updated, expires, size, fields = row
    return Item(
        ItemKey(dotted_namespaces.parted(text(prefix)), text(key)),
        _time(created),
        _time(updated),
        size or 0,
        _time(expires),
        tuple(sorted(_vectors(text(fields)), key=lambda one: one.field)),
        value,
    )


def _vectors(fields: str) -> Iterator[Vector]:
    for one in fields.split(",") if fields else ():
        name, _, size = one.partition(":")
        yield Vector(text(bytes.fromhex(name)), int(size))


def _time(value: object) -> datetime | None:
    """A stored time; None if it is not a time."""
    try:
        found = datetime.fromisoformat(text(value))
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _under(prefix: Namespace) -> tuple[str, list[bytes]]:
    """The condition on a namespace and those below it, which uses the index."""
    if not prefix:
        return "true", []
    stored = dotted_namespaces.joined(prefix)
    if stored is None:
        return "false", []
    first, end = dotted_namespaces.below(stored)
    where = f"(prefix = {TEXT} OR prefix >= {TEXT} AND prefix < {TEXT})"
    return where, list(map(bind, (stored, first, end)))


def _bound(key: ItemKey) -> list[bytes] | None:
    """The bound values of an item; None if it cannot be stored."""
    stored = dotted_namespaces.joined(key.namespace)
    return None if stored is None else [bind(stored), bind(key.key)]
