"""Stores in which a thread can be copied, so that each trial has one of its own.

A copy has the rows of the thread under another thread id. Checkpoint ids, and so task ids, are
the same, so that LangGraph resumes it as the original.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import psycopg
import redis

from tests.redis_savers import PlainRedisSaver, SeeingRedisSaver

Rows = dict[str, list[tuple[Any, ...]]]
POINTERS = "checkpoint_latest"
"""What names the heads in Redis, and changes with them."""


class Place(Protocol):
    """A store that an official saver fills and `ckpt` changes."""

    url: str

    def saver(self) -> Any:
        """The official saver, ready to use."""
        ...

    def rows(self, thread_id: str) -> Rows:
        """All rows of a thread, without its id, by table."""
        ...

    def copy(self, thread_id: str, new_id: str, until: str = "~") -> None:
        """Copy a thread's rows, up to a checkpoint in the order of the ids."""
        ...

    def has_memory(self, thread_id: str) -> bool:
        """Whether a subgraph keeps its state between calls."""
        ...

    def forget(self, thread_id: str) -> None:
        """Remove a thread's rows."""
        ...


class SqlitePlace:
    """A file of the SQLite saver."""

    TABLES = ("checkpoints", "writes")

    def __init__(self, path: Path) -> None:
        from langgraph.checkpoint.sqlite import SqliteSaver

        self.url = str(path)
        self.connection = sqlite3.connect(path, check_same_thread=False)
        self.connection.execute("PRAGMA synchronous = OFF")
        self._saver = SqliteSaver(self.connection)
        self._saver.setup()

    def saver(self) -> Any:
        return self._saver

    def rows(self, thread_id: str) -> Rows:
        return {
            table: self.connection.execute(
                f"SELECT {', '.join(self._columns(table))} FROM {table} WHERE thread_id = ?"
                " ORDER BY 1, 2, 3, 4",
                [thread_id],
            ).fetchall()
            for table in self.TABLES
        }

    def copy(self, thread_id: str, new_id: str, until: str = "~") -> None:
        for table in self.TABLES:
            columns = ", ".join(self._columns(table))
            self.connection.execute(
                f"INSERT INTO {table} (thread_id, {columns})"
                f" SELECT ?, {columns} FROM {table} WHERE thread_id = ? AND checkpoint_id <= ?",
                [new_id, thread_id, until],
            )
        self.connection.commit()

    def has_memory(self, thread_id: str) -> bool:
        found = self.connection.execute(
            "SELECT 1 FROM checkpoints WHERE thread_id = ? AND checkpoint_ns > ''"
            " AND checkpoint_ns NOT LIKE '%:%'",
            [thread_id],
        )
        return found.fetchone() is not None

    def forget(self, thread_id: str) -> None:
        for table in self.TABLES:
            self.connection.execute(f"DELETE FROM {table} WHERE thread_id = ?", [thread_id])
        self.connection.commit()

    def close(self) -> None:
        self.connection.close()

    def _columns(self, table: str) -> Sequence[str]:
        found = self.connection.execute(f"SELECT name FROM pragma_table_info('{table}')")
        return [name for (name,) in found if name != "thread_id"]


