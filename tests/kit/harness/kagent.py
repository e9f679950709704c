"""Tables of kagent, in separate databases.

kagent's saver and the service that it calls, rewritten as one saver without HTTP.

The saver is `KAgentCheckpointer` of kagent-langgraph 0.10.4, the service that of kagent 0.9.12
(`go/core/internal/httpserver/handlers/checkpoints.go`, `go/core/internal/database`). What is stored
and what is read back are the same. The original has asynchronous methods only.
"""

import json
import random
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar

import psycopg
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    CheckpointTuple,
    get_checkpoint_metadata,
)

from ckpt_backends.testing.harness import Harness, TestServer
from tests.kit.harness.listing import listed
from tests.kit.harness.postgres import PostgresHarness

USER = "admin@kagent.dev"
TABLES = """
    CREATE TABLE lg_checkpoint (
        user_id text NOT NULL, thread_id text NOT NULL, checkpoint_ns text NOT NULL DEFAULT '',
        checkpoint_id text NOT NULL, parent_checkpoint_id text, created_at timestamptz,
        updated_at timestamptz, deleted_at timestamptz, metadata text NOT NULL,
        checkpoint text NOT NULL, checkpoint_type text NOT NULL, version bigint NOT NULL DEFAULT 1,
        PRIMARY KEY (user_id, thread_id, checkpoint_ns, checkpoint_id));
    CREATE INDEX idx_lg_checkpoint_parent_checkpoint_id ON lg_checkpoint (parent_checkpoint_id);
    CREATE INDEX idx_lgcp_list ON lg_checkpoint (created_at);
    CREATE INDEX idx_lg_checkpoint_deleted_at ON lg_checkpoint (deleted_at);
    CREATE TABLE lg_checkpoint_write (
        user_id text NOT NULL, thread_id text NOT NULL, checkpoint_ns text NOT NULL DEFAULT '',
        checkpoint_id text NOT NULL, write_idx bigint NOT NULL, value text NOT NULL,
        value_type text NOT NULL, channel text NOT NULL, task_id text NOT NULL,
        created_at timestamptz, updated_at timestamptz, deleted_at timestamptz,
        PRIMARY KEY (user_id, thread_id, checkpoint_ns, checkpoint_id, write_idx));
    CREATE INDEX idx_lg_checkpoint_write_deleted_at ON lg_checkpoint_write (deleted_at);
"""
"""The tables as kagent's migrations make them."""
_OF_THREAD = "user_id = %s AND thread_id = %s AND deleted_at IS NULL"


def made(url: str) -> str:
    with psycopg.connect(url) as connection:
        connection.execute(TABLES)
    return url


def encoded(data: bytes) -> str:
    return b64encode(data).decode()


