"""`timeline` measures known sleeps, waits and retries of real graphs.

The bounds hold on a slow machine, too: a step takes at least as long as its node slept, and at most
as long as the calls around it.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from operator import add
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.types import Command, RetryPolicy, Send, interrupt

import ckpt_cli
from ckpt_cli.queries import timeline as step_times
from tests.commands.words import refusals
from tests.kit.agents.small import beside, chain, nested, saver_of
from tests.kit.command import ckpt

CONFIG: Any = {"configurable": {"thread_id": "t"}}
GO: Any = {"notes": ["go"]}
NAP = 0.1
"""Seconds that a node sleeps."""


class Notes(TypedDict, total=False):
    notes: Annotated[list[str], add]


def napping(name: str, naps: int = 1, *, asks: bool = False) -> Callable[[Any], Any]:
    """Return a node that sleeps, and perhaps asks a question before."""

    def node(state: Any) -> dict[str, Any]:
        answer = interrupt(f"{name}?") if asks else name
        time.sleep(naps * NAP)
        return {"notes": [answer]}

    return node


def failing(error: type[BaseException], *, times: int = 1) -> Callable[[Any], Any]:
    """Return a node that sleeps, and fails the first times."""
    attempts: list[object] = []

    def node(state: Any) -> dict[str, Any]:
        time.sleep(NAP)
        attempts.append(state)
        if len(attempts) <= times:
            raise error("not now")
        return {"notes": ["now"]}

    return node


@dataclass
class Job:
    """A thread of graphs on one store."""

    path: Path
    saver: Any

    def compiled(self, nodes: Mapping[str, Any], **options: Any) -> Any:
        return chain(Notes, nodes).compile(checkpointer=self.saver, **options)

    def spread(self, inner: Any) -> Any:
        """Compile a graph that calls another one twice in parallel."""
        graph = chain(Notes, {"plan": lambda _: {}}).add_node("work", inner)
        sends = [Send("work", {"notes": [str(n)]}) for n in range(2)]
        graph.add_conditional_edges("plan", lambda _: sends, ["work"])
        return graph.compile(checkpointer=self.saver)

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
    wall = job.run(job.compiled({"plan": napping("plan"), "write": napping("write", 2)}))
    found = job.measured()
    assert NAP <= step(found, "plan")["seconds"] <= wall - 2 * NAP
    assert 2 * NAP <= step(found, "write")["seconds"] <= wall - NAP
    assert {one["kind"] for one in found["steps"][1:]} == {"run"}
    assert (found["waiting_seconds"], found["idle_seconds"], found["open"]) == (0.0, 0.0, None)
    assert found["seconds"] == pytest.approx(found["running_seconds"])
    assert found["nodes"]["write"]["runs"] == found["nodes"]["write"]["measured"] == 1
    assert "__start__" not in found["nodes"]


def test_parallel_nodes_share_the_time_of_their_step(job: Job) -> None:
    graph = beside(Notes, {"fast": napping("fast"), "slow": napping("slow", 3)})
    wall = job.run(graph.compile(checkpointer=job.saver))
    found = job.measured()
    assert 3 * NAP <= step(found, "fast", "slow")["seconds"] <= wall
    assert found["nodes"]["fast"]["max"] == found["nodes"]["slow"]["max"]
    assert found["nodes"]["fast"]["shared"] == 1


def test_the_wait_for_an_answer_is_apart_from_work(job: Job) -> None:
    graph = job.compiled({"plan": napping("plan"), "ask": napping("ask", asks=True)})
    planning = job.run(graph)
    waiting = job.measured()
    assert (waiting["open"]["kind"], waiting["open"]["nodes"]) == ("human", ["ask"])
    assert waiting["waiting_seconds"] == 0.0
    time.sleep(3 * NAP)
    wall = job.run(graph, Command(resume="yes"))
    found = job.measured()
    asked = step(found, "ask")
    assert (asked["kind"], asked["cause"]) == ("human", "answer")
    assert 4 * NAP <= asked["waiting_seconds"] == asked["seconds"] == found["waiting_seconds"]
    assert step(found, "plan")["seconds"] <= found["running_seconds"] <= wall + planning
    assert (found["nodes"]["ask"]["runs"], found["nodes"]["ask"]["measured"]) == (1, 0)


def test_a_question_in_a_subgraph_leaves_the_work_around_it(job: Job) -> None:
    asking = {"ask": napping("ask", asks=True)}
    inner = chain(Notes, {"before": napping("before"), **asking, "after": napping("after")})
    graph = nested(Notes, inner, "inner").compile(checkpointer=job.saver)
    job.run(graph)
    time.sleep(3 * NAP)
    job.run(graph, Command(resume="yes"))
    found = job.measured()
    outer = step(found, "inner")
    assert outer["kind"] == "human"
    assert 4 * NAP <= outer["waiting_seconds"] <= outer["seconds"] - 2 * NAP
    assert step(found, "before")["seconds"] >= NAP <= step(found, "after")["seconds"]
    assert [one["depth"] for one in found["steps"] if one["checkpoint_ns"]] == [1] * 5
    assert found["nodes"]["inner"]["measured"] == 1
    assert found["nodes"]["inner > before"]["max"] >= NAP
    assert found["nodes"]["inner"]["max"] <= outer["seconds"] - 4 * NAP


def test_parallel_subgraphs_lie_side_by_side(job: Job) -> None:
    wall = job.run(job.spread(chain(Notes, {"dig": napping("dig", 2)}).compile()))
    found = job.measured()
    outer = step(found, "work", "work")
    digs = [one for one in found["steps"] if one["nodes"] == ["dig"]]
    assert len({one["checkpoint_ns"] for one in digs}) == len(digs) == 2
    for one in digs:
        assert 2 * NAP <= one["seconds"] <= outer["seconds"] <= wall
        assert outer["started_at"] <= one["started_at"] < one["ended_at"] <= outer["ended_at"]
    assert found["nodes"]["work > dig"]["runs"] == 2


def test_failed_attempts_of_a_retry_policy_are_inside(job: Job) -> None:
    policy = RetryPolicy(initial_interval=0.01, jitter=False, max_attempts=3, retry_on=ValueError)
    graph = chain(Notes, {"plan": napping("plan")})
    graph.add_node("flaky", failing(ValueError, times=2), retry_policy=policy)
    job.run(graph.add_edge("plan", "flaky").compile(checkpointer=job.saver))
    found = step(job.measured(), "flaky")
    assert (found["kind"], found["cause"]) == ("run", None)
    assert found["seconds"] >= 3 * NAP


def test_a_retry_by_hand_is_a_pause(job: Job) -> None:
    graph = job.compiled({"plan": napping("plan"), "call": failing(ValueError)})
    with pytest.raises(ValueError, match="not now"):
        job.run(graph)
    assert job.measured()["open"]["kind"] == "idle"
    time.sleep(2 * NAP)
    job.run(graph, None)
    found = job.measured()
    again = step(found, "call")
    assert (again["kind"], again["cause"]) == ("idle", "retry")
    assert 2 * NAP <= again["seconds"] == found["idle_seconds"]
    assert found["nodes"]["call"]["measured"] == 0


def test_a_breakpoint_and_a_new_input_are_pauses(job: Job) -> None:
    nodes = {"plan": napping("plan"), "write": napping("write")}
    graph = job.compiled(nodes, interrupt_before=["write"])
    for given in (GO, None, GO):
        job.run(graph, given)
        time.sleep(NAP)
    found = job.measured()
    stopped = step(found, "write")
    assert (stopped["kind"], stopped["cause"]) == ("idle", "resume")
    assert stopped["seconds"] >= 2 * NAP
    _, turn = (one for one in found["steps"] if one["cause"] == "input")
    assert (turn["kind"], turn["nodes"]) == ("idle", [])
    assert turn["seconds"] >= NAP
    assert found["open"]["kind"] == "run"


def test_a_branch_that_was_left_is_not_counted(job: Job) -> None:
    graph = job.compiled({"plan": napping("plan"), "write": napping("write", 3)})
    job.run(graph)
    (before,) = (one for one in graph.get_state_history(CONFIG) if one.next == ("write",))
    wall = job.run(graph, None, before.config)
    found = job.measured()
    assert 3 * NAP <= sum(one["seconds"] or 0.0 for one in found["steps"][3:]) <= wall + NAP
    assert found["running_seconds"] <= found["seconds"] - 3 * NAP
    with ckpt_cli.open(str(job.path)) as store:
        runs = {one["node"]: one["runs"] for one in store["t"].stats()["nodes"]}
        assert runs["write"] == 2
        assert store.stats()["threads"] == 1


def test_a_stateful_subgraph_is_inside_the_step_that_called_it(job: Job) -> None:
    graph = job.compiled({"keep": chain(Notes, {"dig": napping("dig")}).compile(checkpointer=True)})
    job.run(graph)
    time.sleep(NAP)
    job.run(graph)
    found = job.measured()
    outer = [one for one in found["steps"] if one["nodes"] == ["keep"]]
    digs = [one for one in found["steps"] if one["nodes"] == ["dig"]]
    assert len(outer) == len(digs) == 2
    for one, around in zip(digs, outer, strict=True):
        assert around["started_at"] <= one["started_at"] < one["ended_at"] <= around["ended_at"]
    assert found["nodes"]["keep > dig"]["runs"] == 2


def test_last_and_since_leave_out_earlier_steps(job: Job) -> None:
    job.run(job.compiled({"plan": napping("plan"), "write": napping("write")}))
    whole = job.measured()
    last = job.measured(last=1)
    assert (last["steps"], last["left_out"]) == (whole["steps"][-1:], len(whole["steps"]) - 1)
    assert last["first_at"] == whole["steps"][-1]["started_at"]
    assert last["seconds"] == last["steps"][0]["seconds"]
    assert job.measured(since=whole["steps"][-1]["ended_at"])["steps"] == last["steps"]


def test_the_keys_tell_the_same_as_the_bodies(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = chain(Notes, {"dig": napping("dig", 0), "ask": napping("ask", 0, asks=True)})
    graph = job.spread(inner.compile())
    job.run(graph)
    questions = graph.get_state(CONFIG).interrupts
    job.run(graph, Command(resume={one.id: "yes" for one in questions}))
    graph.update_state(CONFIG, {"notes": ["by hand"]})
    job.run(graph)
    bodies = job.measured()
    monkeypatch.setattr(step_times, "_SMALL", 0)
    assert job.measured() == bodies
    assert {"human", "idle", "run"} <= {one["kind"] for one in bodies["steps"]}


def test_lines_show_bars_and_what_was_waited_for(job: Job) -> None:
    asking = chain(Notes, {"ask": napping("ask", asks=True)}).compile()
    graph = job.compiled({"plan": napping("plan"), "inner": asking})
    job.run(graph)
    shown = job.shown()
    assert "waiting for an answer since" in shown
    assert "inner > ask" in shown
    job.run(graph, Command(resume="yes"))
    shown = job.shown()
    assert [one for one in ("█", "▒", "answered in ") if one not in shown] == []
    plain = job.shown("--ascii")
    assert ("█" in plain, "##" in plain) == (False, True)


def test_the_wait_after_a_rollback_is_idle(job: Job) -> None:
    """Also where the state goes back to a fork of LangGraph's own, which is marked as resumed."""
    graph = job.compiled({"plan": napping("plan"), "write": napping("write")})
    planning = job.run(graph)
    planned = next(it for it in graph.get_state_history(CONFIG) if it.next == ("write",))
    job.run(graph, None, planned.config)
    forked = next(it for it in graph.get_state_history(CONFIG) if it.metadata["source"] == "fork")
    ref = f"t@{forked.config['configurable']['checkpoint_id']}"
    assert ckpt("-s", job.path, "rollback", ref, "--yes").code == 0
    opened = job.measured()["open"]
    assert (opened["kind"], opened["cause"], opened["nodes"]) == ("idle", "fork", ["write"])
    assert "nothing has run since" in job.shown()
    time.sleep(5 * NAP)
    wall = job.run(graph, None)
    found = job.measured()
    last = found["steps"][-1]
    assert (last["nodes"], last["kind"], last["cause"]) == (["write"], "idle", "resume")
    assert found["open"] is None
    assert found["running_seconds"] <= planning - NAP + wall
    assert "resumed after a pause" in job.shown()


