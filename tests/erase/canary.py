"""A thread with a canary in all that the official saver stores of it, beside a neighbour."""

from __future__ import annotations

from typing import Any

from ckpt_backends.changes import Remains, Removal
from ckpt_backends.open_for_writing import open_writable
from ckpt_backends.registry import open_store
from ckpt_backends.testing.harness import Harness, StoredRows
from ckpt_backends.url import parse_url
from tests.kit.agents.steps import graph_of

CANARY = "canary8f3a"
"""Part of the thread's id, of its metadata, and of its values and writes."""
THREAD, OTHER = f"{CANARY}-thread", "neighbour"


def fill(harness: Harness) -> StoredRows:
    """Run a graph in two threads. Returns the rows of the neighbour."""
    with harness.saver() as saver:
        graph = graph_of(saver)
        for thread, text in ((THREAD, CANARY), (OTHER, "harmless")):
            config: Any = {
                "configurable": {"thread_id": thread},
                "metadata": {"user": f"{text} user"},
            }
            for number in (1, 2):
                graph.invoke({"items": [f"{text} {number}"]}, config)
    return harness.rows(OTHER)


def erase(url: str, *, rewrite: bool = False) -> Remains:
    """Erase the thread. Returns what the store says about it."""
    parsed = parse_url(url)
    with open_store(parsed) as store:
        thread = store.thread(THREAD)
        assert thread is not None
        writes = store.size(THREAD).writes
    removal = Removal(THREAD, thread.last_at, thread.checkpoints, writes)
    with open_writable(parsed) as writable:
        writable.begin_erasure()
        (removed,) = writable.remove([removal])
        assert not removed.skipped
        return writable.erase_remains(rewrite=rewrite)


def still_there(remains: Remains) -> list[str]:
    """Return the places that a later run, or one with `rewrite`, could erase."""
    return [one.place for one in remains.places if one.is_reachable or one.needs_rewrite]
