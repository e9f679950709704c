"""PostgreSQL databases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from tests.travel.places.place import Rows


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


@contextmanager
def postgres_place(url: str) -> Iterator[PostgresPlace]:
    place = PostgresPlace(url)
    try:
        yield place
    finally:
        place.close()
