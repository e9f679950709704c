"""A thread of 10,000 checkpoints in which one step makes `budget` wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from langgraph.checkpoint.base import CheckpointMetadata, empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.sqlite import SqliteSaver

from ckpt_backends.testing.official import config_of

STEPS = 10_000
WRONG = 6_000
"""The number of the checkpoint from which `budget` is wrong."""
BUDGET_SET = 2_500
"""The number of the checkpoint where `budget` is first set to what is right."""
THREAD = "trip"


def fill(store: Path) -> list[str]:
    """Write the thread, and return the ids of its checkpoints, oldest first.

    Each step writes `budget`, as nodes that return the whole state do.
    """
    ids = []
    with SqliteSaver.from_conn_string(str(store)) as saver:
        saver.setup()
        saver.conn.execute("PRAGMA synchronous = OFF")
        saver.conn.execute("PRAGMA journal_mode = MEMORY")
        config: Any = config_of(THREAD)
        for number in range(STEPS):
            checkpoint = empty_checkpoint()
            checkpoint["id"] = str(uuid6(clock_seq=number))
            version = f"{number + 1:032}.0.5"
            budget = None if number < BUDGET_SET else 500 if number < WRONG else -40
            checkpoint["channel_values"] = {"budget": budget, "city": "Kyoto", "days": number}
            versions = {"budget": version, "city": f"{1:032}.0.5", "days": version}
            checkpoint["channel_versions"] = dict(versions)
            source: CheckpointMetadata = {"source": "loop", "step": number - 1, "parents": {}}
            if number == 0:
                source["source"] = "input"
            config = saver.put(config, checkpoint, source, dict(versions))
            task = f"{number:08}-0000-0000-0000-000000000000"
            saver.put_writes(config, [("days", number)], task, "~__pregel_pull, book")
            ids.append(checkpoint["id"])
    return ids
