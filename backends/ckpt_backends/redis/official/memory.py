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
import re
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import blake2b

from redis import exceptions

from ckpt_backends import memory as dotted_namespaces
from ckpt_backends.changes import Remains
from ckpt_backends.codec.json import unique
from ckpt_backends.codec.values import MOST_BYTES, REDIS_JSON, unread
from ckpt_backends.errors import Refused, StoreChanged, StoreUnavailable, UnknownLayout, Unsupported
from ckpt_backends.memory import (
    STORE,
    VECTORS,
    Item,
    ItemKey,
    MemoryInfo,
    MemoryStore,
    Namespace,
    Vector,
    WritableMemoryStore,
    as_json,
    begins,
    check_labels,
    check_unchanged,
    check_whole,
    compact,
    is_unicode,
)
from ckpt_backends.model import Progress, TypedBytes, in_chunks, silent
from ckpt_backends.redis.engine.connection import (
    Command,
    RedisConnection,
    connect,
    explained_change,
)
from ckpt_backends.redis.engine.keyspace import (
    DOCUMENT,
    HASH,
    MEMBER,
    document,
    expiries_of,
    fields_at,
    literally,
    raw,
    rows_of,
    stored_of,
    text,
)
from ckpt_backends.redis.engine.store import engine_of
from ckpt_backends.redis.engine.write import create_index, erase_remains, restore_rows
from ckpt_backends.rows import Cell, Restored, Row, no_table
from ckpt_backends.servers import MEMORY, checked, opening, understanding
from ckpt_backends.transfer.form import CannotHold
from ckpt_backends.url import StoreUrl

# Reads the fields of RedisStore's documents.


HASHED = "store_vectors_hash"
"""The table name in archives for vectors that are hashes."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ESCAPED = re.compile(r"\\(.)")


def key_in(prefix: object, key: object) -> ItemKey | None:
    """The key of an item from the fields of its document; None if it is not an item."""
    if not isinstance(prefix, str) or not isinstance(key, str):
        return None
    return ItemKey(dotted_namespaces.parted(_ESCAPED.sub(r"\1", prefix)), key)


def key_of(row: Row) -> ItemKey | None:
    """The key of an item from an archived document or hash; None if it is not an item."""
    if row.table == HASHED:
        cells = (row.cells.get(MEMBER + name) for name in ("prefix", "key"))
        return key_in(*(text(one) if isinstance(one, bytes) else None for one in cells))
    try:
        found = json.loads(str(row.cells.get("value")), object_pairs_hook=unique)
    except (ValueError, RecursionError):
        return None
    return key_in(found.get("prefix"), found.get("key")) if isinstance(found, dict) else None


def moment(value: object) -> datetime | None:
    """A time from microseconds since 1970; None if it is not a number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return EPOCH + timedelta(microseconds=value)
    except (OverflowError, ValueError):
        return None


def typed_value(value: bytes) -> TypedBytes:
    """A value as stored.

    Values that JSON cannot represent are wrapped in an object: `__serde_type__` is the type, and
    `__serde_data__` the bytes as hex, or the JSON text if the type is `json`.
    """
    if not value.startswith(b'{"__serde_'):
        return TypedBytes("json", value)
    try:
        match json.loads(value):
            case {"__serde_type__": "json", "__serde_data__": str(data), **rest} if not rest:
                return TypedBytes(REDIS_JSON, data.encode("utf-8", "surrogatepass"))
            case {"__serde_type__": str(tag), "__serde_data__": str(data), **rest} if not rest:
                return TypedBytes(tag, bytes.fromhex(data))
    except (ValueError, RecursionError):
        pass  # a value of the application that only looks like a wrapper
    return TypedBytes("json", value)


# Items of other Stores as documents of RedisStore.
#
# The library finds an item by its search index, which ignores case, so items whose names differ
# only in case replace each other.


