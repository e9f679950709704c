"""`timeline` measures known sleeps, waits and retries of real graphs.

The bounds hold on a slow machine, too: a step takes at least as long as its node slept, and at most
as long as the calls around it.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from langgraph.types import Command, interrupt

import ckpt_cli
from ckpt_cli.queries import timeline as step_times
from tests.commands.words import refusals
from tests.kit.agents.small import Log, beside, chain, saver_of
from tests.kit.command import ckpt

CONFIG: Any = {"configurable": {"thread_id": "t"}}
GO: Any = {"log": ["go"]}
NAP = 0.1
"""Seconds that a node sleeps."""


def napping(name: str, naps: int = 1, *, asks: bool = False) -> Callable[[Any], Any]:
    """Return a node that sleeps, and perhaps asks a question before."""

    def node(state: Any) -> dict[str, Any]:
        answer = interrupt(f"{name}?") if asks else name
        time.sleep(naps * NAP)
        return {"log": [answer]}

    return node


@dataclass
class Job:
    """A thread of graphs on one store."""

    path: Path
    saver: Any

    def compiled(self, nodes: Mapping[str, Any], **options: Any) -> Any:
        return chain(Log, nodes).compile(checkpointer=self.saver, **options)

    def run(self, graph: Any, given: Any = GO, config: Any = CONFIG) -> float:
        """Run a graph; return how long that took."""
        began = time.time()
        graph.invoke(given, config, durability="sync")
        return time.time() - began

    def measured(self, **options: Any) -> dict[str, Any]:
        with ckpt_cli.open(str(self.path)) as store:
            found: dict[str, Any] = store["t"].timeline(**options).to_dict()
        return found

    def shown(self, *words: str) -> str:
        return ckpt("-s", self.path, "timeline", "t", *words).out


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    with saver_of(tmp_path / "agent.db") as saver:
        yield Job(tmp_path / "agent.db", saver)


def step(found: dict[str, Any], *nodes: str) -> dict[str, Any]:
    """Return the only step of these nodes."""
    one: dict[str, Any]
    (one,) = (one for one in found["steps"] if sorted(one["nodes"] or ()) == sorted(nodes))
    return one


def test_a_step_takes_as_long_as_its_node(job: Job) -> None:
    graph = job.compiled({"plan": napping("plan"), "write": napping("write", 2)})
    wall = job.run(graph)
    found = job.measured()
    assert NAP <= step(found, "plan")["seconds"] <= wall - 2 * NAP
    assert 2 * NAP <= step(found, "write")["seconds"] <= wall - NAP
    assert {one["kind"] for one in found["steps"][1:]} == {"run"}
    assert (found["waiting_seconds"], found["idle_seconds"], found["open"]) == (0.0, 0.0, None)
    assert found["seconds"] == pytest.approx(found["running_seconds"])
    assert found["nodes"]["write"]["runs"] == found["nodes"]["write"]["measured"] == 1
    assert "__start__" not in found["nodes"]
    *earlier, last = found["steps"]
    asked = job.measured(last=1)
    assert (asked["steps"], asked["left_out"]) == ([last], len(earlier))
    assert (asked["first_at"], asked["seconds"]) == (last["started_at"], last["seconds"])
    assert job.measured(since=last["ended_at"])["steps"] == [last]
    # The wait after a rollback is idle.
    ckpt("-s", job.path, "rollback", "t@~1", "--yes", code=0)
    opened = job.measured()["open"]
    assert (opened["kind"], opened["cause"], opened["nodes"]) == ("idle", "fork", ["write"])
    assert "nothing has run since" in job.shown()
    job.run(graph, None)
    last = job.measured()["steps"][-1]
    assert (last["nodes"], last["kind"], last["cause"]) == (["write"], "idle", "resume")
    assert "resumed after a pause" in job.shown()


def test_the_wait_for_an_answer_is_apart_from_work(job: Job) -> None:
    graph = job.compiled({"plan": napping("plan"), "ask": napping("ask", asks=True)})
    planning = job.run(graph)
    waiting = job.measured()
    assert (waiting["open"]["kind"], waiting["open"]["nodes"]) == ("human", ["ask"])
    assert waiting["waiting_seconds"] == 0.0
    assert "waiting for an answer since" in job.shown()
    time.sleep(3 * NAP)
    wall = job.run(graph, Command(resume="yes"))
    found = job.measured()
    asked = step(found, "ask")
    assert (asked["kind"], asked["cause"]) == ("human", "answer")
    assert 4 * NAP <= asked["waiting_seconds"] == asked["seconds"] == found["waiting_seconds"]
    assert step(found, "plan")["seconds"] <= found["running_seconds"] <= wall + planning
    assert (found["nodes"]["ask"]["runs"], found["nodes"]["ask"]["measured"]) == (1, 0)
    shown = job.shown()
    assert [one for one in ("█", "▒") if one not in shown] == []
    plain = job.shown("--ascii")
    assert ("█" in plain, "##" in plain) == (False, True)


def test_the_keys_tell_the_same_as_the_bodies(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = chain(Log, {"dig": napping("dig", 0), "ask": napping("ask", 0, asks=True)})
    # A stateful subgraph keeps its steps from call to call.
    inner = inner.compile(checkpointer=True)
    graph = job.compiled({"work": inner, "after": napping("after", 0)})
    job.run(graph)
    assert "work > ask" in job.shown()
    job.run(graph, Command(resume={one.id: "yes" for one in graph.get_state(CONFIG).interrupts}))
    assert "answered in " in job.shown()
    graph.update_state(CONFIG, {"log": ["by hand"]})
    job.run(graph)
    job.run(graph, Command(resume="yes"))
    bodies = job.measured()
    monkeypatch.setattr(step_times, "_SMALL", 0)
    assert job.measured() == bodies
    assert {"human", "idle", "run"} <= {one["kind"] for one in bodies["steps"]}
    around: Any = None
    for one in bodies["steps"]:
        around = around if one["depth"] else one
        if one["depth"]:
            assert (
                around["started_at"] <= one["started_at"] <= one["ended_at"] <= around["ended_at"]
            )
    assert bodies["nodes"]["work > dig"]["runs"] == 2


def test_a_retry_names_the_node_that_ran_again_and_its_pause_is_idle(job: Job) -> None:
    inner, tries = chain(Log, {"work": napping("work", 0)}).compile(), iter([1, 0])

    def fails(state: Any) -> Any:
        return {"log": inner.invoke(state)["log"][-1:] * (1 // (1 - next(tries)))}

    # What the other one had stored was applied.
    graph = beside(Log, {"fine": lambda _: {}, "fails": fails}).compile(checkpointer=job.saver)
    with pytest.raises(ZeroDivisionError):
        job.run(graph)
    job.run(graph, None)
    assert "fails failed, run again" in job.shown()
    inside = [one for one in job.measured()["steps"] if one["depth"]]
    assert [one["kind"] for one in inside] == ["idle", "run", "run"]


test_wrong_words_are_refused = refusals(
    ("timeline trip-to-kyoto --last 0", 2, "--last"),
    ("timeline trip-to-kyoto --since soon", 2, "'soon' is not a time"),
    ("timeline nobody", 3, "no thread 'nobody'"),
)
