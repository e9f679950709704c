"""The four Stores of LangGraph, each in a separate place, filled by the official library.

Vectors are computed from the characters of a text, so no model is needed and every run stores the
same vectors.
"""

import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch
from urllib.parse import urlsplit

import psycopg
import pymongo
import redis
from langgraph.checkpoint.mongodb import MongoDBSaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.redis import RedisSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.store.mongodb import MongoDBStore, create_vector_index_config
from langgraph.store.postgres import PostgresStore
from langgraph.store.redis import RedisStore
from langgraph.store.sqlite import SqliteStore

from tests.kit.command import CommandResult, ckpt
from tests.kit.servers import Server, flushed, mongodb_database, postgres_database

DIMENSIONS = 4
IN_VECTORS = -0.609375
"""A number that is in every vector, and not part of any time or other number."""


def embed(texts: Sequence[str]) -> list[list[float]]:
    """Return different vectors for different texts."""
    return [[1.0, float(len(it) % 7), IN_VECTORS, float(sum(map(ord, it)) % 11)] for it in texts]


class Bench(ABC):
    """One layout: the place of its store, and its official library."""

    name: ClassVar[str]
    layout: ClassVar[str]
    savers: ClassVar[Any]
    server: ClassVar[str | None] = None
    """The fixture of its server; None for files."""
    gets: ClassVar[bool] = True
    """Whether `get` finds items in a namespace of several labels."""
    prefix_is_text: ClassVar[bool] = False
    """Whether the library treats `anna-2` as a part of `anna`."""
    keeps_expired: ClassVar[bool] = True
    """Whether expired items stay until a sweep."""

    def __init__(self, url: str) -> None:
        self.url = url

    database_on: ClassVar[Any]
    """Makes an empty place on the server."""

    @classmethod
    def place(cls, folder: Path, server: Server | None) -> AbstractContextManager[str]:
        """Yield the URL of an empty place."""
        assert server is not None
        place: AbstractContextManager[str] = cls.database_on(server)
        return place

    @abstractmethod
    def store(self, *, ttl: Any = None, embeds: bool = True) -> AbstractContextManager[Any]:
        """Yield the official store, set up; with a vector index if `embeds`."""

    def with_lifetime(self, minutes: int) -> AbstractContextManager[Any]:
        """Return the official store; its items expire after these minutes."""
        return self.store(ttl={"default_ttl": minutes, "refresh_on_read": False})

    @contextmanager
    def saver(self) -> Iterator[Any]:
        """Yield the official saver of checkpoints in the same place."""
        with self.savers.from_conn_string(self.url) as saver:
            saver.setup()
            yield saver

    @abstractmethod
    def expire(self, namespace: tuple[str, ...], key: str) -> None:
        """Make an item expired, as if it had been stored long ago."""

    @abstractmethod
    def vectors(self) -> int:
        """Return the number of vectors."""


class _NoExtensions(sqlite3.Connection):
    """Python's SQLite may not be able to load extensions; writing vectors needs none."""

    def enable_load_extension(self, enable: bool, /) -> None: ...


class SqliteBench(Bench):
    name, layout, savers = "sqlite", "sqlite-store", SqliteSaver

    @classmethod
    def place(cls, folder: Path, server: Server | None) -> AbstractContextManager[str]:
        return nullcontext(str(folder / "memory.db"))

    @contextmanager
    def store(self, *, ttl: Any = None, embeds: bool = True) -> Iterator[Any]:
        opened = sqlite3.connect(self.url, isolation_level=None, factory=_NoExtensions)
        with closing(opened) as connection, patch("sqlite_vec.load"):
            connection.execute("PRAGMA synchronous = OFF")
            store = SqliteStore(connection, index=_index() if embeds else None, ttl=ttl)
            store.setup()
            yield store

    def expire(self, namespace: tuple[str, ...], key: str) -> None:
        query = "UPDATE store SET expires_at = '2020-01-01 00:00:00' WHERE prefix = ? AND key = ?"
        with closing(sqlite3.connect(self.url)) as db, db:
            db.execute(query, (".".join(namespace), key))

    def vectors(self) -> int:
        with closing(sqlite3.connect(self.url)) as db:
            return int(db.execute("SELECT count(*) FROM store_vectors").fetchone()[0])


