"""Three tables, in separate files and databases.

A saver with three tables in the published layout.

Task ids are names of nodes, writes are stored with the checkpoint that they went into, and values
under a hash. Graphs run on LangGraph's in-memory saver, since the tables do not contain what a
resume needs.
"""

import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar

import psycopg
from langgraph.checkpoint.memory import InMemorySaver

from ckpt_backends.testing.harness import Harness, TestServer
from tests.kit.command import program
from tests.kit.servers import Server, mysql_connection, mysql_database, postgres_database

Execute = Callable[[str, list[Any]], Any]
MARKS = {"sqlite": "?", "postgresql": "%s", "mysql": "%s"}
MAKER = program("fixtures/make/threetable.py")
_NODE = re.compile(r"~__pregel_pull, (.+)", re.DOTALL)


def engine_of(url: str) -> str:
    return url.partition(":")[0] if "://" in url else "sqlite"


@contextmanager
def connected(url: str) -> Iterator[Execute]:
    """Yield a function that runs statements on any engine; they are committed at the end."""
    if url.startswith("postgresql"):
        with psycopg.connect(url) as connection:
            yield lambda query, values: connection.execute(query.encode(), values)
    elif url.startswith("mysql"):
        with mysql_connection(url) as driver, driver.cursor() as cursor:

            def execute(query: str, values: list[Any]) -> Any:
                cursor.execute(query, values)
                return cursor

            yield execute
            driver.commit()
    else:
        with closing(sqlite3.connect(url, check_same_thread=False)) as file, file:
            yield file.execute


class ThreeTableSaver(InMemorySaver):
    """Records the checkpoints and writes of graphs that run on it."""

    def __init__(self, url: str, *, latest: bool) -> None:
        super().__init__()
        self._url = url
        self._latest = latest
        self._engine = engine_of(url)
        self._lock = Lock()
        self._pending: dict[tuple[str, str, str], list[tuple[Any, dict[str, Any]]]] = {}
        """Each with the order in which LangGraph applies it: parallel tasks have the same."""
        self._last = datetime.now(UTC)
        self.times: dict[str, list[datetime]] = {}
        if not (self._engine == "sqlite" and Path(url).exists()):
            with connected(url) as execute:
                if self._engine == "sqlite":
                    execute("PRAGMA journal_mode = WAL", [])
                MAKER.create(self._engine, execute)

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        configurable = config["configurable"]
        thread, ns = configurable["thread_id"], configurable.get("checkpoint_ns", "")
        parent = configurable.get("checkpoint_id")
        with self._lock:
            at = self._now()
            key = self._hash(thread, ns, checkpoint["id"])
            stamp = self._stored(at)
            self.times.setdefault(thread, []).append(at)
            rows: list[tuple[str, dict[str, Any]]] = []
            pending = self._pending.pop((thread, ns, parent or ""), [])
            pending.sort(key=lambda one: one[0])
            for place, (_, write) in enumerate(pending):
                made = self._stored(at + timedelta(milliseconds=place) - timedelta(seconds=1))
                named = {"checkpoint_id": checkpoint["id"], "checkpoint_ns_hash": key}
                rows.append(("checkpoint_writes", {**write, **named, "gmt_create": made}))
            for channel, value in checkpoint["channel_values"].items():
                tag, data = self.serde.dumps_typed(value)
                named = {"thread_id": thread, "checkpoint_ns_hash": key, "channel": channel}
                stored = {"version": 0, "type": tag, "blob_data": data}
                rows.append(("checkpoint_blobs", {**named, **stored}))
            named = {"checkpoint_id": checkpoint["id"], "parent_checkpoint_id": parent}
            named |= {"thread_id": thread, "checkpoint_ns": ns, "checkpoint_ns_hash": key}
            rows.append(("checkpoints", {**named, "gmt_create": stamp, "gmt_modified": stamp}))
            with connected(self._url) as execute:
                mark = MARKS[self._engine]
                if self._latest:
                    where = f"WHERE thread_id = {mark} AND checkpoint_ns_hash = {mark}"
                    execute(f"DELETE FROM checkpoint_blobs {where}", [thread, key])
                for table, row in rows:
                    MAKER.insert(execute, table, row, mark)
        return super().put(config, checkpoint, metadata, new_versions)

    def put_writes(
        self, config: Any, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        super().put_writes(config, writes, task_id, task_path)
        configurable = config["configurable"]
        thread, ns = configurable["thread_id"], configurable.get("checkpoint_ns", "")
        node = _NODE.fullmatch(task_path)
        with self._lock:
            pending = self._pending.setdefault((thread, ns, configurable["checkpoint_id"]), [])
            name = node[1] if node else task_id
            first = sum(one["task_id"] == name for _, one in pending)
            for idx, (channel, value) in enumerate(writes, first):
                tag, data = self.serde.dumps_typed(value)
                row = {"thread_id": thread, "task_id": name, "idx": idx, "channel": channel}
                row |= {"type": tag, "blob_data": data, "task_path": f"({ns!r},)" if ns else "()"}
                pending.append(((task_path, task_id, idx), row))

    def delete_thread(self, thread_id: str) -> None:
        super().delete_thread(thread_id)
        exactly = "BINARY " if self._engine == "mysql" else ""
        where = f"WHERE {exactly}thread_id = {MARKS[self._engine]}"
        with connected(self._url) as execute:
            for table in MAKER.TABLES:
                execute(f"DELETE FROM {table} {where}", [thread_id])

    def _hash(self, thread: str, ns: str, checkpoint_id: str) -> str | bytes:
        text = ns if self._latest else f"{thread}\0{ns}\0{checkpoint_id}"
        found: str | bytes = MAKER.hashed(self._engine, text)
        return found

    def _now(self) -> datetime:
        """Return the current time, at least a millisecond after the last call."""
        now = datetime.now(UTC)
        now = now.replace(microsecond=now.microsecond // 1000 * 1000)
        self._last = max(now, self._last + timedelta(milliseconds=1))
        self._last = self._last.replace(microsecond=self._last.microsecond // 1000 * 1000)
        return self._last

    def _stored(self, at: datetime) -> str | datetime:
        naive = at.replace(tzinfo=None)
        return naive.isoformat(" ", "milliseconds") if self._engine == "sqlite" else naive


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