class KagentSaver(BaseCheckpointSaver[str]):
    """Stores and reads the same rows as kagent, and lists each checkpoint at its own address."""

    def __init__(self, connection: Any) -> None:
        super().__init__()
        self.connection = connection
        self._lock = Lock()

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        thread_id, user, ns = _place(config)
        tag, body = self.serde.dumps_typed(checkpoint)
        told = json.dumps(get_checkpoint_metadata(config, metadata)).encode()
        row = {"checkpoint": encoded(body), "checkpoint_type": tag, "version": checkpoint["v"]}
        row |= {"parent_checkpoint_id": config["configurable"].get("checkpoint_id")}
        with self._lock:
            key = user, thread_id, ns, checkpoint["id"]
            self._execute("lg_checkpoint", key, {**row, "metadata": encoded(told)})
        place = {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": checkpoint["id"]}
        return {"configurable": place}

    def put_writes(
        self, config: Any, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        thread_id, user, ns = _place(config)
        place = user, thread_id, ns, config["configurable"]["checkpoint_id"]
        with self._lock, self.connection.transaction():
            for idx, (channel, value) in enumerate(writes):
                tag, data = self.serde.dumps_typed(value)
                row = {"value": encoded(data), "value_type": tag}
                row |= {"channel": channel, "task_id": task_id}
                key = (*place, WRITES_IDX_MAP.get(channel, idx))
                self._execute("lg_checkpoint_write", key, row)

    def _execute(self, table: str, key: tuple[Any, ...], row: dict[str, Any]) -> None:
        names = ["user_id", "thread_id", "checkpoint_ns", "checkpoint_id", "write_idx"][: len(key)]
        columns = [*names, *row]
        changed = ", ".join(f"{name} = EXCLUDED.{name}" for name in row)
        self.connection.execute(
            f"INSERT INTO {table} ({', '.join(columns)}, created_at, updated_at)"
            f" VALUES ({', '.join(['%s'] * len(columns))}, NOW(), NOW())"
            f" ON CONFLICT ({', '.join(names)}) DO UPDATE SET {changed}, updated_at = NOW()",
            [*key, *row.values()],
        )

    def get_tuple(self, config: Any) -> CheckpointTuple | None:
        asked = {"checkpoint_ns": "", **config["configurable"]}
        own, found = asked.get("checkpoint_id"), self.list({"configurable": asked})
        return next((one for one in found if not own or one.checkpoint["id"] == own), None)

    def list(self, config: Any, **chosen: Any) -> Iterator[CheckpointTuple]:
        thread_id, user, ns = _place(config)
        # Without a namespace, the tests want those of all.
        is_one = "checkpoint_ns" in config["configurable"]
        only, values = ("checkpoint_ns = %s", [ns]) if is_one else ("true", [])
        query = (
            "SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id, checkpoint, metadata,"
            f" checkpoint_type FROM lg_checkpoint WHERE {_OF_THREAD} AND {only}"
            " ORDER BY checkpoint_ns, checkpoint_id DESC"
        )
        with self._lock:
            rows = self.connection.execute(query, [user, thread_id, *values]).fetchall()
        return listed((self._tuple(thread_id, user, row) for row in rows), **chosen)

    def _tuple(self, thread_id: str, user: str, row: Any) -> CheckpointTuple:
        ns, own, parent, body, metadata, tag = row
        place = {"thread_id": thread_id, "checkpoint_ns": ns}
        return CheckpointTuple(
            {"configurable": {**place, "checkpoint_id": own}},
            self.serde.loads_typed((tag, b64decode(body))),
            json.loads(b64decode(metadata)),
            {"configurable": {**place, "checkpoint_id": parent}} if parent else None,
            self._pending(self._writes([user, thread_id, ns, own])),
        )

    def _writes(self, place: Sequence[Any]) -> Sequence[Any]:
        query = (
            "SELECT task_id, channel, value_type, value FROM lg_checkpoint_write"
            f" WHERE {_OF_THREAD} AND checkpoint_ns = %s AND checkpoint_id = %s"
            " ORDER BY task_id, write_idx"
        )
        with self._lock:
            found: Sequence[Any] = self.connection.execute(query, place).fetchall()
        return found

    def _pending(self, writes: Sequence[Any]) -> Any:
        """The writes as the saver returns them: all with the task of the last one."""
        return self.loaded([(writes[-1][0], *one[1:]) for one in writes])

    def loaded(self, writes: Sequence[Any]) -> Any:
        return [
            (task, channel, self.serde.loads_typed((tag, b64decode(text))))
            for task, channel, tag, text in writes
        ]

    def get_next_version(self, current: Any, channel: Any) -> str:
        before = 0 if current is None else int(str(current).split(".", maxsplit=1)[0])
        return f"{before + 1:032}.{random.random():016}"

    def delete_thread(self, thread_id: str) -> None:
        """Mark the rows as deleted, as the service does when a user deletes a thread."""
        for table in ("lg_checkpoint_write", "lg_checkpoint"):
            query = f"UPDATE {table} SET deleted_at = NOW() WHERE {_OF_THREAD}"
            self.connection.execute(query, [USER, thread_id])


class CorrectedSaver(KagentSaver):
    """The saver with the task of each write that is stored."""

    _pending = KagentSaver.loaded


def _place(config: Any) -> tuple[str, str, str]:
    asked = config["configurable"]
    return asked["thread_id"], asked.get("user_id", USER), asked.get("checkpoint_ns", "")


@contextmanager
def saver_on(url: str) -> Iterator[Any]:
    with psycopg.connect(url, autocommit=True) as connection:
        yield KagentSaver(connection)


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
