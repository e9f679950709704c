"""Known sleeps, waits and retries of real graphs are what `timeline` measures.

The bounds hold on a slow machine, too: a step takes at least as long as its node slept, and at most
as long as the calls around it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import RetryPolicy

import ckpt_cli
from ckpt_cli.queries import timeline as step_times
from tests.kit.command import ckpt
from tests.measures.graphs import NAP, Clock, Command, beside, chain, spread

THREAD = "t"
CONFIG: Any = {"configurable": {"thread_id": THREAD}}
START: Any = {"notes": ["go"]}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.db"


@pytest.fixture
def saver(path: Path) -> Iterator[SqliteSaver]:
    with SqliteSaver.from_conn_string(str(path)) as found:
        yield found


@pytest.fixture
def clock() -> Clock:
    return Clock()


def invoke(graph: Any, given: Any, config: Any = CONFIG) -> float:
    """Run a graph; return how long that took."""
    began = time.time()
    graph.invoke(given, config, durability="sync")
    return time.time() - began


def measured(path: Path, **options: Any) -> dict[str, Any]:
    with ckpt_cli.open(str(path)) as store:
        found: dict[str, Any] = store[THREAD].timeline(**options).to_dict()
    return found


def step(found: dict[str, Any], *nodes: str) -> dict[str, Any]:
    """Return the only step of these nodes."""
    one: dict[str, Any]
    (one,) = (one for one in found["steps"] if sorted(one["nodes"] or ()) == sorted(nodes))
    return one


def test_a_step_takes_as_long_as_its_node(path: Path, saver: SqliteSaver, clock: Clock) -> None:
    wall = invoke(
        chain({"plan": clock.node("plan"), "write": clock.node("write", 2)}, saver=saver), START
    )
    found = measured(path)
    assert NAP <= step(found, "plan")["seconds"] <= wall - 2 * NAP
    assert 2 * NAP <= step(found, "write")["seconds"] <= wall - NAP
    assert {one["kind"] for one in found["steps"][1:]} == {"run"}
    assert (found["waiting_seconds"], found["idle_seconds"], found["open"]) == (0.0, 0.0, None)
    assert found["seconds"] == pytest.approx(found["running_seconds"])
    assert found["nodes"]["write"]["runs"] == found["nodes"]["write"]["measured"] == 1
    assert "__start__" not in found["nodes"]


def test_parallel_nodes_share_the_time_of_their_step(
    path: Path, saver: SqliteSaver, clock: Clock
) -> None:
    wall = invoke(beside({"fast": clock.node("fast"), "slow": clock.node("slow", 3)}, saver), START)
    found = measured(path)
    assert 3 * NAP <= step(found, "fast", "slow")["seconds"] <= wall
    assert found["nodes"]["fast"]["max"] == found["nodes"]["slow"]["max"]
    assert found["nodes"]["fast"]["shared"] == 1


def test_the_wait_for_an_answer_is_apart_from_work(
    path: Path, saver: SqliteSaver, clock: Clock
) -> None:
    graph = chain({"plan": clock.node("plan"), "ask": clock.node("ask", asks=True)}, saver=saver)
    invoke(graph, START)
    waiting = measured(path)
    assert (waiting["open"]["kind"], waiting["open"]["nodes"]) == ("human", ["ask"])
    assert waiting["waiting_seconds"] == 0.0
    time.sleep(3 * NAP)
    wall = invoke(graph, Command(resume="yes"))
    found = measured(path)
    asked = step(found, "ask")
    assert (asked["kind"], asked["cause"]) == ("human", "answer")
    assert 4 * NAP <= asked["waiting_seconds"] == asked["seconds"] == found["waiting_seconds"]
    assert step(found, "plan")["seconds"] <= found["running_seconds"] <= wall + clock.took("plan")
    assert (found["nodes"]["ask"]["runs"], found["nodes"]["ask"]["measured"]) == (1, 0)


def test_a_question_in_a_subgraph_leaves_the_work_around_it(
    path: Path, saver: SqliteSaver, clock: Clock
) -> None:
    inner = chain(
        {
            "before": clock.node("before"),
            "ask": clock.node("ask", asks=True),
            "after": clock.node("after"),
        }
    )
    graph = chain({"inner": inner}, saver=saver)
    invoke(graph, START)
    time.sleep(3 * NAP)
    invoke(graph, Command(resume="yes"))
    found = measured(path)
    outer = step(found, "inner")
    assert outer["kind"] == "human"
    assert 4 * NAP <= outer["waiting_seconds"] <= outer["seconds"] - 2 * NAP
    assert step(found, "before")["seconds"] >= NAP <= step(found, "after")["seconds"]
    assert [one["depth"] for one in found["steps"] if one["checkpoint_ns"]] == [1] * 5
    assert found["nodes"]["inner"]["measured"] == 1
    assert found["nodes"]["inner > before"]["max"] >= NAP
    assert found["nodes"]["inner"]["max"] <= outer["seconds"] - 4 * NAP


def test_parallel_subgraphs_lie_side_by_side(path: Path, saver: SqliteSaver, clock: Clock) -> None:
    inner = chain({"dig": clock.node("dig", 2)})
    wall = invoke(spread(inner, 2, saver), START)
    found = measured(path)
    outer = step(found, "work", "work")
    digs = [one for one in found["steps"] if one["nodes"] == ["dig"]]
    assert len(digs) == 2
    assert digs[0]["checkpoint_ns"] != digs[1]["checkpoint_ns"]
    for one in digs:
        assert 2 * NAP <= one["seconds"] <= outer["seconds"] <= wall
        assert outer["started_at"] <= one["started_at"] < one["ended_at"] <= outer["ended_at"]
    assert found["nodes"]["work > dig"]["runs"] == 2


def test_failed_attempts_of_a_retry_policy_are_inside(
    path: Path, saver: SqliteSaver, clock: Clock
) -> None:
    attempts = []

    def flaky(state: Any) -> Any:
        time.sleep(NAP)
        attempts.append(state)
        if len(attempts) < 3:
            raise ValueError("not yet")
        return {"notes": ["done"]}

    policy = RetryPolicy(initial_interval=0.01, jitter=False, max_attempts=3, retry_on=ValueError)
    policies = {"flaky": {"retry_policy": policy}}
    graph = chain({"plan": clock.node("plan"), "flaky": flaky}, saver=saver, policies=policies)
    invoke(graph, START)
    found = step(measured(path), "flaky")
    assert (found["kind"], found["cause"]) == ("run", None)
    assert found["seconds"] >= 3 * NAP


def test_a_retry_by_hand_is_a_pause(path: Path, saver: SqliteSaver, clock: Clock) -> None:
    attempts = []

    def broken(state: Any) -> Any:
        attempts.append(state)
        if len(attempts) < 2:
            raise ValueError("down")
        return {"notes": ["done"]}

    graph = chain({"plan": clock.node("plan"), "call": broken}, saver=saver)
    with pytest.raises(ValueError, match="down"):
        invoke(graph, START)
    assert measured(path)["open"]["kind"] == "idle"
    time.sleep(2 * NAP)
    invoke(graph, None)
    found = measured(path)
    again = step(found, "call")
    assert (again["kind"], again["cause"]) == ("idle", "retry")
    assert 2 * NAP <= again["seconds"] == found["idle_seconds"]
    assert found["nodes"]["call"]["measured"] == 0


def test_a_breakpoint_and_a_new_input_are_pauses(
    path: Path, saver: SqliteSaver, clock: Clock
) -> None:
    nodes = {"plan": clock.node("plan"), "write": clock.node("write")}
    graph = chain(nodes, saver=saver, interrupt_before=["write"])
    invoke(graph, START)
    time.sleep(NAP)
    invoke(graph, None)
    time.sleep(NAP)
    invoke(graph, START)
    found = measured(path)
    stopped = step(found, "write")
    assert (stopped["kind"], stopped["cause"]) == ("idle", "resume")
    assert stopped["seconds"] >= 2 * NAP
    _, turn = (one for one in found["steps"] if one["cause"] == "input")
    assert (turn["kind"], turn["nodes"]) == ("idle", [])
    assert turn["seconds"] >= NAP
    assert found["open"]["kind"] == "run"


def test_a_branch_that_was_left_is_not_counted(
    path: Path, saver: SqliteSaver, clock: Clock
) -> None:
    nodes = {"plan": clock.node("plan"), "write": clock.node("write", 3)}
    graph = chain(nodes, saver=saver)
    invoke(graph, START)
    (before,) = (one for one in graph.get_state_history(CONFIG) if one.next == ("write",))
    began = time.time()
    invoke(graph, None, before.config)
    wall = time.time() - began
    found = measured(path)
    assert 3 * NAP <= sum(one["seconds"] or 0.0 for one in found["steps"][3:]) <= wall + NAP
    assert found["running_seconds"] <= found["seconds"] - 3 * NAP
    with ckpt_cli.open(str(path)) as store:
        runs = {one["node"]: one["runs"] for one in store[THREAD].stats()["nodes"]}
        assert runs["write"] == 2
        assert store.stats()["threads"] == 1


def test_a_stateful_subgraph_is_inside_the_step_that_called_it(
    path: Path, saver: SqliteSaver, clock: Clock
) -> None:
    inner: Any = chain({"dig": clock.node("dig")}, saver=True)
    graph = chain({"keep": inner}, saver=saver)
    invoke(graph, START)
    time.sleep(NAP)
    invoke(graph, START)
    found = measured(path)
    outer = [one for one in found["steps"] if one["nodes"] == ["keep"]]
    digs = [one for one in found["steps"] if one["nodes"] == ["dig"]]
    assert len(outer) == len(digs) == 2
    for one, around in zip(digs, outer, strict=True):
        assert around["started_at"] <= one["started_at"] < one["ended_at"] <= around["ended_at"]
    assert found["nodes"]["keep > dig"]["runs"] == 2


def test_last_and_since_leave_out_earlier_steps(
    path: Path, saver: SqliteSaver, clock: Clock
) -> None:
    nodes = {"plan": clock.node("plan"), "write": clock.node("write")}
    invoke(chain(nodes, saver=saver), START)
    whole = measured(path)
    last = measured(path, last=1)
    assert last["steps"] == whole["steps"][-1:]
    assert last["left_out"] == len(whole["steps"]) - 1
    assert last["first_at"] == whole["steps"][-1]["started_at"]
    assert last["seconds"] == last["steps"][0]["seconds"]
    assert measured(path, since=whole["steps"][-1]["ended_at"])["steps"] == last["steps"]


def test_the_keys_tell_the_same_as_the_bodies(
    path: Path, saver: SqliteSaver, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = chain({"dig": clock.node("dig", 0), "ask": clock.node("ask", 0, asks=True)})
    graph = spread(inner, 2, saver)
    invoke(graph, START)
    questions = graph.get_state(CONFIG).interrupts
    invoke(graph, Command(resume={one.id: "yes" for one in questions}))
    graph.update_state(CONFIG, {"notes": ["by hand"]})
    invoke(graph, START)
    bodies = measured(path)
    monkeypatch.setattr(step_times, "_SMALL", 0)
    assert measured(path) == bodies
    assert {"human", "idle", "run"} <= {one["kind"] for one in bodies["steps"]}


def test_lines_show_bars_and_what_was_waited_for(
    path: Path, saver: SqliteSaver, clock: Clock
) -> None:
    inner = chain({"ask": clock.node("ask", asks=True)})
    graph = chain({"plan": clock.node("plan"), "inner": inner}, saver=saver)
    invoke(graph, START)
    shown = ckpt("-s", path, "timeline", THREAD)
    assert "waiting for an answer since" in shown.out
    assert "inner > ask" in shown.out
    invoke(graph, Command(resume="yes"))
    shown = ckpt("-s", path, "timeline", THREAD)
    assert "█" in shown.out
    assert "▒" in shown.out
    assert "answered in " in shown.out
    plain = ckpt("-s", path, "timeline", THREAD, "--ascii").out
    assert "█" not in plain
    assert "##" in plain


def test_the_wait_after_a_rollback_is_idle(path: Path, saver: SqliteSaver, clock: Clock) -> None:
    """Also where the state goes back to a fork of LangGraph's own, which is marked as resumed."""
    graph = chain({"plan": clock.node("plan"), "write": clock.node("write")}, saver=saver)
    invoke(graph, START)
    planned = next(one for one in graph.get_state_history(CONFIG) if one.next == ("write",))
    invoke(graph, None, planned.config)
    forked = next(
        one for one in graph.get_state_history(CONFIG) if one.metadata["source"] == "fork"
    )
    ref = f"{THREAD}@{forked.config['configurable']['checkpoint_id']}"
    assert ckpt("-s", str(path), "rollback", ref, "--yes").code == 0
    opened = measured(path)["open"]
    assert (opened["kind"], opened["cause"], opened["nodes"]) == ("idle", "fork", ["write"])
    assert "nothing has run since" in ckpt("-s", str(path), "timeline", THREAD).out
    time.sleep(5 * NAP)
    wall = invoke(graph, None)
    found = measured(path)
    last = found["steps"][-1]
    assert (last["nodes"], last["kind"], last["cause"]) == (["write"], "idle", "resume")
    assert found["open"] is None
    assert found["running_seconds"] <= clock.took("plan") + wall
    assert "resumed after a pause" in ckpt("-s", str(path), "timeline", THREAD).out