class PostgresPlace:
    """A database of the PostgreSQL saver."""

    TABLES = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")

    def __init__(self, url: str) -> None:
        from langgraph.checkpoint.postgres import PostgresSaver

        self.url = url
        self.connection = psycopg.connect(
            url, autocommit=True, prepare_threshold=0, row_factory=psycopg.rows.dict_row
        )
        self._saver = PostgresSaver(self.connection)
        self._saver.setup()

    def saver(self) -> Any:
        return self._saver

    def rows(self, thread_id: str) -> Rows:
        return {
            table: [
                tuple(row.values())
                for row in self.connection.execute(
                    f"SELECT {', '.join(self._columns(table, '::text'))} FROM {table}"
                    " WHERE thread_id = %s ORDER BY 1, 2, 3, 4".encode(),
                    [thread_id],
                )
            ]
            for table in self.TABLES
        }

    def copy(self, thread_id: str, new_id: str, until: str = "~") -> None:
        for table in self.TABLES:
            columns = ", ".join(self._columns(table))
            only = "" if table == "checkpoint_blobs" else f" AND checkpoint_id <= '{until}'"
            self.connection.execute(
                f"INSERT INTO {table} (thread_id, {columns})"
                f" SELECT %s, {columns} FROM {table} WHERE thread_id = %s{only}".encode(),
                [new_id, thread_id],
            )

    def has_memory(self, thread_id: str) -> bool:
        found = self.connection.execute(
            "SELECT 1 FROM checkpoints WHERE thread_id = %s AND checkpoint_ns > ''"
            " AND strpos(checkpoint_ns, ':') = 0",
            [thread_id],
        )
        return found.fetchone() is not None

    def forget(self, thread_id: str) -> None:
        for table in self.TABLES:
            self.connection.execute(
                f"DELETE FROM {table} WHERE thread_id = %s".encode(), [thread_id]
            )

    def close(self) -> None:
        self.connection.close()

    def _columns(self, table: str, cast: str = "") -> list[str]:
        found = self.connection.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_name = %s"
            " ORDER BY ordinal_position",
            [table],
        )
        names = [row["column_name"] for row in found]
        return [f"{name}{cast}" for name in names if name != "thread_id"]


class RedisPlace:
    """A server of the official saver for Redis."""

    KINDS = ("checkpoint", "checkpoint_write", "write_keys_zset", POINTERS)

    def __init__(self, url: str) -> None:
        self.url = url
        self.client: Any = redis.Redis.from_url(url, protocol=2)
        self._saver = SeeingRedisSaver(redis_url=url)
        self._saver.setup()

    def saver(self) -> Any:
        return self._saver

    def rows(self, thread_id: str) -> Rows:
        return {kind: sorted(self._rows(kind, thread_id)) for kind in self.KINDS}

    def _rows(self, kind: str, thread_id: str) -> Iterator[tuple[Any, ...]]:
        start = f"{kind}:{thread_id}:".encode()
        for name in self._names(kind, thread_id):
            rest = name.removeprefix(start)
            if kind == POINTERS:
                yield rest, self.client.get(name).removeprefix(f"checkpoint:{thread_id}:".encode())
            elif kind == "write_keys_zset":
                members = self.client.zrange(name, 0, -1)
                yield rest, tuple(one.split(thread_id.encode(), 1)[1] for one in members)
            else:
                stored = json.loads(self.client.execute_command("JSON.GET", name))
                # The saver sets this flag where it adds writes to a checkpoint.
                flags = {"thread_id", "has_writes"}
                kept = {part: value for part, value in stored.items() if part not in flags}
                # The metadata comes sixth, as in the tables of the other places.
                metadata = kept.pop("metadata", "")
                yield rest, json.dumps(kept, sort_keys=True), "", "", "", metadata

    def _names(self, kind: str, thread_id: str) -> list[bytes]:
        start = f"{kind}:{thread_id}:".encode()
        return [one for one in self.client.scan_iter(f"{kind}:*", 5000) if one.startswith(start)]

    def copy(self, thread_id: str, new_id: str, until: str = "~") -> None:
        for kind in ("checkpoint", "checkpoint_write"):
            for name in self._names(kind, thread_id):
                stored = json.loads(self.client.execute_command("JSON.GET", name))
                if stored["checkpoint_id"] > until:
                    continue
                stored["thread_id"] = new_id
                new = self._renamed(name, kind, thread_id, new_id)
                self.client.execute_command("JSON.SET", new, "$", json.dumps(stored))
        for name in self._names("write_keys_zset", thread_id):
            if name.rsplit(b":", 1)[1].decode() > until:
                continue
            members = self.client.zrange(name, 0, -1, withscores=True)
            moved = {
                self._renamed(one, "checkpoint_write", thread_id, new_id): score
                for one, score in members
            }
            self.client.zadd(self._renamed(name, "write_keys_zset", thread_id, new_id), moved)
        heads: dict[bytes, bytes] = {}
        for name in self._names("checkpoint", new_id):
            place = name.removeprefix(b"checkpoint:").rsplit(b":", 1)[0]
            heads[place] = max(heads.get(place, b""), name)
        for place, name in heads.items():
            self.client.set(b"checkpoint_latest:" + place, name)

    def _renamed(self, name: bytes, kind: str, thread_id: str, new_id: str) -> bytes:
        rest = name.removeprefix(f"{kind}:{thread_id}:".encode())
        return f"{kind}:{new_id}:".encode() + rest

    def has_memory(self, thread_id: str) -> bool:
        start = f"checkpoint_latest:{thread_id}:".encode()
        found = [one.removeprefix(start) for one in self._names("checkpoint_latest", thread_id)]
        return any(b":" not in ns and ns != b"__empty__" for ns in found)

    def forget(self, thread_id: str) -> None:
        for kind in self.KINDS:
            for name in self._names(kind, thread_id):
                self.client.delete(name)

    def close(self) -> None:
        self.client.close()


