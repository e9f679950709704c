"""An incident in a large store: see what broke and why, put it back, resume it, or take it back."""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.kit.agents.many import Agent, sqlite_agent
from tests.kit.command import ckpt
from tests.kit.rows import rows_of
from tests.many.conftest import DONE, fill, threads

FAILED, WAITING = 24, 40
STUCK = "status in (error, pending, interrupted)"
BROKEN = "status in (error, pending)"
CAUSES = {
    "raise": "ConnectionError('the server is down')",
    "inside": "ConnectionError('the hotel is full')",
    "beside": "ConnectionError('the card was declined')",
}


class Clock:
    """Measures the steps of a test, and prints them."""

    @contextmanager
    def measured(self, what: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        print(f"{what:<60} {time.perf_counter() - start:8.2f} s")


@pytest.mark.parametrize("number", [200, pytest.param(10_000, marks=pytest.mark.slow)])
def test_an_incident(tmp_path: Path, number: int) -> None:
    clock, path = Clock(), tmp_path / "agent.db"
    kinds = threads(FAILED, WAITING)
    with clock.measured(f"fill {number} threads"):
        fill(path, kinds, number - len(kinds))
    broken = {name for name, kind in kinds.items() if kind != "ask"}
    other = Path(shutil.copyfile(path, tmp_path / "official.db"))
    before = rows_of(path)

    with clock.measured("ckpt threads list, ckpt errors"):
        listed = ckpt("-s", path, "threads", "list", "--where", STUCK, "--all", "-o", "json").json
        errors = ckpt("-s", path, "errors", "-o", "json").json
    statuses = {"die": "pending", "ask": "interrupted"}
    assert {one["thread_id"]: one["status"] for one in listed} == {
        name: statuses.get(kind, "error") for name, kind in kinds.items()
    }
    assert {one["thread_id"]: one["error"] for one in errors} == {
        name: CAUSES[kind] for name, kind in kinds.items() if kind in CAUSES
    }

    words = ("-s", path, "rollback", "--where", BROKEN, "--last-good", "--yes", "-o", "ndjson")
    with clock.measured("ckpt rollback"):
        done = ckpt(*words)
    assert done.code == 0, done.err
    changed = {row[1] for row in before ^ rows_of(path)}
    assert changed == {name for name in broken if kinds[name] != "die"}
    with clock.measured("ckpt undo"):
        assert ckpt("-s", path, "undo", "--yes").code == 0
    assert rows_of(path) == before

    lines = [json.loads(line) for line in ckpt(*words).out.splitlines()]
    assert {one["thread_id"] for one in lines} == broken
    with sqlite_agent(path, is_mended=True) as agent:
        whole = log_of(agent, DONE)
        with clock.measured(f"resume {len(lines)} threads by LangGraph"):
            for one in lines:
                agent.graph.invoke(one["input"], {"configurable": one["configurable"]})
        assert all(log_of(agent, name) == whole for name in broken)
    after = rows_of(path)
    assert {row[1] for row in before ^ after} == broken
    rows = ckpt("-s", path, "threads", "list", "--all", "--long", "-o", "json").json
    now = Counter(one["status"] for one in rows)
    assert now == {"done": number - WAITING, "interrupted": WAITING}

    late = ckpt("-s", path, "undo", "--yes", "-o", "json")
    assert late.code in {5, 6}
    assert rows_of(path) == after
    assert ckpt("-s", path, "undo", "raise-0", "--yes").code == 0
    with sqlite_agent(path) as agent:
        assert agent.graph.get_state(config_of("raise-0")).next == ("close",)

    # LangGraph lists no threads, so that it is told them.
    names = [DONE, *kinds, *(f"done-{n}" for n in range(1, number - len(kinds)))]
    with sqlite_agent(other) as agent, clock.measured("put back by LangGraph's own API"):
        assert put_back_officially(agent, names) == broken


def config_of(thread_id: str) -> Any:
    return {"configurable": {"thread_id": thread_id}}


def log_of(agent: Agent, thread_id: str) -> list[str]:
    return list(agent.graph.get_state(config_of(thread_id)).values["log"])


def put_back_officially(agent: Agent, thread_ids: list[str]) -> set[str]:
    """Do the same without `ckpt`: read the state of each thread, and copy those that broke."""
    found = set()
    for one in thread_ids:
        state = agent.graph.get_state(config_of(one))
        has_failed = any(task.error for task in state.tasks)
        if has_failed:
            agent.graph.update_state(state.config, None, as_node="__copy__")
        if has_failed or (state.next and not state.interrupts):
            found.add(one)
    return found
