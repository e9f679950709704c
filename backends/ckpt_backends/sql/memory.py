"""Reads and changes the tables of LangGraph's Store: `store` and, with an index, `store_vectors`.

Expired rows stay until a sweep of the application.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from ckpt_backends import memory as dotted_namespaces
from ckpt_backends.changes import Remains
from ckpt_backends.codec.values import unread
from ckpt_backends.errors import StoreChanged, Unsupported
from ckpt_backends.memory import (
    DOT,
    LATER,
    STORE,
    VECTORS,
    Item,
    ItemKey,
    MemoryInfo,
    MemoryStore,
    Namespace,
    NamespaceSize,
    Vector,
    WritableMemoryStore,
    as_json,
    begins,
    check_labels,
    check_unchanged,
    compact,
    lifetime_of,
)
from ckpt_backends.model import HiddenRows, Progress, TypedBytes, in_chunks, silent
from ckpt_backends.rows import Cell, Restored, Row
from ckpt_backends.servers import MEMORY, checked
from ckpt_backends.sql.database import Database, Values, WritableDatabase, condition, text
from ckpt_backends.transfer.form import CannotHold
from ckpt_backends.url import StoreUrl


def _any_value(value: object) -> None:
    """Check nothing."""


@dataclass(frozen=True, slots=True)
class MemoryDialect:
    """How an engine stores items. The expressions are of a row `s` of `store`."""

    layout: str
    size: str
    """The bytes of the value, without reading it."""
    value: str
    """The value; NULL if it is too long to be read."""
    vectors: str
    """The vectors of the item, in a form that `vectors_of` reads."""
    vectors_of: Callable[[Any], Iterable[Vector]]
    place: tuple[str, ...] = ("prefix", "key")
    """The columns by which listed items are read."""
    at_once: int = 200
    """Items in one query, which sorts them with their values."""
    time: str = "{0}"
    """A stored time."""
    after: str = ">="
    before: str = "<"
    """The operators that compare prefixes by code points, with the index."""
    lock: str = ""
    """What ends a query that locks the items that it reads."""
    check_value: Callable[[object], None] = _any_value
    """Raises `CannotHold` for a JSON value that the engine would change."""
    is_typed: bool = True
    """Whether the engine has types for JSON, for times with an offset and for whole minutes. If
    not, values are bytes, and times are texts in UTC."""


@dataclass(frozen=True, slots=True)
class MemoryTables:
    """The tables of a Store as found in one database, `store` first."""

    names: Mapping[str, str]
    """By table, its quoted name with schema."""
    columns: Mapping[str, Sequence[str]]
    plain_names: Sequence[str]


class _Queries:
    """The queries for items."""

    def __init__(self, database: Database, tables: MemoryTables, dialect: MemoryDialect) -> None:
        names, time = tables.names, dialect.time.format
        self._database = database
        self._dialect = dialect
        self.store = names[STORE]
        # Old databases have no columns for times to live.
        self._columns = [
            *("s.prefix", "s.key"),
            *(time("s.created_at"), time("s.updated_at")),
            time("s.expires_at") if "expires_at" in tables.columns[STORE] else "NULL",
            "s.ttl_minutes" if "ttl_minutes" in tables.columns[STORE] else "NULL",
            dialect.size,
            dialect.vectors.format(vectors=names[VECTORS]) if VECTORS in names else "NULL",
        ]
        # A dot sorts after a dash, so sorting `prefix` would not sort label by label.
        labels = f"replace(s.prefix, '.', {database.literal(chr(1))})"
        self.labels = database.exact(labels)
        self.order = f"ORDER BY {self.labels}, {database.exact('s.key')}"

    def select(self, *, values: bool) -> str:
        listed = ", ".join([*self._columns, self._dialect.value if values else "NULL"])
        return f"SELECT {listed} FROM {self.store} s"

    def item(self, row: Sequence[Any], *, read: bool) -> Item:
        """The item of a row that `select` read."""
        prefix, key, created, updated, expires, minutes, size, vectors, value = row
        typed = None
        if read:
            is_long = value is None and size is not None
            typed = unread("json", size) if is_long else TypedBytes("json", _bytes(value))
        return Item(
            ItemKey(dotted_namespaces.parted(text(prefix)), text(key)),
            _time(created),
            _time(updated),
            size or 0,
            _time(expires),
            float(minutes) if isinstance(minutes, int | float) else None,
            tuple(self._dialect.vectors_of(vectors)),
            typed,
        )

    def under(self, prefix: Namespace) -> tuple[str, Values]:
        """The condition on a namespace and those below it, which uses the index."""
        if not prefix:
            return "true", {}
        stored = dotted_namespaces.joined(prefix)
        if stored is None or not self._database.storable(stored):
            return "false", {}
        mark, bound = self._database.text, self._database.bound
        first, end = map(bound, dotted_namespaces.below(stored))
        where = (
            f"(s.prefix = {mark('prefix')} OR s.prefix {self._dialect.after} {mark('first')}"
            f" AND s.prefix {self._dialect.before} {mark('end')})"
        )
        return where, {"prefix": bound(stored), "first": first, "end": end}

    def at(self, columns: Sequence[str], places: Sequence[Sequence[Any]]) -> tuple[str, Values]:
        """The condition that an item has one of these places."""
        parts, values = [], {}
        for n, place in enumerate(places):
            where = {f"s.{column}": cell for column, cell in zip(columns, place, strict=True)}
            part, bound = condition(self._database, where, f"p{n}_")
            parts.append(f"({part})")
            values.update(bound)
        return " OR ".join(parts), values

    def place(self, key: ItemKey) -> tuple[str, str] | None:
        """The cells of an item's key; None if it cannot be stored."""
        stored = dotted_namespaces.joined(key.namespace)
        if stored is None or not all(map(self._database.storable, (stored, key.key))):
            return None
        return stored, key.key


