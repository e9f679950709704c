"""Threads whose keys contradict each other are named, and no others, on each engine."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint

from ckpt_backends.model import make_id, ticks_at
from ckpt_backends.registry import open_store
from ckpt_backends.testing.harness import Harness
from tests.doctor.asking import findings
from tests.kit.command import first_now
from tests.kit.harness import HARNESSES
from tests.kit.opening import empty_store

KINDS = {kind.name: kind for kind in HARNESSES}
START = datetime(2026, 4, 7, 10, tzinfo=UTC)
FIRST, SECOND, THIRD, LOST = (
    make_id(ticks_at(START + timedelta(seconds=n)), n, 7) for n in (0, 2, 4, 1)
)
SOUND = {"whole", "twice", "tidy", "case"}
ENGINES = [
    *("sqlite", "postgres", "mysql", "three-table", "mongodb", "kaflow", "redis", "redis-hash"),
    *("redis-plain", "valkey", "valkey-agentcore", "agentcore", "dynamodb", "objectstorage"),
    *("cosmosdb", "firestore", "supabase", "kagent", "langgraph-dev"),
]
BY_STORING = {"three-table", "kaflow", "redis-plain", "valkey", "valkey-agentcore"}
"""The layouts whose head is what was stored last."""
WITHOUT_HEAD = {"kaflow", "three-table", "valkey-agentcore"}
"""The layouts in which writes alone name no thread."""
READ_WHOLE = {"kaflow", "redis-plain", "agentcore", "objectstorage", "cosmosdb", "firestore"}
"""The layouts of which any thread may be suspect."""


def put(saver: Any, thread_id: str, own: str, parent: str | None) -> None:
    config = {"thread_id": thread_id, "checkpoint_ns": ""}
    config |= {"checkpoint_id": parent} if parent is not None else {}
    metadata = {"source": "loop", "step": 1, "parents": {}}
    saver.put({"configurable": config}, {**empty_checkpoint(), "id": own}, metadata, {})


def write(saver: Any, thread_id: str, checkpoint_id: str) -> None:
    config = {"thread_id": thread_id, "checkpoint_ns": "", "checkpoint_id": checkpoint_id}
    saver.put_writes({"configurable": config}, [("plan", "value")], "task")


def fill(saver: Any, harness: Harness) -> dict[str, set[str]]:
    """Fill a store, and return the codes that are to be found, by thread."""
    for thread_id in (*SOUND, "childless", "orphaned"):
        put(saver, thread_id, FIRST, None)
        put(saver, thread_id, SECOND, FIRST)
        write(saver, thread_id, SECOND)
    put(saver, "twice", THIRD, FIRST)
    put(saver, "CASE", THIRD, SECOND)  # The parent is stored for another thread.
    put(saver, "childless", THIRD, LOST)
    found = {"CASE": {"parent-missing"}, "childless": {"parent-missing"}}
    only = "it's only: writes"
    only = only if harness.accepts_thread_id(only) else "only-writes"
    write(saver, "orphaned", LOST)
    write(saver, only, LOST)
    if harness.has_writes and not harness.values_only:
        found["orphaned"] = {"write-orphaned"}
        if harness.name not in WITHOUT_HEAD:
            found[only] = {"write-orphaned"}
    if not harness.values_only:
        put(saver, "late", SECOND, None)
        put(saver, "late", FIRST, SECOND)
        if harness.name not in BY_STORING:
            found["late"] = {"head-not-newest", "id-not-increasing"}
    return found


@pytest.mark.parametrize("name", first_now(ENGINES))
def test_only_threads_with_a_fault_are_suspect(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    with empty_store(KINDS[name], request, tmp_path) as harness:
        with harness.saver() as saver:
            expected = fill(saver, harness)
        with open_store(harness.url) as store:
            suspects = {*store.suspect_threads()}
        assert suspects >= expected.keys()
        assert name in READ_WHOLE or suspects.isdisjoint(SOUND)
        told: dict[str, set[str]] = {}
        for one in findings(harness.url, "--grace", "0s"):
            told.setdefault(one["thread_id"], set()).add(one["code"])
        assert told == expected
