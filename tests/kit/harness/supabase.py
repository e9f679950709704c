"""Tables of SupabaseSaver, in separate databases."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from postgrest.exceptions import APIError

from ckpt_backends.testing.harness import Harness, Refusal, TestServer
from tests.kit.harness.postgres import PostgresHarness
from tests.kit.savers.supabase import OrderedSaver, made, saver_on


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

    def create(self, folder: Path, server: TestServer | None) -> str:
        return made(super().create(folder, server))

    @contextmanager
    def saver(self) -> Iterator[Any]:
        with saver_on(self.url) as saver:
            yield saver

    def corrected_saver(self, saver: Any) -> Any:
        return OrderedSaver(saver.client)