_KEY = ("prefix", "key")


@checked(*MEMORY)
class SqlMemory(MemoryStore):
    """A Store's database, opened for reading."""

    def __init__(
        self, database: Database, url: StoreUrl, tables: MemoryTables, dialect: MemoryDialect
    ) -> None:
        self._database = database
        self._url = url
        self._tables = tables
        self._dialect = dialect
        self._queries = _Queries(database, tables, dialect)

    def describe(self) -> MemoryInfo:
        return MemoryInfo(
            layout=self._dialect.layout,
            url=str(self._url),
            engine=self._database.engine(),
            tables=tuple(self._tables.plain_names),
            changes=dotted_namespaces.why_unchangeable({*self._tables.columns[STORE]}),
            notes=tuple(self._database.notes()),
            is_store=True,
        )

    def hidden_rows(self) -> Sequence[HiddenRows]:
        return self._database.hidden_rows()

    def namespaces(self, prefix: Namespace = ()) -> Iterator[NamespaceSize]:
        where, values = self._queries.under(prefix)
        query = (
            f"SELECT s.prefix, count(*), coalesce(sum({self._dialect.size}), 0)"
            f" FROM {self._queries.store} s WHERE {where}"
            f" GROUP BY s.prefix ORDER BY {self._queries.labels}"
        )
        for found, items, size in self._database.stream(query, values):
            yield NamespaceSize(dotted_namespaces.parted(text(found)), items, size)

    def items(
        self,
        *,
        prefix: Namespace = (),
        key: str | None = None,
        keys: Collection[ItemKey] | None = None,
        values: bool = False,
    ) -> Iterator[Item]:
        if keys is None:
            # List the places first: in one query, the engine would sort the values too.
            columns, places = self._dialect.place, self._listed(prefix, key)
        else:
            wanted = sorted(one for one in keys if begins(one.namespace, prefix))
            found = (self._queries.place(one) for one in wanted if key in {None, one.key})
            columns, places = _KEY, (one for one in found if one is not None)
        for chunk in in_chunks(places, self._dialect.at_once):
            where, bound = self._queries.at(columns, chunk)
            query = f"{self._queries.select(values=values)} WHERE {where} {self._queries.order}"
            for row in self._database.stream(query, bound, 50):
                yield self._queries.item(row, read=values)

    def _listed(self, prefix: Namespace, key: str | None) -> Iterator[tuple[Any, ...]]:
        """The places of items, in their order."""
        where, values = self._queries.under(prefix)
        if key is not None:
            if not self._database.storable(key):
                return
            where += f" AND s.key = {self._database.text('key')}"
            values = {**values, "key": self._database.bound(key)}
        listed = ", ".join(f"s.{column}" for column in self._dialect.place)
        query = f"SELECT {listed} FROM {self._queries.store} s WHERE {where} {self._queries.order}"
        yield from self._database.stream(query, values, 2000)

    def rows(self, key: ItemKey) -> Iterator[Row]:
        place = self._queries.place(key)
        for table, columns in self._tables.columns.items() if place is not None else ():
            where, values = self._queries.at(_KEY, [place or ()])
            listed = ", ".join(self._database.archived(table, column) for column in columns)
            query = f"SELECT {listed} FROM {self._tables.names[table]} s WHERE {where}"
            for row in self._database.stream(query, values, 50):
                yield Row(table, dict(zip(columns, row, strict=True)))

    def key_of(self, row: Row) -> ItemKey:
        return dotted_namespaces.key_of_row(row, self._tables.columns)

    def fitted(self, item: Item) -> Item:
        check_labels(item.key.namespace, DOT)
        if self._queries.place(item.key) is None:
            raise CannotHold("its namespace or key has a character that the engine cannot store")
        value = as_json(item.value)
        self._dialect.check_value(value)
        if item.expires_at is not None and not {*self._tables.columns[STORE]} >= LATER:
            raise CannotHold("it expires, and the table has no columns for times to live")
        lifetime = lifetime_of(item)
        if lifetime is not None and self._dialect.is_typed:
            lifetime = float(round(lifetime))
        return replace(item, value=compact(value), lifetime=lifetime, vectors=())

    def refresh(self) -> None:
        self._database.restart()

    def close(self) -> None:
        self._database.close()