class PlainRedisPlace:
    """A server of the plain saver."""

    KINDS = ("checkpoint", "writes")

    def __init__(self, url: str) -> None:
        self.url = url
        self.client: Any = redis.Redis.from_url(url, protocol=2)
        self._saver = PlainRedisSaver(self.client)

    def saver(self) -> Any:
        return self._saver

    def rows(self, thread_id: str) -> Rows:
        return {
            kind: sorted(
                (name.removeprefix(f"{kind}${thread_id}$".encode()), *_fields(self.client, name))
                for name in self._names(kind, thread_id)
            )
            for kind in self.KINDS
        }

    def _names(self, kind: str, thread_id: str) -> list[bytes]:
        start = f"{kind}${thread_id}$".encode()
        return [one for one in self.client.scan_iter(f"{kind}$*", 5000) if one.startswith(start)]

    def copy(self, thread_id: str, new_id: str, until: str = "~") -> None:
        for kind in self.KINDS:
            start = f"{kind}${thread_id}$".encode()
            for name in self._names(kind, thread_id):
                rest = name.removeprefix(start)
                if rest.split(b"$")[1].decode() <= until:
                    self.client.copy(name, f"{kind}${new_id}$".encode() + rest)

    def has_memory(self, thread_id: str) -> bool:
        start = f"checkpoint${thread_id}$".encode()
        found = {
            one.removeprefix(start).split(b"$")[0] for one in self._names("checkpoint", thread_id)
        }
        return any(ns and b":" not in ns for ns in found)

    def forget(self, thread_id: str) -> None:
        for kind in self.KINDS:
            for name in self._names(kind, thread_id):
                self.client.delete(name)

    def close(self) -> None:
        self.client.close()


def _fields(client: Any, name: bytes) -> tuple[Any, ...]:
    fields = client.hgetall(name)
    metadata = fields.pop(b"metadata", b"")
    return tuple(sorted(fields.items())), "", "", "", metadata


@contextmanager
def sqlite_place(path: Path) -> Iterator[SqlitePlace]:
    place = SqlitePlace(path)
    try:
        yield place
    finally:
        place.close()


@contextmanager
def postgres_place(url: str) -> Iterator[PostgresPlace]:
    place = PostgresPlace(url)
    try:
        yield place
    finally:
        place.close()


@contextmanager
def redis_place(url: str) -> Iterator[RedisPlace]:
    place = RedisPlace(url)
    try:
        yield place
    finally:
        place.close()


@contextmanager
def plain_redis_place(url: str) -> Iterator[PlainRedisPlace]:
    place = PlainRedisPlace(url)
    try:
        yield place
    finally:
        place.close()
