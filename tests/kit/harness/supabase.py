"""Tables of SupabaseSaver, in separate databases."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from postgrest.exceptions import APIError

from ckpt_backends.testing.harness import Refusal, StoredRows, TestServer
from tests.kit.harness.postgres import PostgresHarness
from tests.kit.savers.supabase import OrderedSaver, made, saver_on


class SupabaseHarness(PostgresHarness):
    """langgraph-checkpoint-supabase, on a server in the place of PostgREST."""

    TABLES: tuple[str, ...] = ("langgraph_checkpoints", "langgraph_checkpoint_writes")
    name: ClassVar[str] = "supabase"
    besides: ClassVar[tuple[str, ...]] = ()
    holds: ClassVar[Mapping[str, str]] = dict(zip(TABLES, ("checkpoints", "writes"), strict=True))
    size_of_body: ClassVar[str] = (
        "octet_length(checkpoint ->> 'data') + octet_length(metadata::text)"
    )
    size_of_value: ClassVar[str] = "octet_length(write ->> 'data')"
    values_as_text: ClassVar[bool] = True
    row_kinds: ClassVar[Mapping[str, str]] = dict(zip(TABLES, ("checkpoint", "write"), strict=True))
    failing_scenarios: ClassVar[frozenset[str]] = frozenset({"interrupt-twice-answered"})
    """The saver sends the first answer of a task twice with the second one, in one statement that
    PostgreSQL refuses. JSON and base64 hold what PostgreSQL's JSON cannot."""
    scenario_errors: ClassVar[Refusal] = APIError

    def create(self, folder: Path, server: TestServer | None) -> str:
        return made(super().create(folder, server))

    @contextmanager
    def saver(self) -> Iterator[Any]:
        with saver_on(self.url) as saver:
            yield saver

    def corrected_saver(self, saver: Any) -> Any:
        return OrderedSaver(saver.client)

    def rows(self, thread_id: str) -> StoredRows:
        columns = {
            self.TABLES[0]: "parent_checkpoint_id, checkpoint ->> 'type' AS tag,"
            " checkpoint ->> 'data' AS data, metadata::text, created_at",
            self.TABLES[1]: "task_id, idx, task_path, channel, write::text, created_at",
        }
        return {
            table: self.run(
                f"SELECT checkpoint_ns, checkpoint_id, {listed} FROM {table}"
                " WHERE thread_id = %s ORDER BY 1, 2, 3, 4",
                thread_id,
            )
            for table, listed in columns.items()
        }
