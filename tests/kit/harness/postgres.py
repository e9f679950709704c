"""PostgreSQL databases."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import psycopg
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.shallow import ShallowPostgresSaver

from ckpt_backends.testing.harness import Refusal, TestServer
from tests.kit.harness.sql import Shallow, SqlHarness
from tests.kit.servers import Server, postgres_database


class PostgresHarness(SqlHarness):
    """langgraph-checkpoint-postgres on a separate database."""

    name: ClassVar[str] = "postgres"
    server: ClassVar[str | None] = "postgres"
    official: ClassVar[Any] = PostgresSaver
    failing_scenarios: ClassVar[frozenset[str]] = frozenset({"zoo-floats", "zoo-text"})
    """JSONB has no NaN, and no text with a NUL."""
    scenario_errors: ClassVar[Refusal] = psycopg.DataError
    besides: ClassVar[tuple[str, ...]] = ("checkpoint_migrations",)
    """Tables without rows of threads."""
    as_text: ClassVar[str] = "{}::text"
    size_of_body: ClassVar[str] = "pg_column_size(checkpoint) + pg_column_size(metadata)"
    size_of_value: ClassVar[str] = "coalesce(octet_length(blob), 0)"

    def create(self, folder: Path, server: TestServer | None) -> str:
        assert isinstance(server, Server)
        return self.stack.enter_context(postgres_database(server))

    @cached_property
    def connection(self) -> Any:
        return self.stack.enter_context(
            psycopg.connect(
                self.url, autocommit=True, prepare_threshold=0, row_factory=psycopg.rows.dict_row
            )
        )

    @contextmanager
    def saver(self) -> Iterator[Any]:
        with self.official.from_conn_string(self.url) as saver:
            saver.setup()
            yield saver

    def fingerprint(self) -> object:
        query = "SELECT count(*), md5(string_agg(t::text, '|' ORDER BY t::text)) FROM {} t"
        return [self.run(query.format(name)) for name in (*self.TABLES, *self.besides)]

    def run(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        cursor = self.connection.execute(query.encode(), values)
        return [tuple(row.values()) for row in cursor.fetchall()] if cursor.description else []

    def columns(self, table: str) -> list[str]:
        found = self.run(
            "SELECT column_name FROM information_schema.columns WHERE table_name = %s"
            " AND column_name <> 'thread_id' ORDER BY ordinal_position",
            table,
        )
        return [name for (name,) in found]


class ShallowPostgresHarness(Shallow, PostgresHarness):
    name: ClassVar[str] = "postgres-shallow"
    official: ClassVar[Any] = ShallowPostgresSaver
