"""Baselines for the commands: only reading the same rows with the same driver.

Each is a program for `python -c` that takes the store's path. It parses a command line with Typer
if the budget includes the start of a command line.
"""

from __future__ import annotations

from pathlib import Path

NOTHING = "pass"
PARSED = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import typer_program
typer_program.parse()
"""
"""The start of a Typer program with the same kinds of options as `ckpt`."""
TYPER = "import typer"

_OPEN = """
import sqlite3, sys
store = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
"""
START = f"""
{PARSED}
{_OPEN}
store.execute("SELECT 1 FROM checkpoints LIMIT 1").fetchone()
"""

QUERY = f"""
{PARSED}
{_OPEN}
for row in store.execute(sys.argv[2]):
    pass
"""
"""Streams the rows of a query."""

WITH_INTERRUPTS = """
SELECT w.thread_id, w.value, c.checkpoint, c.metadata FROM (
    SELECT thread_id, max(checkpoint_id) AS head FROM checkpoints
    WHERE checkpoint_ns = '' GROUP BY thread_id
) h
JOIN writes w ON w.thread_id = h.thread_id AND w.checkpoint_id = h.head
     AND w.checkpoint_ns = '' AND w.channel = '__interrupt__'
JOIN checkpoints c ON c.thread_id = h.thread_id AND c.checkpoint_id = h.head
     AND c.checkpoint_ns = ''
"""
"""The open questions, with the rows of the heads at which they are."""

VALUES = f"""
{PARSED}
{_OPEN}
size = 0
for query in ("SELECT checkpoint FROM checkpoints", "SELECT value FROM writes"):
    for (body,) in store.execute(query):
        size += len(body or "")
print(size)
"""
"""Streams what a search through all values and writes must read."""

OFFICIAL_HISTORY = """
import sys
from time import perf_counter, process_time
sys.path.insert(0, sys.argv[2])
from langgraph.checkpoint.sqlite import SqliteSaver
from tests.bench.make_steps import built, config_of
kind = sys.argv[3]
with SqliteSaver.from_conn_string(sys.argv[1]) as saver:
    graph = built(saver, kind)
    next(iter(graph.get_state_history(config_of(kind), limit=1)))
    seconds, cpu = perf_counter(), process_time()
    for state in graph.get_state_history(config_of(kind)):
        pass
    print(perf_counter() - seconds, process_time() - cpu)
"""
"""The history of a thread of the store of states; tells what it took, without imports."""

_BY_THREAD = """
SELECT thread_id, min(checkpoint_id), max(checkpoint_id) AS newest, count(*)
FROM checkpoints GROUP BY thread_id ORDER BY newest DESC, thread_id
"""

NEWEST_THREADS = f"""
{PARSED}
{_OPEN}
for row in store.execute({_BY_THREAD!r} + "LIMIT 50"):
    print(*row)
"""

ALL_THREADS = f"""
{PARSED}
{_OPEN}
for row in store.execute({_BY_THREAD!r}):
    pass
"""

_HEAD = f"""
import ormsgpack
{_OPEN}
body, metadata = store.execute(
    "SELECT checkpoint, metadata FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ''"
    " ORDER BY checkpoint_id DESC LIMIT 1",
    [sys.argv[2]],
).fetchone()
ormsgpack.unpackb(body, ext_hook=lambda code, data: None)
"""
HEAD = f"{PARSED}\n{_HEAD}"

_HEADS = """
SELECT thread_id, max(checkpoint_id) AS id FROM checkpoints WHERE checkpoint_ns = '' GROUP BY 1
"""
_READ_HEADS = f"""
import ormsgpack
for body, metadata in store.execute('''
    SELECT checkpoint, metadata FROM ({_HEADS}) h CROSS JOIN checkpoints c
    ON c.thread_id = h.thread_id AND c.checkpoint_ns = '' AND c.checkpoint_id = h.id'''
):
    ormsgpack.unpackb(body, ext_hook=lambda code, data: None)
for row in store.execute('''
    SELECT w.* FROM ({_HEADS}) h CROSS JOIN writes w
    ON w.thread_id = h.thread_id AND w.checkpoint_ns = '' AND w.checkpoint_id = h.id'''
):
    pass
"""

KEYS_AND_HEADS = f"""
{PARSED}
{_OPEN}
for row in store.execute(
    "SELECT thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id FROM checkpoints"
):
    pass
for row in store.execute("SELECT DISTINCT thread_id, checkpoint_ns, checkpoint_id FROM writes"):
    pass
{_READ_HEADS}
"""
"""The keys of all checkpoints and writes, and the rows of each head."""

COMPARED_KEYS_AND_HEADS = f"""
{PARSED}
{_OPEN}
for row in store.execute('''
    SELECT c.thread_id FROM checkpoints c WHERE c.parent_checkpoint_id IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM checkpoints p WHERE p.thread_id = c.thread_id
                    AND p.checkpoint_ns = c.checkpoint_ns
                    AND p.checkpoint_id = c.parent_checkpoint_id)'''
):
    pass
for row in store.execute('''
    SELECT w.thread_id FROM writes w
    WHERE NOT EXISTS (SELECT 1 FROM checkpoints c WHERE c.thread_id = w.thread_id
                      AND c.checkpoint_ns = w.checkpoint_ns
                      AND c.checkpoint_id = w.checkpoint_id)'''
):
    pass
{_READ_HEADS}
"""
"""The same, but the engine compares the keys: missing parents, and writes without checkpoint."""