_SPECIAL = re.compile(r"[,.<>{}\[\]\\\"':;!@#$%^&*()\-+=~/ ?]")
"""What the library escapes in a namespace. Source: `TokenEscaper` of redisvl 0.28."""
_WRAPPER = {"__serde_type__", "__serde_data__"}
_LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def fitted_item(item: Item) -> Item:
    """An item as the library stores it. Raises `CannotHold`."""
    check_labels(item.key.namespace, dotted_namespaces.DOT)
    if item.created_at is None or item.updated_at is None:
        raise CannotHold("its times are unknown")
    value = item.value
    if value is None or value.problem or not _is_wrapped(value):
        found = as_json(value)
        if found.keys() == _WRAPPER:
            raise CannotHold("RedisStore would take its value for a serialised object")
        check_whole(found, -(1 << 63), (1 << 63) - 1)
        value = compact(found)
    if not all(map(is_unicode, (*item.key.namespace, item.key.key))):
        raise CannotHold("its namespace or key is not Unicode")
    return replace(item, value=value, lifetime=None, vectors=())


def _is_wrapped(value: TypedBytes) -> bool:
    """Whether a value is one that RedisStore itself serialised."""
    return value.type in {REDIS_JSON, "msgpack", "bytes", "bytearray"}


def identity_of(key: ItemKey) -> Hashable:
    """The namespace and key as the search index compares them."""
    return tuple(one.casefold() for one in (*key.namespace, key.key))


def key_name(prefix: bytes, item: Item) -> bytes:
    """The key of an item's document: always the same for the same item and time."""
    updated = milliseconds(item.updated_at) if item.updated_at is not None else 0
    name = "\0".join((*item.key.namespace, item.key.key)).encode()
    number = (updated & ((1 << 48) - 1)) << 80
    number |= int.from_bytes(blake2b(name, digest_size=10).digest())
    return b"%s:%s" % (prefix, _ulid(number).encode())


def _ulid(number: int) -> str:
    """128 bits in the letters of a ULID (https://github.com/ulid/spec)."""
    return "".join(_LETTERS[number >> 5 * place & 31] for place in reversed(range(26)))


def document_of(item: Item) -> bytes:
    """The JSON document of an item that was fitted."""
    value = item.value or TypedBytes("json", b"{}")
    stored = value.data
    if value.type != "json":
        data = value.data.decode() if value.type == REDIS_JSON else value.data.hex()
        tag = "json" if value.type == REDIS_JSON else value.type
        stored = json.dumps({"__serde_type__": tag, "__serde_data__": data}).encode()
    escaped = _SPECIAL.sub(r"\\\g<0>", dotted_namespaces.joined(item.key.namespace) or "")
    created, updated = map(_microseconds, (item.created_at, item.updated_at))
    first = {"prefix": escaped, "key": item.key.key}
    return document(first, {"value": stored}, {"created_at": created, "updated_at": updated})


def milliseconds(at: datetime) -> int:
    """Milliseconds since 1970."""
    return (at - EPOCH) // timedelta(milliseconds=1)


def _microseconds(at: datetime | None) -> int:
    return 0 if at is None else (at - EPOCH) // timedelta(microseconds=1)


LAYOUT = "redis-store"
_TYPES: Mapping[str, str] = {STORE: DOCUMENT, VECTORS: DOCUMENT, HASHED: HASH}
_ABOUT = ("prefix", "key", "created_at", "updated_at")
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
        for name, (prefix, key, created, updated) in fields_at(self._connection, names, _ABOUT):
            found = key_in(prefix, key)
            if found is not None:
                yield _Place(found, name, moment(created), moment(updated))

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
        asked = (("JSON.DEBUG", "MEMORY", name, "$.value") for name in names)
        sizes = list(self._connection.ask_all(asked))
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
        ask = self._connection.ask_all
        # A document has no fields of a hash, and a hash is no document: the answers are None.
        hashed = list(ask(("HGET", name, "field_name") for name in names))
        lengths = list(ask(("HSTRLEN", name, "embedding") for name in names))
        told = list(ask(("JSON.GET", name, "$.field_name") for name in names))
        sizes = ask(("JSON.DEBUG", "MEMORY", name, "$.embedding") for name in names)
        for of_hash, length, of_document, size in zip(hashed, lengths, told, sizes, strict=True):
            if of_hash is not None:
                yield Vector(text(of_hash), int(length or 0))
            elif of_document is not None and size:
                yield Vector(str(next(iter(json.loads(of_document)), "")), int(size[0]))
            else:
                yield None

    def keys_of(self, place: _Place) -> list[tuple[str, bytes]]:
        """(table name in archives, key) of all keys of an item: the item, then its vector."""
        name = self.vector_name(place)
        kind = self._connection.ask("TYPE", name)
        vector = HASHED if kind == HASH.encode() else VECTORS
        return [(STORE, place.name), (vector, name)]


