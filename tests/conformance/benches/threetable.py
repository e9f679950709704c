"""Three tables, in separate files and databases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

from tests.conformance.benches.bench import Bench
from tests.servers import Server, mysql_database, postgres_database
from tests.threetable import ThreeTableSaver, connected


class ThreeTableBench(Bench):
    """A hash and values for each checkpoint, on SQLite."""

    name: ClassVar[str] = "three-table"
    server: ClassVar[str | None] = None
    bare: ClassVar[bool] = True
    options: ClassVar[Mapping[str, Any]] = {"durability": "sync"}
    """A checkpoint takes the writes that are stored when it is put, so none may come late."""
    mangled: ClassVar[frozenset[str]] = frozenset(
        # The value of a DeltaChannel is stored only sometimes, and it cannot be distinguished from
        # a value that has not changed since.
        {"delta-often", "delta-rarely", "delta-reset", "delta-removed", "delta-stopped"}
        | {"delta-fork-often", "delta-fork-rarely", "delta-exit", "delta-exit-rarely"}
    )

    def __init__(self, folder: Path, server: Server | None) -> None:
        self._stack = ExitStack()
        self._url = self._made(folder, server)
        self._saver = ThreeTableSaver(self._url, latest=self.latest)

    def _made(self, folder: Path, server: Server | None) -> str:
        return str(folder / "store.db")

    @property
    def url(self) -> str:
        return self._url

    @contextmanager
    def saver(self) -> Iterator[Any]:
        yield self._saver

    def forget(self, saver: Any, thread_id: str) -> None:
        saver.delete_thread(thread_id)

    def fingerprint(self) -> object:
        with connected(self._url) as execute:
            return [
                sorted(map(repr, execute(f"SELECT * FROM {name}", []).fetchall()))
                for name in ("checkpoints", "checkpoint_writes", "checkpoint_blobs")
            ]

    def times(self, thread_id: str) -> tuple[datetime, datetime] | None:
        found = self._saver.times[thread_id]
        return min(found), max(found)

    def close(self) -> None:
        self._stack.close()


class LatestThreeTableBench(ThreeTableBench):
    """The hash of the namespace is used, so each put replaces the values."""

    name: ClassVar[str] = "three-table-latest"
    latest: ClassVar[bool] = True


_SOME = frozenset(
    {"linear", "chat", "subgraph", "fork-chat", "fork-update", "interrupt-nested", "reducers"}
    | {"zoo-text", "zoo-numbers", "with-metadata"}
)


class PostgresThreeTableBench(ThreeTableBench):
    """On PostgreSQL."""

    only: ClassVar[frozenset[str] | None] = _SOME

    name: ClassVar[str] = "three-table on postgres"
    server: ClassVar[str | None] = "postgres"

    def _made(self, folder: Path, server: Server | None) -> str:
        assert server is not None
        return self._stack.enter_context(postgres_database(server))


class MySQLThreeTableBench(ThreeTableBench):
    """On MariaDB, with the hash as bytes; ids are compared by their code points."""

    only: ClassVar[frozenset[str] | None] = _SOME

    name: ClassVar[str] = "three-table on mysql"
    server: ClassVar[str | None] = "mysql"

    def _made(self, folder: Path, server: Server | None) -> str:
        assert server is not None
        return self._stack.enter_context(mysql_database(server, "COLLATE utf8mb4_nopad_bin"))
