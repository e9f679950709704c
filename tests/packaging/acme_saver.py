"""The saver of docs/develop/adapters.md: a SQLite file with the tables `states` and `results`."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, Self

from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
)

_SETUP = """
CREATE TABLE IF NOT EXISTS states (
    thread_id TEXT, checkpoint_ns TEXT, checkpoint_id TEXT, parent_id TEXT,
    type TEXT, body BLOB, metadata TEXT,
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id));
CREATE TABLE IF NOT EXISTS results (
    thread_id TEXT, checkpoint_ns TEXT, checkpoint_id TEXT, task_id TEXT, task_path TEXT,
    idx INTEGER, channel TEXT, type TEXT, value BLOB,
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx));
"""
_KEY = ("thread_id", "checkpoint_ns", "checkpoint_id")


class AcmeSaver(BaseCheckpointSaver[int]):
    """A saver for LangGraph in the form of its guide for authors of savers."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__()
        self._connection, self._lock = connection, threading.Lock()
        connection.executescript(_SETUP)

    @classmethod
    @contextmanager
    def from_path(cls, path: str) -> Iterator[Self]:
        with closing(
            sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        ) as connection:
            connection.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF")
            yield cls(connection)

    def _rows(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        with self._lock:
            return self._connection.execute(query, values).fetchall()

    def get_tuple(self, config: Any) -> CheckpointTuple | None:
        wanted = {"checkpoint_ns": "", **config["configurable"]}
        return next(self.list({"configurable": wanted}, limit=1), None)

    def list(
        self,
        config: Any,
        *,
        filter: Any = None,  # noqa: A002  (the name in LangGraph)
        before: Any = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        wanted = (config or {}).get("configurable", {})
        given = {name: wanted[name] for name in _KEY if wanted.get(name) is not None}
        where = " AND ".join(["true", *(f"{name} = ?" for name in given)])
        values = [*given.values()]
        if before is not None:
            where, values = f"{where} AND checkpoint_id < ?", [*values, get_checkpoint_id(before)]
        query = f"SELECT * FROM states WHERE {where} ORDER BY checkpoint_id DESC"
        found = 0
        for thread_id, ns, own, parent, tag, body, about in self._rows(query, values):
            metadata = json.loads(about)
            if any(metadata.get(name) != value for name, value in (filter or {}).items()):
                continue
            if limit is not None and found >= limit:
                return
            found += 1
            writes = self._rows(
                "SELECT task_id, channel, type, value FROM results"
                " WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"
                " ORDER BY task_path, task_id, idx",
                [thread_id, ns, own],
            )
            yield CheckpointTuple(
                _config(thread_id, ns, own),
                self.serde.loads_typed((tag, body)),
                metadata,
                _config(thread_id, ns, parent) if parent else None,
                [(task, name, self.serde.loads_typed((t, v))) for task, name, t, v in writes],
            )

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        place = config["configurable"]
        key = (place["thread_id"], place.get("checkpoint_ns", ""), checkpoint["id"])
        self._rows(
            "INSERT OR REPLACE INTO states VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                *(*key, place.get("checkpoint_id")),
                *self.serde.dumps_typed(checkpoint),
                json.dumps(get_checkpoint_metadata(config, metadata)),
            ],
        )
        return _config(*key)

    def put_writes(
        self, config: Any, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        place = config["configurable"]
        key = (place["thread_id"], place.get("checkpoint_ns", ""), place["checkpoint_id"])
        for number, (channel, value) in enumerate(writes):
            idx = WRITES_IDX_MAP.get(channel, number)
            self._rows(
                f"INSERT OR {'REPLACE' if idx < 0 else 'IGNORE'} INTO results"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [*key, task_id, task_path, idx, channel, *self.serde.dumps_typed(value)],
            )

    def delete_thread(self, thread_id: str) -> None:
        for table in ("states", "results"):
            self._rows(f"DELETE FROM {table} WHERE thread_id = ?", [thread_id])


def _config(*place: str) -> Any:
    return {"configurable": dict(zip(_KEY, place, strict=True))}