def test_a_subgraph_call_that_was_stopped_has_no_bar_of_a_run(job: Job) -> None:
    inner = chain(Notes, {"before": napping("before"), "stop": failing(KeyboardInterrupt)})
    graph = nested(Notes, inner, "inner").compile(checkpointer=job.saver)
    with pytest.raises(KeyboardInterrupt):
        job.run(graph)
    time.sleep(3 * NAP)
    job.run(graph, None)
    (call,) = (line for line in job.shown().splitlines() if "inner:" in line)
    assert ("·" in call, "█" in call) == (True, False)
    assert step(job.measured(), "stop")["kind"] == "idle"


def test_a_pause_before_a_call_is_no_part_of_the_call(job: Job) -> None:
    inner, stop = chain(Notes, {"work": napping("work")}).compile(), failing(KeyboardInterrupt)

    def call(state: Any) -> Any:
        stop(state)
        return {"notes": inner.invoke(state)["notes"][-1:]}

    graph = job.compiled({"call": call})
    with pytest.raises(KeyboardInterrupt):
        job.run(graph)
    time.sleep(3 * NAP)
    job.run(graph, None)
    inside = [one for one in job.measured()["steps"] if one["depth"]]
    assert [one["kind"] for one in inside] == ["idle", "run", "run"]
    assert inside[0]["seconds"] >= 3 * NAP


def test_a_retry_names_the_node_that_ran_again(job: Job) -> None:
    """What the other one had stored was applied."""
    nodes = {"fine": lambda _: {"notes": ["fine"]}, "fails": failing(ValueError)}
    graph = beside(Notes, nodes).compile(checkpointer=job.saver)
    with pytest.raises(ValueError, match="not now"):
        job.run(graph)
    job.run(graph, None)
    assert "fails failed, run again" in job.shown()


test_wrong_words_are_refused = refusals(
    ("timeline trip-to-kyoto --last 0", 2, "--last"),
    ("timeline trip-to-kyoto --since soon", 2, "'soon' is not a time"),
    ("timeline nobody", 3, "no thread 'nobody'"),
)