@checked(*MEMORY)
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
        wanted = {(one.key, one.updated_at) for one in items}
        every = self._documents.places()
        places = [one for one in every if (one.key, one.updated_at) in wanted]
        keys = {name for place in places for _, name in self._documents.keys_of(place)}

        def checked() -> Iterator[Command]:
            now = {one.key: one for one in self._documents.items(places, values=False)}
            for one in items:
                check_unchanged(one, now.get(one.key))
            yield ("UNLINK", *keys)

        try:
            with explained_change(self._url, "nothing was removed"):
                self._connection.change(list(keys), lambda _: checked())
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

            def stored(some: Sequence[Row]) -> Iterator[dict[str, Cell] | None]:
                for row, cells in zip(some, stored_of(self._connection, some), strict=True):
                    # An item that was stored again meanwhile has another key.
                    is_new = cells is None and row.table == STORE
                    yield {} if is_new and key_of(row) in there else cells

            return restore_rows(self._connection, _TYPES, stored, rows)

    def erase_remains(self, *, rewrite: bool = False, progress: Progress = silent) -> Remains:  # noqa: ARG002
        return erase_remains(self._connection, self._url, progress)

    def close(self) -> None:
        self._connection.close()


def open_documents(connection: RedisConnection, url: StoreUrl) -> _Documents:
    """The documents of a store. Raises `UnknownLayout` if there is none."""
    found = _Documents(connection, url)
    if not found.is_there():
        raise UnknownLayout(
            f"no long-term memory in '{url}'",
            hint=f"looked for {found.tables[0]}; for a custom prefix, add"
            " ?store_prefix=NAME&vector_prefix=NAME",
        )
    return found


# Makes the search index of RedisStore (langgraph-checkpoint-redis 0.5), without vectors.
#
# Source: `store_schema` in `langgraph/store/redis/base.py`, and `FieldFactory` of redisvl 0.28.


_FIELDS = {
    "prefix": ("TEXT", "WEIGHT", "1"),
    "key": ("TAG", "SEPARATOR", ","),
    **dict.fromkeys(("created_at", "updated_at", "ttl_minutes", "expires_at"), ("NUMERIC",)),
}


def create_memory(url: StoreUrl) -> None:
    """Make the index, unless a store is there.

    Raises `Refused` if other keys have its prefix, `Unsupported` if the server has no search, and
    `StoreUnavailable`.
    """
    with opening(connect(url), url) as connection:
        if not _Documents(connection, url).is_there():
            _make(connection, url)
        connection.close()


def _make(connection: RedisConnection, url: StoreUrl) -> None:
    prefix = url.params.get("store_prefix", STORE)
    for names in connection.scan(literally(prefix) + b":*"):
        raise Refused(
            f"cannot make a store in '{url}': {len(names)} other keys begin with '{prefix}:'",
            hint="name another prefix: ?store_prefix=NAME&vector_prefix=NAME",
        )
    if connection.find("FT._LIST") is None:
        raise Unsupported(
            f"cannot make a store in '{url}': the server has no search",
            hint="RedisStore needs Redis 8, or Redis Stack",
        )
    with explained_change(url, "nothing was made"):
        try:
            create_index(connection, prefix, f"{prefix}:", _FIELDS, "SCORE", "1.0")
        except exceptions.ResponseError as error:
            if "already exists" not in str(error):
                raise


def open_memory(url: StoreUrl) -> MemoryStore:
    """Open long-term memory for reading. Raises `StoreUnavailable` or `UnknownLayout`."""
    with opening(connect(url), url) as connection:
        return understanding(RedisMemory(connection, url), url)


def open_writable_memory(url: StoreUrl) -> WritableMemoryStore:
    """Open it for changing. Raises the errors of `open_memory`."""
    with opening(connect(url), url) as connection:
        return understanding(WritableRedisMemory(connection, url), url)
