"""`ckpt grep` finds what no state has: questions, errors and writes that were never merged."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

from tests.kit.command import FIXTURES, ckpt


class State(TypedDict, total=False):
    plan: str
    price: str
    approved: bool
    booked: str


def search(state: State) -> Any:
    return {"price": f"price list of {state['plan']}"}


def approve(state: State) -> Any:
    return {"approved": interrupt({"question": f"approve the plan {state['plan']}?"})}


def booking(connection: sqlite3.Connection) -> Any:
    """Make a node that fails for Oslo once the two nodes beside it are stored: a failure ends the
    step, and with it the nodes that have not run yet.
    """

    def book(state: State) -> Any:
        if state["plan"] == "Oslo":
            sql = "SELECT count(*) FROM writes WHERE channel IN ('price', '__interrupt__')"
            end = time.monotonic() + 30
            while connection.execute(sql).fetchone() != (2,) and time.monotonic() < end:
                time.sleep(0.01)
            raise ValueError("the plan cannot be booked:\nno rooms in Oslo")
        return {"booked": state["plan"]}

    return book


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three nodes at once: in thread `open` one asks and one failed, `kyoto` went through."""
    path = tmp_path_factory.mktemp("grep") / "store.db"
    connection = sqlite3.connect(path, check_same_thread=False)
    graph = StateGraph(State)
    for node in (search, approve, booking(connection)):
        graph.add_node(node.__name__, node)
        graph.add_edge(START, node.__name__)
    agent: Any = graph.compile(checkpointer=SqliteSaver(connection))
    with pytest.raises(ValueError, match="no rooms"):
        agent.invoke({"plan": "Oslo"}, {"configurable": {"thread_id": "open"}})
    kyoto = {"configurable": {"thread_id": "kyoto"}}
    agent.invoke({"plan": "Kyoto"}, kyoto)
    agent.invoke(Command(resume=True), kyoto)
    for plan in ("Rome", "Rome again"):
        agent.invoke({"plan": plan}, {"configurable": {"thread_id": "dropped"}})
    connection.close()
    return path


def found(store: Path, *words: str) -> list[tuple[str, str | None, str, str]]:
    hits = ckpt("-s", store, "grep", *words, "-o", "json").json
    return [(hit["in"], hit["node"], hit["path"], hit["line"]) for hit in hits]


def test_a_question_is_found(store: Path) -> None:
    asked = ("question", "approve", "__interrupt__[0].value.question", "approve the plan Oslo?")
    assert asked in found(store, "approve the", "open")


def test_an_error_is_found(store: Path) -> None:
    ((place, node, path, text),) = found(store, "no rooms", "open")
    assert (place, node, path) == ("error", "book", "__error__")
    assert "no rooms in Oslo" in text


def test_a_write_that_waits_to_be_merged_is_found(store: Path) -> None:
    told = ("write", "search", "price", "price list of Oslo")
    assert found(store, "price list", "open") == [told]
    assert found(store, "price list", "open", "--head-only") == [told]
    assert found(store, "price list", "open", "--channel", "price") == [told]
    assert ckpt("-s", store, "grep", "price list", "open", "--channel", "booked").code == 1


def test_a_write_that_was_merged_is_found_once_as_a_value(store: Path) -> None:
    assert found(store, "price list", "kyoto") == [("value", None, "price", "price list of Kyoto")]


def test_a_write_that_a_new_input_discarded_is_found(store: Path) -> None:
    assert found(store, "price list of Rome$", "dropped") == [
        ("write", "search", "price", "price list of Rome")
    ]


def test_threads_are_named_or_matched(store: Path) -> None:
    def threads(*words: str) -> set[str]:
        answer = ckpt("-s", store, "grep", "plan|price", *words, "-o", "json")
        return {hit["thread_id"] for hit in answer.json}

    assert threads() == {"open", "kyoto", "dropped"}
    assert threads("open", "kyoto") == {"open", "kyoto"}
    assert threads("--match", "*o*") == {"open", "kyoto", "dropped"}
    assert threads("--match", "ky*") == {"kyoto"}
    missing = ckpt("-s", store, "grep", "plan", "open", "nosuch")
    assert (missing.code, missing.out) == (3, "")
    assert "no thread 'nosuch'" in missing.err
    assert ckpt("-s", store, "grep", "plan", "open", "--match", "*").code == 2


def test_no_question_or_error_leaks_when_values_are_redacted(store: Path) -> None:
    answer = ckpt("-s", store, "--redact", "grep", "Oslo", "-o", "json")
    assert {hit["in"] for hit in answer.json} == {"value", "write", "question", "error"}
    assert "Oslo" not in answer.out


def test_a_table_says_where_a_text_stands(store: Path) -> None:
    head, *lines = ckpt("-s", store, "grep", "no rooms", "-o", "table").out.splitlines()
    assert head.split() == ["THREAD", "REF", "IN", "NODE", "PATH", "TEXT"]
    assert lines[0].split()[2:4] == ["error", "book"]


def test_a_question_of_a_subgraph_is_told_once_with_the_node_that_asked(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "store.db", check_same_thread=False)
    inner, outer = StateGraph(State), StateGraph(State)
    inner.add_node("approve", approve)
    inner.add_edge(START, "approve")
    outer.add_node("review", inner.compile())
    outer.add_edge(START, "review")
    agent: Any = outer.compile(checkpointer=SqliteSaver(connection))
    agent.invoke({"plan": "Rome"}, {"configurable": {"thread_id": "t"}})
    connection.close()
    (hit,) = ckpt("-s", tmp_path / "store.db", "grep", "approve the plan", "-o", "json").json
    assert (hit["node"], hit["node_path"]) == ("approve", ["review", "approve"])
    assert hit["checkpoint_ns"].startswith("review:")
    shown = ckpt("-s", tmp_path / "store.db", "grep", "approve the plan", "-o", "table").out
    assert "review > approve" in shown


def test_hits_in_rebuilt_values_have_the_same_order_in_each_run() -> None:
    store = FIXTURES / "lg-1.2.22" / "store.db"
    line = [sys.executable, "-m", "ckpt_cli", "-s", str(store), "grep", "-F", "e", "delta-often"]
    answers = {
        subprocess.run(
            line, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(answers) == 1
