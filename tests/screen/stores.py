"""Stores on which the screen is opened."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from langgraph.checkpoint.base import CheckpointMetadata, empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.sqlite import SqliteSaver

from ckpt_backends.testing.official import config_of
from ckpt_backends.testing.scenarios import graphs

STEPS = 10_000
WRONG = 6_000
"""The number of the checkpoint from which `budget` is wrong."""
BUDGET_SET = 2_500
"""The number of the checkpoint where `budget` is first set to what is right."""
THREAD = "trip"


def budget_thread(store: Path) -> list[str]:
    """Write a thread of 10,000 checkpoints in which one step makes `budget` wrong.

    Return the ids of its checkpoints, oldest first.

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


def stored(path: Path, *updates: Mapping[str, object]) -> Path:
    """A store with one thread of some updates; items are added to those before."""
    with SqliteSaver.from_conn_string(str(path)) as saver:
        for one in updates:
            graphs.linear(saver).update_state(config_of("long"), one, as_node="read")
    return path


def many(path: Path, number: int) -> None:
    """A store of so many threads that are done, and a newest one in which a question waits."""
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graphs.linear(saver).invoke({"items": ["in"]}, config_of("done"))
        graphs.ask_alone(saver).invoke({"items": ["in"]}, config_of("newest"))
    with closing(sqlite3.connect(path)) as connection, connection:
        for table in ("checkpoints", "writes"):
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            rest = ", ".join(name for name in columns if name != "thread_id")
            connection.execute(
                f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
                f" INSERT INTO {table} (thread_id, {rest})"
                f" SELECT printf('user-%05d', i), {rest} FROM {table}, n WHERE thread_id = 'done'",
                [number],
            )
