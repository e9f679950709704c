"""Make a store of threads with about a hundred checkpoints.

The threads are copies of two that the official saver wrote; one in five waits for an answer.
"""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Annotated
from uuid import UUID

from langchain_core.messages import AnyMessage
from langgraph.checkpoint.sqlite import SqliteSaver

from tests.bench.agent import State, ask, build
from tests.bench.clone import CHECKPOINTS, WRITES, Template
from tests.bench.make_store import insert, written

_LEAST = 100
"""Number of checkpoints of a thread, at least."""
_PERIOD = timedelta(days=90)
_WAITING = 5


def _from_last_human(old: list[AnyMessage], new: list[AnyMessage]) -> list[AnyMessage]:
    every = old + new
    return every[max(n for n, one in enumerate(every) if one.type == "human") :]


class OneTurn(State, total=False):
    """The same state, but only the messages of the last turn are kept."""

    messages: Annotated[list[AnyMessage], _from_last_human]


def make_long(path: Path, threads: int) -> None:
    """Make a store with this number of threads, written from the oldest to the newest."""
    seed = random.Random(4711)
    templates = {name: _template(number, name) for number, name in enumerate(("done", "approve"))}
    between = timedelta(seconds=_PERIOD.total_seconds() // threads)
    with written(path) as saver:
        for number in range(threads):
            thread_id = str(UUID(int=seed.getrandbits(128), version=4))
            template = templates["done" if number % _WAITING else "approve"]
            checkpoints, writes = template.copy(thread_id, (threads - number) * between)
            saver.conn.executemany(insert("checkpoints", CHECKPOINTS), checkpoints)
            saver.conn.executemany(insert("writes", WRITES), writes)


def _template(number: int, last: str) -> Template:
    with closing(sqlite3.connect(":memory:", check_same_thread=False)) as connection:
        saver = SqliteSaver(connection)
        saver.setup()
        graph = build(saver, OneTurn)
        triggers = {name: node.triggers for name, node in graph.nodes.items()}
        thread_id = str(UUID(int=number, version=4))
        count = "SELECT count(*) FROM checkpoints"
        turn = 0
        while connection.execute(count).fetchone()[0] < _LEAST - 6:
            ask(graph, thread_id, f"turn {turn}")
            turn += 1
        ask(graph, thread_id, last)
        return Template(connection, thread_id, triggers)
