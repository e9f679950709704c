"""A LangGraph saver that keeps checkpoints in a DuckDB file. It has no asynchronous methods."""

import json
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import Any

from langgraph.checkpoint import base

from ckpt_duckdb.store import KEY, connect

LIST = """SELECT * FROM checkpoints WHERE ($1 IS NULL OR thread_id = $1::VARCHAR)
    AND ($2 IS NULL OR checkpoint_ns = $2) AND ($3 IS NULL OR checkpoint_id = $3)
    AND ($4 IS NULL OR checkpoint_id < $4) ORDER BY checkpoint_id DESC LIMIT $5"""
WRITES = """SELECT task_id, channel, type, value FROM writes WHERE thread_id = ?
    AND checkpoint_ns = ? AND checkpoint_id = ? ORDER BY task_path, task_id, idx"""


class DuckDBSaver(base.BaseCheckpointSaver[int]):
    """Keeps checkpoints in a file. It connects for each call, so that others can read between."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path, self._lock = path, Lock()
        with self._lock, connect(path) as file:
            file.execute(Path(__file__).with_name("schema.sql").read_text())

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        thread_id, ns, parent = _place(config)
        key = (thread_id, ns or "", checkpoint["id"])
        about = json.dumps(base.get_checkpoint_metadata(config, metadata))
        row = (*key, parent, *self.serde.dumps_typed(checkpoint), about)
        with self._lock, connect(self._path) as file:
            file.execute("INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        return {"configurable": dict(zip(KEY, key, strict=True))}

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        thread_id, ns, checkpoint_id = _place(config)
        key = (thread_id, ns or "", checkpoint_id, task_id, task_path)
        other = "REPLACE" if all(name in base.WRITES_IDX_MAP for name, _ in writes) else "IGNORE"
        insert = f"INSERT OR {other} INTO writes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
        with self._lock, connect(self._path) as file:
            file.begin()
            for n, (name, value) in enumerate(writes):
                row = (*key, base.WRITES_IDX_MAP.get(name, n), name, *self.serde.dumps_typed(value))
                file.execute(insert, row)
            file.commit()

    def get_tuple(self, config: Any) -> base.CheckpointTuple | None:
        place = {"checkpoint_ns": "", **config["configurable"]}
        return next(self.list({"configurable": place}, limit=1), None)

    def list(
        self, config: Any, *, filter: Any = None, before: Any = None, limit: int | None = None
    ) -> Iterator[base.CheckpointTuple]:
        asked = (*_place(config), _place(before)[2], None if filter else limit)
        wanted = (filter or {}).items()
        with self._lock, connect(self._path) as file:
            rows = file.execute(LIST, asked).fetchall()
            found = [row for row in rows if wanted <= json.loads(row[-1]).items()][:limit]
            writes = [file.execute(WRITES, row[:3]).fetchall() for row in found]
        for (*key, parent, tag, body, about), rows in zip(found, writes, strict=True):
            own: Any = {"configurable": dict(zip(KEY, key, strict=True))}
            before = {"configurable": own["configurable"] | {"checkpoint_id": parent}}
            pending = [(*write, self.serde.loads_typed((tag, data))) for *write, tag, data in rows]
            one = base.CheckpointTuple(own, self.serde.loads_typed((tag, body)), json.loads(about))
            yield one._replace(parent_config=before if parent else None, pending_writes=pending)

    def delete_thread(self, thread_id: str) -> None:
        with self._lock, connect(self._path) as file:
            for table in ("checkpoints", "writes"):
                file.execute(f"DELETE FROM {table} WHERE thread_id = ?", (thread_id,))


def _place(config: Any) -> tuple[Any, Any, Any]:
    """Thread, namespace and checkpoint id, as far as `config` names them."""
    names = config["configurable"] if config else {}
    return names.get("thread_id"), names.get("checkpoint_ns"), names.get("checkpoint_id") or None
