"""Copy a SQLite store to PostgreSQL through LangGraph's savers: copying.py PATH URL."""

from __future__ import annotations

import sys
from collections import defaultdict
from typing import Any

from langgraph.checkpoint.postgres import PostgresSaver

from tests.doctor.strict_loading import opened

_JSONB_CANNOT_STORE = {"zoo-floats", "zoo-text"}


def main() -> None:
    path, url = sys.argv[1:]
    with opened(path) as source, PostgresSaver.from_conn_string(url) as target:
        target.setup()
        for one in reversed(list(source.list(None))):
            config: Any = one.parent_config or {"configurable": {**one.config["configurable"]}}
            if config["configurable"]["thread_id"] in _JSONB_CANNOT_STORE:
                continue
            if one.parent_config is None:
                del config["configurable"]["checkpoint_id"]
            versions = one.checkpoint["channel_versions"]
            stored = target.put(config, one.checkpoint, one.metadata, versions)
            writes: dict[str, list[Any]] = defaultdict(list)
            for task_id, channel, value in one.pending_writes or ():
                writes[task_id].append((channel, value))
            for task_id, some in writes.items():
                target.put_writes(stored, some, task_id)


if __name__ == "__main__":
    main()
