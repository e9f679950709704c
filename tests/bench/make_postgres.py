"""Fill a PostgreSQL database with one long thread, and copies of two threads by the official saver.

The server makes the copies. What depends on a checkpoint's id changes with it: parents, the id and
time in the body, and the ids of tasks, which are hashed from it. Only an interrupt's id, also a
hash, stays the same as in the template.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt
from xxhash import xxh3_128_hexdigest

from tests.bench.agent import State
from tests.bench.clone import shifted

STEPS = 200
"""Number of checkpoints of a copied thread, unless another is asked for."""
DEEP = 10_000
"""Number of checkpoints of the thread `deep`."""
_PERIOD = timedelta(days=90)
_WAITING = 5
"""One of this number of threads waits for an answer."""
_TABLES = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
_COPIED = (
    """
    INSERT INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type,
                             checkpoint, metadata)
    SELECT to_thread, checkpoint_ns, to_id, to_parent, type,
           checkpoint || jsonb_build_object('id', to_id, 'ts', to_ts), metadata
    FROM copies JOIN template_checkpoints ON (thread_id, checkpoint_id) = (of_thread, of_id)
    ORDER BY to_id
    """,
    """
    INSERT INTO checkpoint_writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel,
                                   type, blob, task_path)
    SELECT to_thread, checkpoint_ns, to_id, to_task, idx, channel, type, blob, task_path
    FROM copies JOIN template_checkpoint_writes ON (thread_id, checkpoint_id) = (of_thread, of_id)
    ORDER BY to_id
    """,
    """
    INSERT INTO checkpoint_blobs (thread_id, checkpoint_ns, channel, version, type, blob)
    SELECT to_thread, checkpoint_ns, channel, version, type, blob
    FROM (SELECT of_thread, to_thread, min(to_id) AS first_id FROM copies GROUP BY 1, 2) threads
    JOIN template_checkpoint_blobs ON thread_id = of_thread ORDER BY first_id
    """,
)
"""Ordered by time, as a saver would have added the rows."""


def fill(url: str, threads: int, steps: int = STEPS, deep: int = DEEP) -> None:
    """Create the tables and their rows, and analyze them as autovacuum would do."""
    with PostgresSaver.from_conn_string(url) as saver:
        saver.setup()
        for thread_id, turns, waits in (
            ("done", steps - 2, False),
            ("waiting", steps - 2, True),
            ("deep", deep - 2, False),
        ):
            config: Any = {
                "configurable": {"thread_id": thread_id},
                "recursion_limit": max(deep, steps),
            }
            build(saver, turns, waits).invoke({"turns": 0}, config)
    with psycopg.connect(url) as connection:
        for table in _TABLES:
            template = f"template_{table}"
            connection.execute(
                f"CREATE TEMP TABLE {template} AS"
                f" SELECT * FROM {table} WHERE thread_id IN ('done', 'waiting');"
                f"DELETE FROM {table} WHERE thread_id IN ('done', 'waiting')".encode()
            )
        connection.execute(
            "CREATE TEMP TABLE copies (of_thread text, of_id text, to_thread text, to_id text,"
            " to_parent text, to_ts text, to_task text)"
        )
        templates = {name: _template(connection, name, steps) for name in ("done", "waiting")}
        with connection.cursor().copy("COPY copies FROM STDIN") as copy:
            for row in _copies(templates, threads):
                copy.write_row(row)
        connection.execute("ANALYZE copies; SET work_mem = '256MB'")
        for statement in _COPIED:
            connection.execute(statement.encode())
    with psycopg.connect(url, autocommit=True) as connection:
        for table in _TABLES:
            connection.execute(f"VACUUM (ANALYZE) {table}".encode())


def build(saver: PostgresSaver, turns: int, waits: bool) -> Any:
    """Build a graph with one node that runs `turns` times, and may end with a question."""

    def work(state: State) -> dict[str, Any]:
        turn = state.get("turns", 0)
        if turn == turns:
            interrupt({"question": "Go on?"})
        return {"turns": turn + 1, "found": [f"what turn {turn} has found"]}

    graph: Any = StateGraph(State)
    graph.add_node("work", work)
    graph.add_edge(START, "work")
    last = turns + waits
    graph.add_conditional_edges("work", lambda state: "work" if state["turns"] < last else END)
    return graph.compile(checkpointer=saver)


@dataclass(frozen=True, slots=True)
class _Step:
    """A checkpoint of a template, and the text that the next task's id is hashed from."""

    checkpoint_id: str
    parent: str | None
    ts: datetime
    hashed: str

    def task_at(self, checkpoint_id: str) -> str:
        digest = xxh3_128_hexdigest(UUID(checkpoint_id).bytes + self.hashed.encode())
        return str(UUID(digest))


def _template(connection: psycopg.Connection, thread_id: str, steps: int) -> list[_Step]:
    """Return the checkpoints of a thread, oldest first; asserts that its task ids are hashed
    this way.
    """
    found = []
    for checkpoint_id, parent, ts, step in connection.execute(
        "SELECT checkpoint_id, parent_checkpoint_id, checkpoint->>'ts', (metadata->>'step')::int"
        " FROM template_checkpoints WHERE thread_id = %s ORDER BY checkpoint_id",
        [thread_id],
    ):
        node, trigger = ("work", "branch:to:work") if step >= 0 else ("__start__", "__start__")
        hashed = f"{node}{step + 1}{node}__pregel_pull{trigger}"
        found.append(_Step(checkpoint_id, parent, datetime.fromisoformat(ts), hashed))
    tasks = connection.execute(
        "SELECT DISTINCT checkpoint_id, task_id FROM template_checkpoint_writes"
        " WHERE thread_id = %s",
        [thread_id],
    ).fetchall()
    assert len(found) == steps
    assert set(tasks) <= {(one.checkpoint_id, one.task_at(one.checkpoint_id)) for one in found}
    return found


def _copies(templates: dict[str, list[_Step]], threads: int) -> Iterator[Sequence[str | None]]:
    """Yield rows of `copies`: threads with random ids, each active at a different time."""
    seed = random.Random(4711)
    between = timedelta(seconds=_PERIOD.total_seconds() // threads)
    for n in range(threads):
        thread_id = str(UUID(int=seed.getrandbits(128), version=4))
        of_thread = "done" if n % _WAITING else "waiting"
        parent, earlier = None, (threads - n) * between
        for step in templates[of_thread]:
            new = shifted(step.checkpoint_id, earlier)
            ts = (step.ts - earlier).isoformat()
            task = step.task_at(new)
            yield of_thread, step.checkpoint_id, thread_id, new, step.parent and parent, ts, task
            parent = new
