"""Threads of earlier releases are migrated, and the newest library resumes them."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command

from ckpt_backends.testing.filling import quiet
from ckpt_backends.testing.scenarios.catalog import SCENARIOS
from tests.kit.command import FIXTURES, ckpt
from tests.kit.probing import written
from tests.kit.renaming import names_in, renamed

THREADS = (
    *("async-asking", "durability-exit-asking", "fork-update-open", "update-asking", "update-mid"),
    *("interrupt-nested", "interrupt-subgraph", "interrupt-sends", "interrupt-second", "error"),
    *("interrupt-one-answered", "interrupt-parallel", "breakpoint-after", "breakpoint-before"),
    *("breakpoint-subgraph", "error-parallel", "subgraph-error", "odd-names-stopped"),
)


def new(name: str) -> str:
    return f"new {name}"


def end(path: Path, thread: str, graph: Any) -> tuple[str, list[str]]:
    """The state in which a thread ends with each answer `yes`, and the nodes that ran.

    Those of one step end in any order.
    """
    config: Any = {"configurable": {"thread_id": thread}}
    ran: list[str] = []
    with quiet(), closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        agent = graph.compile(checkpointer=SqliteSaver(connection))
        for _ in range(8):
            state = agent.get_state(config)
            asked = [one.id for task in state.tasks for one in task.interrupts if not task.result]
            if not state.next:
                break
            given: Any = Command(resume=dict.fromkeys(asked, "yes")) if asked else None
            try:
                for one in agent.stream(given, config, stream_mode="updates", subgraphs=True):
                    ran += one[1]
            except Exception as error:
                ran.append(type(error).__name__)
        values = agent.get_state(config).values
    return repr(values).replace("new ", ""), sorted(one.removeprefix("new ") for one in ran)


@pytest.mark.parametrize("era", ["lg-0.6.11", pytest.param("lg-1.0.10", marks=pytest.mark.engines)])
@pytest.mark.parametrize("thread", THREADS)
def test_a_thread_of_an_earlier_release(thread: str, era: str, tmp_path: Path) -> None:
    kept, path = tmp_path / "kept.db", tmp_path / "s.db"
    for one in (kept, path):
        shutil.copyfile(FIXTURES / era / "store.db", one)
    old = SCENARIOS[thread].build(None).builder
    file = written(tmp_path / "new.json", renamed(old, new))
    names = [f"--rename-node={one}={new(one)}" for one in names_in(old)]
    done = ckpt("-s", path, "migrate", thread, "--to", file, *names, "--yes")
    assert (done.code, "migrated" in done.out) == (0, True), done.err
    assert end(path, thread, renamed(old, new)) == end(kept, thread, old)
