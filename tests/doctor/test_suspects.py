"""Stores name the threads whose keys contradict each other, and no others."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint

from ckpt_backends.model import make_id, ticks_at
from ckpt_backends.registry import open_store
from tests.kit.command import first_now
from tests.kit.harness import HARNESSES
from tests.kit.opening import empty_store

KINDS = {kind.name: kind for kind in HARNESSES}
START = datetime(2026, 4, 7, 10, tzinfo=UTC)
FIRST, SECOND, THIRD, LOST = (
    make_id(ticks_at(START + timedelta(seconds=n)), n, 7) for n in (0, 2, 4, 1)
)


def put(saver: Any, thread_id: str, own: str, parent: str | None) -> None:
    config = {"thread_id": thread_id, "checkpoint_ns": ""}
    config |= {"checkpoint_id": parent} if parent is not None else {}
    metadata = {"source": "loop", "step": 1, "parents": {}}
    saver.put({"configurable": config}, {**empty_checkpoint(), "id": own}, metadata, {})


def write(saver: Any, thread_id: str, checkpoint_id: str) -> None:
    config = {"thread_id": thread_id, "checkpoint_ns": "", "checkpoint_id": checkpoint_id}
    saver.put_writes({"configurable": config}, [("plan", "value")], "task")


def fill(saver: Any) -> set[str]:
    """Fill a store, and return the threads to be named."""
    for thread_id in ("whole", "twice", "tidy", "case", "childless", "orphaned"):
        put(saver, thread_id, FIRST, None)
        put(saver, thread_id, SECOND, FIRST)
        write(saver, thread_id, SECOND)
    put(saver, "twice", THIRD, FIRST)
    put(saver, "CASE", THIRD, SECOND)  # The parent is stored for another thread.
    put(saver, "childless", THIRD, LOST)
    write(saver, "orphaned", LOST)
    write(saver, "it's only: writes", LOST)
    return {"CASE", "childless", "orphaned", "it's only: writes"}


ENGINES = ["sqlite", "postgres", "mysql", "three-table", "mongodb", "redis", "redis-hash", "valkey"]


@pytest.mark.parametrize("name", first_now([*ENGINES, "dynamodb", "langgraph-dev"]))
def test_only_threads_with_a_fault_are_suspect(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    with empty_store(KINDS[name], request, tmp_path) as harness:
        with harness.saver() as saver:
            suspects = fill(saver)
            if harness.values_only:
                # It orders by the time of storing, and stores writes with their checkpoint.
                suspects = {"CASE", "childless"}
            else:
                put(saver, "late", SECOND, None)
                put(saver, "late", FIRST, SECOND)
                suspects.add("late")
        with open_store(harness.url) as store:
            found = list(store.suspect_threads())
    assert sorted(found) == sorted(suspects)