class PostgresBench(Bench):
    name, layout, server = "postgres", "postgres-store", "postgres_server"
    savers, database_on = PostgresSaver, staticmethod(postgres_database)

    @contextmanager
    def store(self, *, ttl: Any = None, embeds: bool = True) -> Iterator[Any]:
        with PostgresStore.from_conn_string(
            self.url, index=_index() if embeds else None, ttl=ttl
        ) as store:
            store.setup()
            yield store

    def expire(self, namespace: tuple[str, ...], key: str) -> None:
        query = b"UPDATE store SET expires_at = '2020-01-01' WHERE prefix = %s AND key = %s"
        with psycopg.connect(self.url) as connection:
            connection.execute(query, (".".join(namespace), key))

    def vectors(self) -> int:
        with psycopg.connect(self.url) as connection:
            ((number,),) = connection.execute("SELECT count(*) FROM store_vectors").fetchall()
            return int(number)


class RedisBench(Bench):
    name, layout, server = "redis", "redis-store", "redis_stack_server"
    savers, database_on = RedisSaver, staticmethod(flushed)
    # langgraph-checkpoint-redis 0.5.2 escapes text, and redisvl 0.28 escapes it again.
    gets = False
    prefix_is_text = True
    keeps_expired = False

    @contextmanager
    def store(self, *, ttl: Any = None, embeds: bool = True) -> Iterator[Any]:
        index: Any = {**_index(), "distance_type": "cosine"} if embeds else None
        with RedisStore.from_conn_string(self.url, index=index, ttl=ttl) as store:
            store.setup()
            yield store

    def expire(self, namespace: tuple[str, ...], key: str) -> None:
        raise NotImplementedError("Redis removes what has expired by itself")

    def vectors(self) -> int:
        with redis.Redis.from_url(self.url) as client:
            return sum(1 for _ in client.scan_iter("store_vectors:*"))


class MongoBench(Bench):
    name, layout, server = "mongodb", "mongodb-store", "mongodb_server"
    database_on = staticmethod(mongodb_database)

    @contextmanager
    def store(self, *, ttl: Any = None, embeds: bool = True) -> Iterator[Any]:
        made = create_vector_index_config(DIMENSIONS, embed, ["text"], filters=[])
        index = made if embeds else None
        name = "langgraph.store.mongodb.base.create_vector_search_index"
        listed = "pymongo.collection.Collection.list_search_indexes"
        # The search index needs Atlas; without it the store writes the same documents.
        with (
            patch(listed, return_value=[]),
            patch(name),
            MongoDBStore.from_conn_string(
                self.url, db_name=self.database, ttl_config=ttl, index_config=index
            ) as store,
        ):
            yield store

    def with_lifetime(self, minutes: int) -> AbstractContextManager[Any]:
        # Only this library uses seconds.
        return self.store(ttl={"default_ttl": minutes * 60, "refresh_on_read": False})

    @property
    def database(self) -> str:
        return urlsplit(self.url).path.removeprefix("/")

    @contextmanager
    def collection(self) -> Iterator[Any]:
        """Yield the collection of the store."""
        with pymongo.MongoClient[Any](self.url) as client:
            yield client[self.database]["persistent-store"]

    @contextmanager
    def saver(self) -> Iterator[Any]:
        with MongoDBSaver.from_conn_string(self.url, self.database) as saver:
            yield saver

    def expire(self, namespace: tuple[str, ...], key: str) -> None:
        with self.collection() as found:
            found.update_one(
                {"namespace": list(namespace), "key": key},
                {"$set": {"updated_at": datetime(2020, 1, 1, tzinfo=UTC)}},
            )

    def vectors(self) -> int:
        with self.collection() as found:
            return int(found.count_documents({"embedding": {"$exists": True}}))


