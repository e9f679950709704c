"""Three tables, in separate files and databases."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from ckpt_backends.testing.harness import Harness, TestServer
from tests.kit.savers.three_table import ThreeTableSaver, connected
from tests.kit.servers import Server, mysql_database, postgres_database


class ThreeTableHarness(Harness):
    """A hash and values for each checkpoint, on SQLite."""

    name: ClassVar[str] = "three-table"
    values_only: ClassVar[bool] = True
    run_options: ClassVar[Mapping[str, Any]] = {"durability": "sync"}
    """A checkpoint takes the writes that are stored when it is put, so none may come late."""
    skipped_scenarios: ClassVar[frozenset[str]] = frozenset(
        # The value of a DeltaChannel is stored only sometimes, and it cannot be distinguished from
        # a value that has not changed since.
        {"delta-often", "delta-rarely", "delta-reset", "delta-removed", "delta-stopped"}
        | {"delta-fork-often", "delta-fork-rarely", "delta-exit", "delta-exit-rarely"}
    )

    def create(self, folder: Path, server: TestServer | None) -> str:
        return str(folder / "store.db")

    @cached_property
    def _saver(self) -> ThreeTableSaver:
        return ThreeTableSaver(self.url, latest=self.newest_values_only)

    @contextmanager
    def saver(self) -> Iterator[Any]:
        yield self._saver

    def forget(self, thread_id: str) -> None:
        self._saver.delete_thread(thread_id)

    def fingerprint(self) -> object:
        with connected(self.url) as execute:
            return [
                sorted(map(repr, execute(f"SELECT * FROM {name}", []).fetchall()))
                for name in ("checkpoints", "checkpoint_writes", "checkpoint_blobs")
            ]

    def times(self, thread_id: str) -> tuple[datetime, datetime] | None:
        found = self._saver.times[thread_id]
        return min(found), max(found)


class LatestThreeTableHarness(ThreeTableHarness):
    """The hash of the namespace is used, so each put replaces the values."""

    name: ClassVar[str] = "three-table-latest"
    newest_values_only: ClassVar[bool] = True


_SOME = frozenset(
    {"linear", "chat", "subgraph", "fork-chat", "fork-update", "interrupt-nested", "reducers"}
    | {"zoo-text", "zoo-numbers", "with-metadata"}
)


class PostgresThreeTableHarness(ThreeTableHarness):
    only_scenarios: ClassVar[frozenset[str] | None] = _SOME

    name: ClassVar[str] = "three-table on postgres"
    server: ClassVar[str | None] = "postgres"

    def create(self, folder: Path, server: TestServer | None) -> str:
        assert isinstance(server, Server)
        return self.stack.enter_context(postgres_database(server))


class MySQLThreeTableHarness(ThreeTableHarness):
    """On MariaDB, with the hash as bytes; ids are compared by their code points."""

    only_scenarios: ClassVar[frozenset[str] | None] = _SOME

    name: ClassVar[str] = "three-table on mysql"
    server: ClassVar[str | None] = "mysql"

    def create(self, folder: Path, server: TestServer | None) -> str:
        assert isinstance(server, Server)
        return self.stack.enter_context(mysql_database(server, "COLLATE utf8mb4_nopad_bin"))
