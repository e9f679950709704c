"""Reads and changes LangGraph's RedisStore: a RedisJSON document for each item and each vector.

    store:ULID          {prefix, key, value, created_at, updated_at}; times in microseconds
    store_vectors:ULID  {prefix, key, field_name, embedding, ...}; or a hash of these

Source: `_prepare_batch_PUT_queries` in `langgraph/store/redis/base.py` and `_batch_put_ops` in
`__init__.py`, 0.1 to 0.5.2. Each put creates a new ULID and deletes the old documents. The
namespace in `prefix` is escaped for the search engine. An item has at most one vector: if several
fields are embedded, only the last vector is kept. Redis removes expired keys by itself.

ckpt does not use the search index. Redis keys are not sorted, so a listing first scans all keys.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from redis import exceptions

from ckpt_backends.changes.progress import Progress, silent
from ckpt_backends.changes.remains import Remains
from ckpt_backends.changes.rows import Cell, Restored, Row, no_table
from ckpt_backends.chunks import in_chunks
from ckpt_backends.codec.limits import MOST_BYTES, unread
from ckpt_backends.errors import Refused, StoreChanged, StoreUnavailable, UnknownLayout
from ckpt_backends.memory.dotted_namespaces import STORE, VECTORS
from ckpt_backends.memory.protocol import (
    Item,
    ItemKey,
    MemoryInfo,
    MemoryStore,
    Namespace,
    Vector,
    WritableMemoryStore,
    begins,
    check_unchanged,
)
from ckpt_backends.model import TypedBytes
from ckpt_backends.redis.engine.connection import Command, RedisConnection
from ckpt_backends.redis.engine.document_fields import fields_of
from ckpt_backends.redis.engine.driver_errors import explained_change
from ckpt_backends.redis.engine.key_rows import expiries_of, rows_of, stored_of
from ckpt_backends.redis.engine.keyspace import DOCUMENT, HASH, literally, raw, text
from ckpt_backends.redis.engine.restoring import restore_rows
from ckpt_backends.redis.engine.store import engine_of
from ckpt_backends.redis.official.item_fields import (
    EPOCH,
    HASHED,
    key_in,
    key_of,
    moment,
    typed_value,
)
from ckpt_backends.redis.official.moved_items import (
    document_of,
    fitted_item,
    identity_of,
    key_name,
    milliseconds,
)
from ckpt_backends.transfer.errors import CannotHold
from ckpt_backends.url import StoreUrl

LAYOUT = "redis-store"
_TYPES: Mapping[str, str] = {STORE: DOCUMENT, VECTORS: DOCUMENT, HASHED: HASH}
_ABOUT = ("$.prefix", "$.key", "$.created_at", "$.updated_at")
_AT_ONCE, _VALUES_AT_ONCE = 500, 20
_NO_DOCUMENTS = "unknown type name"
"""In the answer of a server without JSON documents."""


@dataclass(frozen=True, slots=True, order=True)
class _Place:
    """A stored item without its value."""

    key: ItemKey
    name: bytes
    created_at: datetime | None
    updated_at: datetime | None


class _Documents:
    """Finds the documents of one store."""

    def __init__(self, connection: RedisConnection, url: StoreUrl) -> None:
        self._connection = connection
        self._store = raw(url.params.get("store_prefix", STORE))
        self._vectors = raw(url.params.get("vector_prefix", VECTORS))
        self.tables = tuple(f"{text(one)}:*" for one in (self._store, self._vectors))

    def places(self) -> list[_Place]:
        """All items, sorted, found with one SCAN over all keys."""
        found: dict[bytes, _Place] = {}
        for names in self._connection.scan(literally(text(self._store)) + b":*", DOCUMENT):
            for place in self.told([one for one in dict.fromkeys(names) if one not in found]):
                found[place.name] = place
        return sorted(found.values(), key=lambda one: (one.key, one.name))

    def told(self, names: Sequence[bytes]) -> Iterator[_Place]:
        """The items among these keys; other documents are left out."""
        answers = self._connection.ask_all(("JSON.GET", name, *_ABOUT) for name in names)
        for name, answer in zip(names, answers, strict=True):
            fields = fields_of(answer)
            key = key_in(fields.get("$.prefix"), fields.get("$.key"))
            if key is not None:
                created, updated = (moment(fields.get(path)) for path in _ABOUT[2:])
                yield _Place(key, name, created, updated)

    def is_there(self) -> bool:
        """Whether there is a store: at least one item, or its search index."""
        try:
            for names in self._connection.scan(literally(text(self._store)) + b":*", DOCUMENT):
                if any(True for _ in self.told(names)):
                    return True
        except StoreUnavailable as error:
            if _NO_DOCUMENTS in error.message:
                return False
            raise
        # The indexes that the server names in another database are of database 0.
        is_own = self._connection.database == 0
        return is_own and self._store in (self._connection.find("FT._LIST") or ())

    def prefix_of(self, table: str) -> bytes:
        """The prefix of the keys of a table in archives."""
        return self._store if table == STORE else self._vectors

    def vector_name(self, place: _Place) -> bytes:
        """The key of an item's vector, if it has one."""
        return self._vectors + place.name[len(self._store) :]

    def items(self, places: Sequence[_Place], *, values: bool) -> Iterator[Item]:
        """The items, without those removed meanwhile. Sizes are bytes in the server's memory."""
        names = [one.name for one in places]
        told = self._connection.ask_all(("JSON.DEBUG", "MEMORY", name, "$.value") for name in names)
        sizes = list(told)
        expiries = list(expiries_of(self._connection, names))
        vectors = list(self._vectors_of(places))
        for place, size, expiry, vector in zip(places, sizes, expiries, vectors, strict=True):
            if not size:
                continue
            typed = self._value(place.name, int(size[0])) if values else None
            if typed is None and values:
                continue
            yield Item(
                place.key,
                place.created_at,
                place.updated_at,
                int(size[0]),
                None if expiry is None else EPOCH + timedelta(milliseconds=expiry),
                None,
                () if vector is None else (vector,),
                typed,
            )

    def _value(self, name: bytes, size: int) -> TypedBytes | None:
        if size > MOST_BYTES:
            return unread("json", size)
        answer = self._connection.find("JSON.GET", name, "$.value")
        return typed_value(answer[1:-1]) if isinstance(answer, bytes) and len(answer) > 2 else None

    def _vectors_of(self, places: Sequence[_Place]) -> Iterator[Vector | None]:
        names = [self.vector_name(one) for one in places]
        types = list(self._connection.ask_all(("TYPE", name) for name in names))
        fields = self._connection.ask_all(
            ("HGET", name, "field_name")
            if kind == HASH.encode()
            else ("JSON.GET", name, "$.field_name")
            for name, kind in zip(names, types, strict=True)
        )
        sizes: Iterator[Any] = self._connection.ask_all(
            ("HSTRLEN", name, "embedding")
            if kind == HASH.encode()
            else ("JSON.DEBUG", "MEMORY", name, "$.embedding")
            for name, kind in zip(names, types, strict=True)
        )
        for kind, field, size in zip(types, list(fields), sizes, strict=True):
            if kind == HASH.encode() and field is not None:
                yield Vector(text(field), int(size or 0))
            elif isinstance(field, bytes) and size:
                yield Vector(str(next(iter(json.loads(field)), "")), int(size[0]))
            else:
                yield None

    def keys_of(self, place: _Place) -> list[tuple[str, bytes]]:
        """(table name in archives, key) of all keys of an item: the item, then its vector."""
        name = self.vector_name(place)
        kind = self._connection.ask("TYPE", name)
        vector = HASHED if kind == HASH.encode() else VECTORS
        return [(STORE, place.name), (vector, name)]


