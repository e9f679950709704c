"""Make SQLite stores for the benchmark.

`make_large` makes copies of a few threads that the official saver wrote, `make_deep` three
threads of 10,000 checkpoints that the saver wrote itself: one run, many runs, and many runs with a
fork every 100 steps.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import UUID

from langgraph.checkpoint.sqlite import SqliteSaver

from tests.bench.agent import Short, ask, build, build_loop
from tests.bench.clone import CHECKPOINTS, WRITES, Template

DEEP = 10_000
"""Number of checkpoints of a deep thread."""
FORK_EVERY = 100
_PERIOD = timedelta(days=90)
"""The period over which the threads of the large store are spread."""
_TURNS = {"usual": ("one", "two"), "long": ("one", "two", "three"), "waiting": ("one", "approve")}
_MIX = ["usual"] * 15 + ["long"] * 2 + ["waiting"] * 3


def make_large(path: Path, threads: int) -> None:
    """Make a store with this number of threads, written from the oldest to the newest."""
    seed = random.Random(4711)
    mix = [*_MIX]
    seed.shuffle(mix)
    templates = _templates()
    between = timedelta(seconds=_PERIOD.total_seconds() // threads)
    with written(path) as saver:
        for n in range(threads):
            thread_id = str(UUID(int=seed.getrandbits(128), version=4))
            template = templates[mix[n % len(mix)]]
            checkpoints, writes = template.copy(thread_id, (threads - n - 1) * between)
            saver.conn.executemany(insert("checkpoints", CHECKPOINTS), checkpoints)
            saver.conn.executemany(insert("writes", WRITES), writes)


def make_deep(path: Path, steps: int = DEEP) -> None:
    """Make a store with three long threads: `loop`, `straight` and `forked`."""
    with written(path) as saver:
        config = {"configurable": {"thread_id": "loop"}, "recursion_limit": steps}
        build_loop(saver, steps - 2).invoke({"turns": 0}, config)
        graph, connection = build(saver, Short), saver.conn
        for turn in _while_short(connection, "straight", steps):
            ask(graph, "straight", f"turn {turn}")
        forked_at = 0
        for turn in _while_short(connection, "forked", steps):
            ask(graph, "forked", f"turn {turn}")
            if _count(connection, "forked") >= forked_at + FORK_EVERY:
                forked_at = _count(connection, "forked")
                _fork(graph, "forked")


def _templates() -> dict[str, Template]:
    with closing(sqlite3.connect(":memory:", check_same_thread=False)) as connection:
        graph = build(SqliteSaver(connection))
        triggers = {name: node.triggers for name, node in graph.nodes.items()}
        found = {}
        for n, (name, turns) in enumerate(_TURNS.items()):
            thread_id = str(UUID(int=n, version=4))
            for words in turns:
                ask(graph, thread_id, words)
            found[name] = Template(connection, thread_id, triggers)
        return found


def _fork(graph: Any, thread_id: str) -> None:
    """Go back some steps, to a checkpoint that is not a tip, and run on from there."""
    history = graph.get_state_history({"configurable": {"thread_id": thread_id}}, limit=14)
    earlier = next(one for one in islice(history, 10, None) if one.next)
    graph.invoke(None, earlier.config)


def _while_short(connection: sqlite3.Connection, thread_id: str, steps: int) -> Iterator[int]:
    turn = 0
    while _count(connection, thread_id) < steps:
        yield turn
        turn += 1


def _count(connection: sqlite3.Connection, thread_id: str) -> int:
    sql = "SELECT count(*) FROM checkpoints WHERE thread_id = ?"
    found: int = connection.execute(sql, [thread_id]).fetchone()[0]
    return found


@contextmanager
def written(path: Path) -> Iterator[SqliteSaver]:
    """Yield a new store, written as fast as possible; at the end the file is as the saver leaves
    it.
    """
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        saver = SqliteSaver(connection)
        saver.setup()
        for setting in ("journal_mode = OFF", "synchronous = OFF", "cache_size = -1000000"):
            connection.execute(f"PRAGMA {setting}")
        yield saver
        connection.commit()
        connection.execute("PRAGMA journal_mode = WAL")


def insert(table: str, columns: str) -> str:
    """Return the statement that adds a row."""
    marks = ", ".join("?" * (columns.count(",") + 1))
    return f"INSERT INTO {table} ({columns}) VALUES ({marks})"