def _index() -> Any:
    return {"dims": DIMENSIONS, "embed": embed, "fields": ["text"]}


BENCHES: tuple[type[Bench], ...] = (SqliteBench, PostgresBench, RedisBench, MongoBench)


Namespace = tuple[str, ...]
Value = dict[str, Any]
Items = dict[tuple[Namespace, str], Value]
ITEMS: Items = {
    (("users", "anna", "memories"), "tea"): {"text": "likes green tea", "n": 1},
    (("users", "anna"), "profile"): {"text": "Anna", "languages": ["de", "en"], "age": 41.5},
    (("users", "anna-2"), "profile"): {"text": "somebody else"},
    (("users", "anna"), 'it\'s "odd" 100% [x]*?'): {"text": "quotes; -- and %s"},
    # RedisStore treats `Anna` and `anna` as equal: with the same key, one would replace the other.
    (("users", "Anna"), "upper"): {"text": "upper case"},
    (("用户", "张三"), "记忆"): {"text": "用户喜欢披萨"},
    (("a b", "c:d"), "k/1"): {"text": "two\nlines"},
    (("a b", "c:d"), "k\\2"): {"text": "back\\slash"},
    (("x_y",), "new\nline"): {"text": "\x1b[31mred\u202e"},
    (("x%y",), "empty"): {},
}


def fill(bench: Bench, items: Items = ITEMS) -> None:
    """Store items through the official library."""
    for embeds in (False, True):
        # MongoDBStore with an index rejects values that have nothing to embed.
        with bench.store(embeds=embeds) as store:
            for (namespace, key), value in items.items():
                if ("text" in value) is embeds:
                    store.put(namespace, key, value)
    with bench.store() as store:
        settle(store, len(items))


def settle(store: Any, number: int) -> None:
    """Wait until an asynchronous search index contains this number of documents."""
    end = time.monotonic() + 10
    while len(store.search((), limit=1000)) != number and time.monotonic() < end:
        time.sleep(0.02)


def told(store: Any, *, prefix: Namespace = ()) -> dict[tuple[Namespace, str], Any]:
    """Return the items of the official library: value and times."""
    return {
        (one.namespace, one.key): (one.value, instant(one.created_at), instant(one.updated_at))
        for one in store.search(prefix, limit=1000)
    }


def instant(at: Any) -> str:
    """Return a time of the official library, which may be text or have no time zone."""
    found = datetime.fromisoformat(at) if isinstance(at, str) else at
    found = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    return f"{found.isoformat(timespec='microseconds')[:-6]}Z"


def official(bench: Bench, number: int) -> dict[tuple[Namespace, str], Any]:
    """Return what the official library lists, once it has so many items."""
    with bench.store(embeds=False) as store:
        settle(store, number)
        return told(store)


def memory(bench: Bench, *words: str | Path) -> CommandResult:
    """Run `ckpt memory` on a store."""
    return ckpt("-s", bench.url, "memory", *words)


def exported(bench: Bench, *words: str) -> dict[tuple[Namespace, str], Any]:
    """Return the same as read by `ckpt`."""
    return {
        (tuple(one["namespace"]), one["key"]): (one["value"], one["created_at"], one["updated_at"])
        for one in memory(bench, "export", *words, "-o", "json").json
    }


def listed(bench: Bench, *words: str) -> list[dict[str, Any]]:
    """Return the records of `memory list`."""
    found: list[dict[str, Any]] = memory(bench, "list", "--all", *words, "-o", "json").json
    return found


def keys(bench: Bench, *words: str) -> list[tuple[Namespace, str]]:
    """Return the namespaces and keys of `memory list`."""
    return [(tuple(one["namespace"]), one["key"]) for one in listed(bench, *words)]
