"""Stores in which a thread can be copied, so that each trial has one of its own.

A copy has the rows of the thread under another thread id. Checkpoint ids, and so task ids, are
the same, so that LangGraph resumes it as the original.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import psycopg
import pymongo

from tests.mongodb import in_order

Rows = dict[str, list[tuple[Any, ...]]]


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


class MongoPlace:
    """A database of the MongoDB saver."""

    TABLES = ("checkpoints", "checkpoint_writes")

    def __init__(self, url: str) -> None:
        from langgraph.checkpoint.mongodb import MongoDBSaver

        self.url = url
        name = url.rpartition("/")[2]
        self.client: Any = pymongo.MongoClient(url)
        self.database = self.client[name]
        self._saver: Any = in_order(MongoDBSaver(self.client, name))

    def saver(self) -> Any:
        return self._saver

    def rows(self, thread_id: str) -> Rows:
        return {
            table: sorted(
                tuple(
                    repr(row[name])
                    for name in sorted(row, key=lambda one: (one == "metadata", one))
                )
                for row in self.database[table].find({"thread_id": thread_id}, self._kept())
            )
            for table in self.TABLES
        }

    def copy(self, thread_id: str, new_id: str, until: str = "~") -> None:
        for table in self.TABLES:
            found = self.database[table].find(
                {"thread_id": thread_id, "checkpoint_id": {"$lte": until}}, self._kept()
            )
            copies = [{**row, "thread_id": new_id} for row in found]
            if copies:
                self.database[table].insert_many(copies)

    def has_memory(self, thread_id: str) -> bool:
        found = self.database["checkpoints"].distinct("checkpoint_ns", {"thread_id": thread_id})
        return any(ns and ":" not in ns for ns in found)

    def forget(self, thread_id: str) -> None:
        self._saver.delete_thread(thread_id)

    def close(self) -> None:
        self.client.close()

    @staticmethod
    def _kept() -> dict[str, int]:
        return {"_id": 0, "thread_id": 0}


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
def mongodb_place(url: str) -> Iterator[MongoPlace]:
    place = MongoPlace(url)
    try:
        yield place
    finally:
        place.close()
