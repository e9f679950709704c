"""Failures, retries and questions of subgraphs, as `history`, `show` and `tail` print them."""

from __future__ import annotations

import operator
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Send, interrupt

from ckpt_backends.registry import open_store
from ckpt_cli.queries.tail import Tail
from tests.kit.command import ckpt

JOB: Any = {"configurable": {"thread_id": "job"}}


class Log(TypedDict):
    log: Annotated[list[str], operator.add]


@contextmanager
def saver(path: Path) -> Iterator[SqliteSaver]:
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        yield SqliteSaver(connection)


def charge(path: Path, value: Any, *, fails: bool) -> None:
    def step(state: Log) -> dict[str, Any]:
        if fails:
            raise TimeoutError("bank is down")
        return {"log": ["charged"]}

    graph = StateGraph(Log).add_node("charge", step).add_edge(START, "charge")
    with saver(path) as opened:
        graph.compile(checkpointer=opened).invoke(value, JOB)


@pytest.fixture
def retried(tmp_path: Path) -> Path:
    """A store with a thread in which a node failed, and then ran again."""
    path = tmp_path / "retried.db"
    with pytest.raises(TimeoutError):
        charge(path, {"log": []}, fails=True)
    charge(path, None, fails=False)
    return path


def ask(state: Log) -> dict[str, Any]:
    return {"log": [interrupt("go on?")]}


@pytest.fixture
def nested(tmp_path: Path) -> Path:
    """A store with a thread that waits for an answer two subgraphs down."""
    path = tmp_path / "nested.db"
    inner: Any = StateGraph(Log).add_node("ask", ask).add_edge(START, "ask").compile()
    middle: Any = StateGraph(Log).add_node("dig", inner).add_edge(START, "dig").compile()
    graph = StateGraph(Log).add_node("research", middle).add_edge(START, "research")
    with saver(path) as opened:
        graph.compile(checkpointer=opened).invoke({"log": []}, JOB)
    return path


def answer(path: Path) -> None:
    inner: Any = StateGraph(Log).add_node("ask", ask).add_edge(START, "ask").compile()
    middle: Any = StateGraph(Log).add_node("dig", inner).add_edge(START, "dig").compile()
    graph = StateGraph(Log).add_node("research", middle).add_edge(START, "research")
    with saver(path) as opened:
        graph.compile(checkpointer=opened).invoke(Command(resume="yes"), JOB)


def history(path: Path, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ckpt("-s", path, "history", "job", *words, "-o", "json").json
    return found


def test_history_names_the_nodes_that_ran(retried: Path) -> None:
    assert [one["nodes"] for one in history(retried)] == [["charge"], ["__start__"], []]
    # The last one shown has a parent that is not.
    assert [one["nodes"] for one in history(retried, "-n", "1")] == [["charge"]]


def test_history_marks_a_step_that_failed_and_was_retried(retried: Path) -> None:
    newest, failed, first = history(retried)
    assert (newest["marks"], failed["marks"], first["marks"]) == (["done"], ["retried"], [])
    table = ckpt("-s", retried, "history", "job", "-o", "table").out
    assert table.count("retried") == 1
    tree = ckpt("-s", retried, "show", "job", "--tree", "-o", "table").out
    assert "✗ charge: TimeoutError('bank is down')  (retried)" in tree


def test_tail_shows_a_failure_that_was_retried_between_two_looks(tmp_path: Path) -> None:
    path = tmp_path / "live.db"
    with saver(path) as opened:
        pending = StateGraph(Log).add_node("charge", ask).add_edge(START, "charge")
        graph = pending.compile(checkpointer=opened, interrupt_before=["charge"])
        graph.invoke({"log": []}, JOB)
    with open_store(str(path)) as store:
        tail = Tail(store, "job", None, all_ns=False)
        (head,) = tail.last(1)
        assert head.moment.status == "pending"
        with pytest.raises(TimeoutError):
            charge(path, None, fails=True)
        charge(path, None, fails=False)
        failed, done = tail.new()
    assert failed.moment.key == head.moment.key
    assert failed.moment.step.tasks[0].error == "TimeoutError('bank is down')"
    assert (done.moment.status, done.nodes) == ("done", ("charge",))


def test_a_question_has_one_name_everywhere(nested: Path) -> None:
    name, path = "research > dig > ask", ["research", "dig", "ask"]
    (asked,) = ckpt("-s", nested, "interrupts", "-o", "json").json
    assert (asked["node"], asked["path"]) == ("ask", path)
    found = ckpt("-s", nested, "show", "job", "-o", "json").json
    assert [one["path"] for one in found["interrupts"]] == [path]
    assert [one["node"] for one in found["interrupts"]] == ["ask"]
    assert (found["next"], found["next_paths"]) == (["research"], [path])
    assert history(nested)[0]["next_paths"] == [path]
    for words in (
        ["interrupts"],
        ["show", "job"],
        ["history", "job"],
        ["show", "job", "--tree"],
        ["show", "job", "--tree", "--all-ns"],
    ):
        assert name in ckpt("-s", nested, *words, "-o", "table").out, words


def test_an_answered_question_keeps_its_name(nested: Path) -> None:
    answer(nested)
    assert ckpt("-s", nested, "interrupts", "-o", "json").json == []
    (asked,) = [one for entry in history(nested) for one in entry["interrupts"]]
    assert (asked["answered"], asked["path"]) == (True, ["research", "dig", "ask"])


def test_the_tree_shows_a_question_of_a_subgraph_once(nested: Path) -> None:
    found = ckpt("-s", nested, "show", "job", "--tree", "--all-ns", "-o", "table").out
    assert found.count("go on?") == 1


def test_an_error_names_the_node_of_the_subgraph_that_failed(tmp_path: Path) -> None:
    path = tmp_path / "deep.db"

    def crash(state: Log) -> dict[str, Any]:
        raise ValueError("no stock\nsee the log")

    inner: Any = StateGraph(Log).add_node("crash", crash).add_edge(START, "crash").compile()
    graph = StateGraph(Log).add_node("research", inner).add_edge(START, "research")
    with saver(path) as opened, pytest.raises(ValueError, match="no stock"):
        graph.compile(checkpointer=opened).invoke({"log": []}, JOB)
    (task,) = ckpt("-s", path, "show", "job", "-o", "json").json["tasks"]
    assert task["failed_in"] == ["research", "crash"]
    shown = ckpt("-s", path, "show", "job", "-o", "table").out
    assert "research > crash: ValueError('no stock ⏎ see the log')\n" in shown
    assert "graph.invoke(None, config)" in shown


def test_repeated_nodes_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "many.db"

    def fan_out(state: Log) -> list[Send]:
        return [Send("search", {"log": []})] * 3

    def search(state: Log) -> dict[str, Any]:
        return {"log": ["found"]}

    graph = StateGraph(Log).add_node("search", search).add_conditional_edges(START, fan_out)
    with saver(path) as opened:
        graph.compile(checkpointer=opened).invoke({"log": []}, JOB)
    newest, before = history(path)[:2]
    assert (newest["nodes"], before["next"]) == (["search"] * 3, ["search"] * 3)
    table = ckpt("-s", path, "history", "job", "-o", "table").out.splitlines()
    assert [row.count("search ×3") for row in table] == [0, 1, 1, 0]
    assert "search ×3" in ckpt("-s", path, "show", "job@~1", "-o", "table").out
