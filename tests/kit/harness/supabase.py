"""Tables of SupabaseSaver, in separate databases.

The tables of `SupabaseSaver`, and the saver on a server in the place of PostgREST.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import psycopg
from langgraph_checkpoint_supabase import SupabaseSaver
from postgrest.exceptions import APIError

from ckpt_backends.testing.harness import Harness, Refusal, TestServer
from tests.kit.harness.listing import EveryNamespace
from tests.kit.harness.postgres import PostgresHarness
from tests.kit.postgrest import serving_database

_Saver: Any = SupabaseSaver
"""Typed where it is installed; a subclass is checked alike everywhere."""
_WRITES = "langgraph_checkpoint_writes"

TABLES = """
    create table langgraph_checkpoints (
        thread_id text not null, checkpoint_ns text not null default '',
        checkpoint_id text not null, parent_checkpoint_id text, checkpoint jsonb not null,
        metadata jsonb not null default '{}'::jsonb, created_at timestamptz not null default now(),
        primary key (thread_id, checkpoint_ns, checkpoint_id));
    create table langgraph_checkpoint_writes (
        thread_id text not null, checkpoint_ns text not null default '',
        checkpoint_id text not null, task_id text not null, task_path text not null default '',
        idx integer not null, channel text not null, write jsonb not null,
        created_at timestamptz not null default now(),
        primary key (thread_id, checkpoint_ns, checkpoint_id, task_id, idx));
    create index langgraph_checkpoints_thread_idx
        on langgraph_checkpoints (thread_id, checkpoint_ns, checkpoint_id desc);
    create index langgraph_checkpoint_writes_lookup_idx
        on langgraph_checkpoint_writes (thread_id, checkpoint_ns, checkpoint_id);
"""
"""What `sql/schema.sql` of langgraph-checkpoint-supabase 0.1.0 makes, which its wheel lacks."""
_KEY = "e30.e30.e30"
"""Three empty parts, as the client's keys have."""


class SeeingSaver(EveryNamespace, _Saver):  # type: ignore[misc]
    """The official saver, whose `list` returns all namespaces if none is asked for."""

    def namespaces(self, config: Any) -> Iterable[str]:
        query = self.client.table("langgraph_checkpoints").select("checkpoint_ns")
        found = query.eq("thread_id", config["configurable"]["thread_id"]).execute().data
        return sorted({one["checkpoint_ns"] for one in found})


class OrderedSaver(SeeingSaver):
    """The saver with writes by task paths; the official one sorts them by task ids."""

    def get_tuple(self, config: Any) -> Any:
        return self._ordered(super().get_tuple(config))

    def list(self, config: Any, **options: Any) -> Iterator[Any]:
        yield from map(self._ordered, super().list(config, **options))

    def _ordered(self, found: Any) -> Any:
        if found is None or not found.pending_writes:
            return found
        query = self.client.table(_WRITES).select("task_id,task_path")
        for name, value in found.config["configurable"].items():
            query = query.eq(name, value)
        paths = {one["task_id"]: one["task_path"] for one in query.execute().data}
        writes = sorted(found.pending_writes, key=lambda one: (paths[one[0]], one[0]))
        return found._replace(pending_writes=writes)


class SupabaseHarness(PostgresHarness):
    """langgraph-checkpoint-supabase, on a server in the place of PostgREST."""

    TABLES: tuple[str, ...] = ("langgraph_checkpoints", "langgraph_checkpoint_writes")
    name: ClassVar[str] = "supabase"
    besides: ClassVar[tuple[str, ...]] = ()
    values_as_text: ClassVar[bool] = True
    row_kinds: ClassVar[Mapping[str, str]] = dict(zip(TABLES, ("checkpoint", "write"), strict=True))
    failing_scenarios: ClassVar[frozenset[str]] = frozenset({"interrupt-twice-answered"})
    """The saver sends the first answer of a task twice with the second one, in one statement that
    PostgreSQL refuses. JSON and base64 hold what PostgreSQL's JSON cannot."""
    scenario_errors: ClassVar[Refusal] = APIError
    rows, count = Harness.rows, Harness.count

    @cached_property
    def kept_saver(self) -> Any:
        return self.corrected_saver(self.stack.enter_context(self.saver()))

    def create(self, folder: Path, server: TestServer | None) -> str:
        url = super().create(folder, server)
        with psycopg.connect(url) as connection:
            connection.execute(TABLES)
        return url

    @contextmanager
    def saver(self) -> Iterator[Any]:
        with serving_database(self.url) as address:
            yield SeeingSaver.from_conn_info(url=address, key=_KEY)

    def corrected_saver(self, saver: Any) -> Any:
        return OrderedSaver(saver.client)
