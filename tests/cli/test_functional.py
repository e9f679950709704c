"""What `ckpt` tells of LangGraph's functional API: `@entrypoint` and `@task`."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

from tests.kit.command import FIXTURES, ckpt, copy_store


class State(TypedDict):
    text: str


def ask_research(saver: SqliteSaver) -> Any:
    """Tasks that call a subgraph, so that a namespace holds their names, and one that does not."""
    graph = StateGraph(State)
    graph.add_node("look", lambda state: {"text": state["text"].upper()})
    graph.add_edge(START, "look")
    graph.add_edge("look", END)
    inner = graph.compile(checkpointer=True)

    @task
    def research(topic: str) -> str:
        return str(inner.invoke({"text": topic})["text"])

    @task
    def shorten(text: str) -> str:
        return research(text).result()[:3]

    @task
    def count(text: str) -> int:
        return len(text)

    @entrypoint(checkpointer=saver)
    def flow(topic: str, *, previous: list[str] | None = None) -> Any:
        found = research(topic).result()
        short = shorten(topic).result()
        assert count(short).result() == 3
        return entrypoint.final(value=found + short, save=[*(previous or []), topic])

    return flow


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A thread that ran twice."""
    path = tmp_path_factory.mktemp("functional") / "store.db"
    connection = sqlite3.connect(path, check_same_thread=False)
    flow = ask_research(SqliteSaver(connection))
    for topic in ("tea", "coffee"):
        flow.invoke(topic, {"configurable": {"thread_id": "t"}})
    connection.close()
    return path


def test_the_memory_of_a_thread_is_shown(store: Path) -> None:
    shown = ckpt("-s", store, "show", "t", "-o", "table")
    assert "__previous__  saved for the next run" in shown.out
    values = ckpt("-s", store, "show", "t", "-o", "json").json["values"]
    assert values["__previous__"] == ["tea", "coffee"]


def test_the_memory_of_a_thread_is_compared_and_traced(store: Path) -> None:
    changes = ckpt("-s", store, "diff", "t", "~2", "-o", "json").json["channels"]
    assert "__previous__" in changes
    found = ckpt("-s", store, "blame", "t", "__previous__[-1]", "-o", "json").json
    assert (found["value"], found["by"], found["node"]) == ("coffee", "task", "flow")
    hits = ckpt("-s", store, "grep", "tea", "--channel", "__previous__", "-o", "json").json
    assert [one["path"] for one in hits] == ["__previous__[0]"]


def test_the_memory_of_a_thread_is_verified(store: Path) -> None:
    report = ckpt("-s", store, "replay", "t", "--verify", "-o", "json").json
    told = report["channels"]["__previous__"]
    assert (told["reducer"], told["mismatch"], told["unverifiable"]) == ("last_value", 0, 0)


def test_a_plan_says_what_becomes_of_the_memory(store: Path) -> None:
    plan = ckpt("-s", store, "rollback", "t@~2", "--dry-run", "-o", "table")
    assert plan.code == 0
    assert "__previous__" in plan.out


@pytest.mark.parametrize("paths", [True, False], ids=["with paths", "without paths"])
def test_a_task_is_named_where_its_id_proves_the_name(
    store: Path, tmp_path: Path, paths: bool
) -> None:
    path = copy_store(store, tmp_path)
    if not paths:
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE writes SET task_path = ''")
    tasks = ckpt("-s", path, "history", "t", "-o", "json").json[1]["tasks"]
    told = {one["path"]: one["node"] for one in tasks}
    caller = "~__pregel_pull, flow"
    first, second, third = (f"~__pregel_push, {caller}, {n:010d}, 0000000001" for n in range(3))
    assert told == {
        caller: "flow",
        first: "research",
        second: "shorten",
        f"~__pregel_push, {second}, 0000000000, 0000000001": "research",
        third: "count",  # Named by the body of the next checkpoint.
    }


OLD = ["lg-0.2.70", "js-0.2.74"]


@pytest.mark.parametrize("era", OLD)
def test_metadata_of_older_libraries_names_tasks(era: str, tmp_path: Path) -> None:
    path = copy_store(FIXTURES / era / "store.db", tmp_path)
    first = ckpt("-s", path, "history", "functional", "-o", "json").json[-1]
    assert sorted(one["node"] for one in first["tasks"]) == ["square"] * 3 + ["workflow"]
    # Of one that has not finished, the metadata of other threads tells the names.
    (asking,) = ckpt("-s", path, "history", "functional-asking", "-o", "json").json
    assert sorted(one["node"] for one in asking["tasks"]) == ["draft", "workflow"]


def ask_approval(saver: SqliteSaver) -> Any:
    """A question asked by a `@task` that another one calls."""

    @task
    def approve(text: str) -> Any:
        return interrupt(f"Send {text}?")

    @task
    def send(text: str) -> Any:
        return approve(text).result()

    @entrypoint(checkpointer=saver)
    def flow(text: str) -> Any:
        return send(text).result()

    return flow


def test_a_question_of_a_task_is_told_once(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    connection = sqlite3.connect(path, check_same_thread=False)
    flow = ask_approval(SqliteSaver(connection))
    config: RunnableConfig = {"configurable": {"thread_id": "t"}}
    flow.invoke("a letter", config)
    (asked,) = flow.get_state(config).interrupts
    # Nothing that is stored names a task before it has run once.
    assert questions(path) == [(asked.id, ["flow"])]
    flow.invoke(Command(resume=True), config)
    flow.invoke("a parcel", config)
    (asked,) = flow.get_state(config).interrupts
    connection.close()
    assert questions(path) == [(asked.id, ["flow", "send", "approve"])]
    shown = ckpt("-s", path, "show", "t", "-o", "table").out
    assert shown.count("question ") == 1
    assert f'Command(resume={{"{asked.id}": ...}})' in shown
    (row,) = ckpt("-s", path, "interrupts", "-o", "json").json
    assert (row["interrupt_id"], row["value"]) == (asked.id, "Send a parcel?")
    # Every command names the same node; of each run, only the entrypoint made a step.
    for words in (["show", "t"], ["interrupts"], ["history", "t"]):
        assert "flow > send > approve" in ckpt("-s", path, *words, "-o", "table").out
    made = [one["nodes"] for one in ckpt("-s", path, "history", "t", "-o", "json").json]
    assert [one for one in made if one] == [["flow"]]


def questions(path: Path) -> list[tuple[str, list[str]]]:
    """The open questions of the thread, as `show` tells them."""
    shown = ckpt("-s", path, "show", "t", "-o", "json").json["interrupts"]
    return [(one["interrupt_id"], one["path"]) for one in shown if not one["answered"]]
