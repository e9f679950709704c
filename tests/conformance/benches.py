"""The stores that the conformance suite runs on. A new layout adds one class to `BENCHES`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, ClassVar, Protocol

import psycopg
import pymongo
from bson.codec_options import CodecOptions
from bson.errors import InvalidDocument
from bson.raw_bson import RawBSONDocument

from tests.mongodb import in_order
from tests.servers import Server, mongodb_database, postgres_database

RAW = CodecOptions(RawBSONDocument)


class Bench(Protocol):
    """A place where an official saver can write and `ckpt` can read."""

    name: ClassVar[str]
    server: ClassVar[str | None]
    """The kind of server that it needs."""
    has_history: ClassVar[bool]
    """Whether the layout keeps more than a namespace's newest checkpoint."""
    refused: ClassVar[frozenset[str]]
    """Scenarios whose values the saver itself cannot store; their threads end before them."""
    refusal: ClassVar[type[Exception]]
    """What the saver raises then."""

    def __init__(self, folder: Path, server: Server | None) -> None: ...

    @property
    def url(self) -> str:
        """What `ckpt -s` opens it with."""
        ...

    def saver(self) -> AbstractContextManager[Any]:
        """The official saver of the layout, ready to use."""
        ...

    def truthful(self, saver: Any) -> Any:
        """The saver for reading, with what it is known to read wrongly put right."""
        ...

    def forget(self, saver: Any, thread_id: str) -> None:
        """Remove a thread."""
        ...

    def fingerprint(self) -> object:
        """Equal before and after as long as nothing in the store changed."""
        ...

    def close(self) -> None:
        """Remove what was made."""
        ...


class SqliteBench:
    """langgraph-checkpoint-sqlite on a file."""

    name: ClassVar[str] = "sqlite"
    server: ClassVar[str | None] = None
    has_history: ClassVar[bool] = True
    refused: ClassVar[frozenset[str]] = frozenset()
    refusal: ClassVar[type[Exception]] = Exception

    def __init__(self, folder: Path, server: Server | None) -> None:
        self.path = folder / "store.db"

    @property
    def url(self) -> str:
        return str(self.path)

    @contextmanager
    def saver(self) -> Iterator[Any]:
        from langgraph.checkpoint.sqlite import SqliteSaver

        with closing(sqlite3.connect(self.path, check_same_thread=False)) as connection:
            saver = SqliteSaver(connection)
            saver.setup()
            yield saver

    def truthful(self, saver: Any) -> Any:
        return saver

    def forget(self, saver: Any, thread_id: str) -> None:
        saver.delete_thread(thread_id)

    def fingerprint(self) -> object:
        return self.path.read_bytes()

    def close(self) -> None:
        """The folder is removed by pytest."""


class PostgresBench:
    """langgraph-checkpoint-postgres on a database of its own."""

    name: ClassVar[str] = "postgres"
    server: ClassVar[str | None] = "postgres"
    has_history: ClassVar[bool] = True
    refused: ClassVar[frozenset[str]] = frozenset({"zoo-floats", "zoo-text"})
    """JSONB has no NaN, and no text with a NUL."""
    refusal: ClassVar[type[Exception]] = psycopg.DataError

    def __init__(self, folder: Path, server: Server | None) -> None:
        assert server is not None
        self._stack = ExitStack()
        self._url = self._stack.enter_context(postgres_database(server))

    @property
    def url(self) -> str:
        return self._url

    @contextmanager
    def saver(self) -> Iterator[Any]:
        from langgraph.checkpoint.postgres import PostgresSaver

        with PostgresSaver.from_conn_string(self._url) as saver:
            saver.setup()
            yield saver

    def truthful(self, saver: Any) -> Any:
        return saver

    def forget(self, saver: Any, thread_id: str) -> None:
        # The shallow saver has no `delete_thread`.
        with saver._cursor() as cursor:
            for table in ("checkpoints", "checkpoint_blobs", "checkpoint_writes"):
                cursor.execute(f"DELETE FROM {table} WHERE thread_id = %s", [thread_id])

    def fingerprint(self) -> object:
        names = ("checkpoints", "checkpoint_blobs", "checkpoint_writes", "checkpoint_migrations")
        with psycopg.connect(self._url) as connection:
            return [
                connection.execute(
                    f"SELECT count(*), md5(string_agg(t::text, '|' ORDER BY t::text)) FROM {name} t"
                ).fetchone()
                for name in names
            ]

    def close(self) -> None:
        self._stack.close()


class ShallowPostgresBench(PostgresBench):
    """The saver that keeps a namespace's newest checkpoint only."""

    name: ClassVar[str] = "postgres-shallow"
    has_history: ClassVar[bool] = False
    refused: ClassVar[frozenset[str]] = frozenset(
        {"fork-invoke", "fork-update", "fork-update-open", "fork-copy", "fork-chat"}
        | {"fork-subgraph", "delta-fork-often", "delta-fork-rarely"}
    )
    """There is no past to go back to."""
    refusal: ClassVar[type[Exception]] = StopIteration

    @contextmanager
    def saver(self) -> Iterator[Any]:
        from langgraph.checkpoint.postgres.shallow import ShallowPostgresSaver

        with ShallowPostgresSaver.from_conn_string(self._url) as saver:
            saver.setup()
            yield saver


class MongoBench:
    """langgraph-checkpoint-mongodb on a database of its own."""

    name: ClassVar[str] = "mongodb"
    server: ClassVar[str | None] = "mongodb"
    has_history: ClassVar[bool] = True
    refused: ClassVar[frozenset[str]] = frozenset({"zoo-bytes"})
    """The saver hands a bytearray to the driver, which takes bytes alone."""
    refusal: ClassVar[type[Exception]] = InvalidDocument

    def __init__(self, folder: Path, server: Server | None) -> None:
        assert server is not None
        self._stack = ExitStack()
        self._url = self._stack.enter_context(mongodb_database(server))

    @property
    def url(self) -> str:
        return self._url

    @contextmanager
    def saver(self) -> Iterator[Any]:
        from langgraph.checkpoint.mongodb import MongoDBSaver

        with MongoDBSaver.from_conn_string(self._url, self._name) as saver:
            yield saver

    def truthful(self, saver: Any) -> Any:
        return in_order(saver)

    def forget(self, saver: Any, thread_id: str) -> None:
        saver.delete_thread(thread_id)

    def fingerprint(self) -> object:
        with pymongo.MongoClient[Any](self._url) as client:
            found = client[self._name]
            return {
                name: (
                    [one.raw for one in found.get_collection(name, RAW).find().sort("_id", 1)],
                    sorted(found[name].index_information()),
                )
                for name in found.list_collection_names()
            }

    @property
    def _name(self) -> str:
        return self._url.rpartition("/")[2]

    def close(self) -> None:
        self._stack.close()


BENCHES: list[type[Bench]] = [SqliteBench, PostgresBench, ShallowPostgresBench, MongoBench]