@checked("remove")
class WritableSqlMemory(WritableMemoryStore):
    """A Store's database, opened for changing."""

    def __init__(
        self,
        database: WritableDatabase,
        url: StoreUrl,
        tables: MemoryTables,
        dialect: MemoryDialect,
    ) -> None:
        if why := dotted_namespaces.why_unchangeable({*tables.columns[STORE]}):
            raise Unsupported(f"cannot write to '{url}': {why}")
        from ckpt_backends.sql.write import RowChanges  # late: reading does not need it

        self._database = database
        self._url = url
        self._tables = tables
        self._dialect = dialect
        self._queries = _Queries(database, tables, dialect)
        self._rows = RowChanges(database, tables.names, tables.columns)

    def remove(self, items: Sequence[Item]) -> int:
        select, lock = self._queries.select(values=False), self._dialect.lock
        with self._database.transaction():
            for one in items:
                place = self._queries.place(one.key)
                rows: list[tuple[Any, ...]] = []
                if place is not None:
                    # Lock the checked row, so it cannot change before it is removed.
                    where, values = self._queries.at(_KEY, [place])
                    rows = self._database.rows(f"{select} WHERE {where} {lock}", values)
                check_unchanged(one, self._queries.item(rows[0], read=False) if rows else None)
                for table in reversed(list(self._tables.names)):
                    self._rows.remove(table, dict(zip(_KEY, place or (), strict=True)))
        return len(items)

    def restore(self, rows: Iterable[Row]) -> Restored:
        with self._database.transaction():
            return self._rows.restore(rows)

    def receive(self, items: Sequence[Item]) -> None:
        with self._database.transaction():
            restored = self._rows.restore(map(self._row, items))
            if restored.there:
                raise StoreChanged(f"an item of '{self._url}' was added meanwhile")

    def _row(self, item: Item) -> Row:
        """The row of an item, as the library writes it."""
        is_typed = self._dialect.is_typed
        created, updated = (
            None if at is None else (at if is_typed else at.replace(tzinfo=None)).isoformat(" ")
            for at in (item.created_at, item.updated_at)
        )
        data = item.value.data if item.value is not None else b""
        cells: dict[str, Cell] = {
            "prefix": dotted_namespaces.joined(item.key.namespace),
            "key": item.key.key,
            "value": data.decode() if is_typed else data,
            "created_at": created,
            "updated_at": updated,
        }
        if item.expires_at is not None:
            # SqliteStore, too, stores the time of expiry with its offset.
            cells["expires_at"] = item.expires_at.isoformat(" ")
            cells["ttl_minutes"] = item.lifetime
        return Row(STORE, cells)

    def finish_removal(self) -> str:
        return self._database.finish_removal()

    def erase_remains(self, *, rewrite: bool = False, progress: Progress = silent) -> Remains:
        tables = list(self._tables.names.values())
        return self._database.erase_remains(tables, rewrite=rewrite, progress=progress)

    def close(self) -> None:
        self._database.close()


def _bytes(value: object) -> bytes:
    """A stored value as bytes; NULL gives `b""`."""
    if isinstance(value, bytes):
        return value
    return text(value).encode("utf-8", "surrogateescape")


def _time(value: object) -> datetime | None:
    """A stored time; None if it is not a time."""
    try:
        found = value if isinstance(value, datetime) else datetime.fromisoformat(text(value))
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
