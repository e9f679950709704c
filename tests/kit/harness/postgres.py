"""PostgreSQL databases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import psycopg

from ckpt_backends.testing.counting import Count
from ckpt_backends.testing.harness import Harness, Refusal, StoredRows, TestServer
from tests.kit.harness.counting import HOLDS, sized
from tests.kit.servers import Server, postgres_database


class PostgresHarness(Harness):
    """langgraph-checkpoint-postgres on a separate database."""

    TABLES: tuple[str, ...] = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
    name: ClassVar[str] = "postgres"
    server: ClassVar[str | None] = "postgres"
    failing_scenarios: ClassVar[frozenset[str]] = frozenset({"zoo-floats", "zoo-text"})
    """JSONB has no NaN, and no text with a NUL."""
    scenario_errors: ClassVar[Refusal] = psycopg.DataError

    def create(self, folder: Path, server: TestServer | None) -> str:
        assert isinstance(server, Server)
        return self.stack.enter_context(postgres_database(server))

    @cached_property
    def connection(self) -> Any:
        """A connection of its own, open until the harness is closed."""
        return self.stack.enter_context(
            psycopg.connect(
                self.url, autocommit=True, prepare_threshold=0, row_factory=psycopg.rows.dict_row
            )
        )

    @contextmanager
    def saver(self) -> Iterator[Any]:
        from langgraph.checkpoint.postgres import PostgresSaver

        with PostgresSaver.from_conn_string(self.url) as saver:
            saver.setup()
            yield saver

    def fingerprint(self) -> object:
        names = ("checkpoints", "checkpoint_blobs", "checkpoint_writes", "checkpoint_migrations")
        with psycopg.connect(self.url) as connection:
            return [
                connection.execute(
                    f"SELECT count(*), md5(string_agg(t::text, '|' ORDER BY t::text)) FROM {name} t"
                ).fetchone()
                for name in names
            ]

    def rows(self, thread_id: str) -> StoredRows:
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

    def has_stateful_subgraph(self, thread_id: str) -> bool:
        found = self.connection.execute(
            f"SELECT 1 FROM {self.TABLES[0]} WHERE thread_id = %s AND checkpoint_ns > ''"
            " AND strpos(checkpoint_ns, ':') = 0".encode(),
            [thread_id],
        )
        return found.fetchone() is not None

    def forget(self, thread_id: str) -> None:
        for table in self.TABLES:
            self.connection.execute(
                f"DELETE FROM {table} WHERE thread_id = %s".encode(), [thread_id]
            )

    def _columns(self, table: str, cast: str = "") -> list[str]:
        found = self.connection.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_name = %s"
            " ORDER BY ordinal_position",
            [table],
        )
        names = [row["column_name"] for row in found]
        return [f"{name}{cast}" for name in names if name != "thread_id"]

    def count(self) -> Count:
        found = Count()
        with psycopg.connect(self.url) as connection:
            for table, query in sized("pg_column_size(checkpoint) + pg_column_size(metadata)"):
                ((rows, size),) = connection.execute(query.replace("`", '"').encode()).fetchall()
                found.add(table, HOLDS[table], int(size), rows)
        return found


class ShallowPostgresHarness(PostgresHarness):
    """The saver that keeps only the newest checkpoint of each namespace."""

    name: ClassVar[str] = "postgres-shallow"
    has_history: ClassVar[bool] = False
    failing_scenarios: ClassVar[frozenset[str]] = frozenset(
        {"fork-invoke", "fork-update", "fork-update-open", "fork-copy", "fork-chat"}
        | {"fork-subgraph", "delta-fork-often", "delta-fork-rarely"}
    )
    """There is no history to go back to."""
    scenario_errors: ClassVar[Refusal] = StopIteration
    run_options: ClassVar[Mapping[str, Any]] = {"durability": "sync"}
    """A `put` removes the writes of all other checkpoints. If the graph does not wait for it, it
    may come late and remove the writes of the next checkpoint.
    """

    @contextmanager
    def saver(self) -> Iterator[Any]:
        from langgraph.checkpoint.postgres.shallow import ShallowPostgresSaver

        with ShallowPostgresSaver.from_conn_string(self.url) as saver:
            saver.setup()
            yield saver