def test_a_subgraph_call_that_was_stopped_has_no_bar_of_a_run(
    path: Path, saver: SqliteSaver, clock: Clock
) -> None:
    stopped = {"first": True}

    def stop(_: Any) -> dict[str, Any]:
        if stopped.pop("first", False):
            raise KeyboardInterrupt
        return {"notes": ["went on"]}

    graph = chain({"inner": chain({"before": clock.node("before"), "stop": stop})}, saver=saver)
    with pytest.raises(KeyboardInterrupt):
        invoke(graph, START)
    time.sleep(3 * NAP)
    invoke(graph, None)
    (call,) = (
        text
        for text in ckpt("-s", str(path), "timeline", THREAD).out.splitlines()
        if "inner:" in text
    )
    assert "·" in call
    assert "█" not in call
    assert step(measured(path), "stop")["kind"] == "idle"


def test_a_pause_before_a_call_is_no_part_of_the_call(
    path: Path, saver: SqliteSaver, clock: Clock
) -> None:
    stopped = {"first": True}
    inner = chain({"work": clock.node("work")})

    def call(state: Any) -> Any:
        if stopped.pop("first", False):
            raise KeyboardInterrupt
        return {"notes": inner.invoke(state)["notes"][-1:]}

    graph = chain({"call": call}, saver=saver)
    with pytest.raises(KeyboardInterrupt):
        invoke(graph, START)
    time.sleep(3 * NAP)
    invoke(graph, None)
    inside = [one for one in measured(path)["steps"] if one["depth"]]
    assert [one["kind"] for one in inside] == ["idle", "run", "run"]
    assert inside[0]["seconds"] >= 3 * NAP


def test_a_retry_names_the_node_that_ran_again(path: Path, saver: SqliteSaver) -> None:
    """What the other one had stored was applied."""
    failing = {"first": True}

    def fail(_: Any) -> dict[str, Any]:
        if failing.pop("first", False):
            time.sleep(NAP)
            raise ValueError("not now")
        return {"notes": ["now"]}

    graph = beside({"fine": lambda _: {"notes": ["fine"]}, "fails": fail}, saver)
    with pytest.raises(ValueError, match="not now"):
        invoke(graph, START)
    invoke(graph, None)
    assert "fails failed, run again" in ckpt("-s", str(path), "timeline", THREAD).out