class RedisMemory(MemoryStore):
    """A RedisStore's database, opened for reading. There is no snapshot of the values."""

    def __init__(self, connection: RedisConnection, url: StoreUrl) -> None:
        self._connection = connection
        self._url = url
        self._listed: list[_Place] | None = None
        self._by_key: dict[ItemKey, list[_Place]] | None = None
        self._by_identity: dict[Hashable, ItemKey] | None = None
        self._documents = open_documents(connection, url)

    def describe(self) -> MemoryInfo:
        return MemoryInfo(
            layout=LAYOUT,
            url=str(self._url),
            engine=engine_of(self._connection.ask("INFO", "server")),
            tables=self._documents.tables,
            is_store=True,
            removes_expired=True,
        )

    def items(
        self,
        *,
        prefix: Namespace = (),
        key: str | None = None,
        keys: Collection[ItemKey] | None = None,
        values: bool = False,
    ) -> Iterator[Item]:
        named = self._places() if keys is None else self._named(keys)
        places = (
            one for one in named if begins(one.key.namespace, prefix) and key in {None, one.key.key}
        )
        for some in in_chunks(places, _VALUES_AT_ONCE if values else _AT_ONCE):
            yield from self._documents.items(some, values=values)

    def rows(self, key: ItemKey) -> Iterator[Row]:
        for place in self._places():
            if place.key == key:
                yield from rows_of(self._connection, _TYPES, self._documents.keys_of(place))

    def key_of(self, row: Row) -> ItemKey:
        if row.table not in _TYPES:
            raise no_table(row.table)
        name, key = row.cells.get("key"), key_of(row)
        start = f"{text(self._documents.prefix_of(row.table))}:"
        if (
            key is None
            or row.cells.get("type") != _TYPES[row.table]
            or not isinstance(name, str)
            or not name.startswith(start)
        ):
            raise Refused(f"a row of '{row.table}' is not an item")
        return key

    def _places(self) -> list[_Place]:
        if self._listed is None:
            self._listed = self._documents.places()
        return self._listed

    def _named(self, keys: Collection[ItemKey]) -> Iterator[_Place]:
        """The items with these keys, sorted."""
        if self._by_key is None:
            self._by_key = defaultdict(list)
            for place in self._places():
                self._by_key[place.key].append(place)
        for one in sorted(set(keys)):
            yield from self._by_key.get(one, ())

    def fitted(self, item: Item) -> Item:
        if self._by_identity is None:
            self._by_identity = {identity_of(one.key): one.key for one in self._places()}
        other = self._by_identity.get(identity_of(item.key), item.key)
        if other != item.key:
            name = "/".join((*other.namespace, other.key))
            raise CannotHold(f"RedisStore ignores case, and the target has '{name}'")
        return fitted_item(item)

    def identity_of(self, key: ItemKey) -> Hashable:
        return identity_of(key)

    def refresh(self) -> None:
        self._listed = self._by_key = self._by_identity = None

    def close(self) -> None:
        self._connection.close()


