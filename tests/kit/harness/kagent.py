"""Tables of kagent, in separate databases."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from ckpt_backends.testing.harness import Harness, TestServer
from tests.kit.harness.postgres import PostgresHarness
from tests.kit.savers.kagent import CorrectedSaver, made, saver_on


class KagentHarness(PostgresHarness):
    """kagent's saver, which stores one write of each number with a checkpoint."""

    TABLES: tuple[str, ...] = ("lg_checkpoint", "lg_checkpoint_write")
    name: ClassVar[str] = "kagent"
    besides: ClassVar[tuple[str, ...]] = ()
    has_task_paths: ClassVar[bool] = False
    values_as_text: ClassVar[bool] = True
    row_kinds: ClassVar[Mapping[str, str]] = {
        "lg_checkpoint": "checkpoint",
        "lg_checkpoint_write": "write",
    }
    failing_scenarios: ClassVar[frozenset[str]] = frozenset()
    """JSON and base64 hold what PostgreSQL's JSON cannot."""
    rows, count = Harness.rows, Harness.count
    skipped_scenarios: ClassVar[frozenset[str]] = frozenset(
        # Of two parallel tasks, the one whose writes arrive last replaces those of the other.
        {"conditional", "fanout-send", "fanout-join", "defer", "odd-names", "odd-names-stopped"}
        | {"reducers", "command-goto", "functional", "durability-sync", "durability-async"}
        | {"interrupt-parallel", "interrupt-one-answered", "interrupt-sends", "error-parallel"}
        | {"durability-exit-error", "delta-often", "delta-rarely", "delta-reset", "delta-removed"}
        | {"delta-fork-often", "delta-fork-rarely", "delta-stopped"}
        # So does a task with those of the caller.
        | {"command-input", "delta-exit", "delta-exit-rarely"}
    )

    def create(self, folder: Path, server: TestServer | None) -> str:
        return made(super().create(folder, server))

    @contextmanager
    def saver(self) -> Iterator[Any]:
        with saver_on(self.url) as saver:
            yield saver

    def corrected_saver(self, saver: Any) -> Any:
        return CorrectedSaver(saver.connection)
