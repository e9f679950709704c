"""PostgreSQL databases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, ClassVar

import psycopg

from tests.conformance.benches.bench import Bench, Refusal
from tests.servers import Server, postgres_database


class PostgresBench(Bench):
    """langgraph-checkpoint-postgres on a separate database."""

    name: ClassVar[str] = "postgres"
    server: ClassVar[str | None] = "postgres"
    refused: ClassVar[frozenset[str]] = frozenset({"zoo-floats", "zoo-text"})
    """JSONB has no NaN, and no text with a NUL."""
    refusal: ClassVar[Refusal] = psycopg.DataError

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
    """The saver that keeps only the newest checkpoint of each namespace."""

    name: ClassVar[str] = "postgres-shallow"
    has_history: ClassVar[bool] = False
    refused: ClassVar[frozenset[str]] = frozenset(
        {"fork-invoke", "fork-update", "fork-update-open", "fork-copy", "fork-chat"}
        | {"fork-subgraph", "delta-fork-often", "delta-fork-rarely"}
    )
    """There is no history to go back to."""
    refusal: ClassVar[Refusal] = StopIteration
    options: ClassVar[Mapping[str, Any]] = {"durability": "sync"}
    """A `put` removes the writes of all other checkpoints. If the graph does not wait for it, it
    may come late and remove the writes of the next checkpoint.
    """

    @contextmanager
    def saver(self) -> Iterator[Any]:
        from langgraph.checkpoint.postgres.shallow import ShallowPostgresSaver

        with ShallowPostgresSaver.from_conn_string(self._url) as saver:
            saver.setup()
            yield saver