class WritableRedisMemory(WritableMemoryStore):
    """A RedisStore's database, opened for changing."""

    def __init__(self, connection: RedisConnection, url: StoreUrl) -> None:
        self._connection = connection
        self._url = url
        self._documents = open_documents(connection, url)

    def remove(self, items: Sequence[Item]) -> int:
        wanted = {(one.key, one.updated_at): one for one in items}
        found: dict[tuple[ItemKey, datetime | None], list[_Place]] = defaultdict(list)
        for place in self._documents.places():
            if (place.key, place.updated_at) in wanted:
                found[place.key, place.updated_at].append(place)
        places = [place for one in wanted for place in found[one]]
        keys = {name for place in places for _, name in self._documents.keys_of(place)}
        try:
            with (
                explained_change(self._url, "nothing was removed"),
                self._connection.driver.pipeline(transaction=True) as pipe,
            ):
                if keys:
                    pipe.watch(*keys)
                now = {one.key: one for one in self._documents.items(places, values=False)}
                for one in items:
                    check_unchanged(one, now.get(one.key))
                pipe.multi()
                pipe.execute_command("UNLINK", *keys)
                pipe.execute()
        except exceptions.WatchError:
            raise StoreChanged(
                f"an item of '{self._url}' changed meanwhile, so nothing was removed",
                hint="an agent may be using the store; run the command again",
            ) from None
        return len(items)

    def receive(self, items: Sequence[Item]) -> None:
        prefix = self._documents.prefix_of(STORE)
        documents = {key_name(prefix, one): one for one in items}
        with (
            explained_change(self._url, "nothing was added"),
            self._connection.transaction(list(documents), loose=True) as pipe,
        ):
            for name, one in documents.items():
                pipe.execute_command("JSON.SET", name, "$", document_of(one), "NX")
                if one.expires_at is not None:
                    pipe.execute_command("PEXPIREAT", name, milliseconds(one.expires_at))
            pipe.execute()

    def restore(self, rows: Iterable[Row]) -> Restored:
        with explained_change(self._url, "nothing was restored"):
            there = {place.key for place in self._documents.places()}
            return restore_rows(self._connection, _Keys(self._connection, there), rows)

    def erase_remains(self, *, rewrite: bool = False, progress: Progress = silent) -> Remains:  # noqa: ARG002
        from ckpt_backends.redis.engine.erasing import erase_remains

        return erase_remains(self._connection, self._url, progress)

    def close(self) -> None:
        self._connection.close()


class _Keys:
    """The keys of a store, for `restore_rows`."""

    types = _TYPES

    def __init__(self, connection: RedisConnection, there: Collection[ItemKey]) -> None:
        self._connection = connection
        self._there = there

    def stored(self, rows: Sequence[Row]) -> Iterator[dict[str, Cell] | None]:
        """The stored contents of these rows; None if a row does not exist.

        `{}` for an item that was stored again meanwhile: it has another key.
        """
        for row, cells in zip(rows, stored_of(self._connection, rows), strict=True):
            is_new = cells is None and row.table == STORE
            yield {} if is_new and key_of(row) in self._there else cells

    def also(self, rows: Sequence[Row]) -> Iterator[Command]:  # noqa: ARG002
        """Empty: the server updates the search index by itself."""
        yield from ()


def open_documents(connection: RedisConnection, url: StoreUrl) -> _Documents:
    """The documents of a store. If there is none, closes the connection, raises `UnknownLayout`."""
    try:
        found = _Documents(connection, url)
        if not found.is_there():
            raise UnknownLayout(
                f"no long-term memory in '{url}'",
                hint=f"looked for {found.tables[0]}; for a custom prefix, add"
                " ?store_prefix=NAME&vector_prefix=NAME",
            )
    except BaseException:
        connection.close()
        raise
    return found
