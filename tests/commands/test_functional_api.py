"""What commands tell of LangGraph's functional API: `@entrypoint` and `@task`."""

import sqlite3
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langgraph.func import entrypoint, task
from langgraph.types import Command, interrupt

from tests.kit.agents.small import chain, saver_of
from tests.kit.command import FIXTURES, ckpt, copy_store

CONFIG: Any = {"configurable": {"thread_id": "t"}}


class State(TypedDict):
    text: str


def ask_research(saver: Any) -> Any:
    """Tasks that call a subgraph, so that a namespace holds their names, and one that does not."""
    look = {"look": lambda state: {"text": state["text"].upper()}}
    inner = chain(State, look).compile(checkpointer=True)

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
    with saver_of(path) as saver:
        for topic in ("tea", "coffee"):
            ask_research(saver).invoke(topic, CONFIG)
    return path


def asked(store: Path, *words: str) -> Any:
    return ckpt("-s", store, *words, "-o", "json").json


def test_the_memory_of_a_thread_is_shown_compared_traced_and_verified(store: Path) -> None:
    shown = ckpt("-s", store, "show", "t", "-o", "table")
    assert "__previous__  saved for the next run" in shown.out
    assert asked(store, "show", "t")["values"]["__previous__"] == ["tea", "coffee"]
    assert "__previous__" in asked(store, "diff", "t", "~2")["channels"]
    found = asked(store, "blame", "t", "__previous__[-1]")
    assert (found["value"], found["by"], found["node"]) == ("coffee", "task", "flow")
    hits = asked(store, "grep", "tea", "--channel", "__previous__")
    assert [one["path"] for one in hits] == ["__previous__[0]"]
    told = asked(store, "replay", "t")["channels"]["__previous__"]
    assert (told["reducer"], told["mismatch"], told["unverifiable"]) == ("last_value", 0, 0)
    plan = ckpt("-s", store, "rollback", "t@~2", "--dry-run", "-o", "table")
    assert (plan.code, "__previous__" in plan.out) == (0, True)


@pytest.mark.parametrize("paths", [True, False], ids=["with paths", "without paths"])
def test_a_task_is_named_if_its_id_proves_it(store: Path, tmp_path: Path, paths: bool) -> None:
    path = copy_store(store, tmp_path)
    if not paths:
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE writes SET task_path = ''")
    tasks = asked(path, "history", "t")[1]["tasks"]
    caller = "~__pregel_pull, flow"
    first, second, third = (f"~__pregel_push, {caller}, {n:010d}, 0000000001" for n in range(3))
    assert {one["path"]: one["node"] for one in tasks} == {
        caller: "flow",
        first: "research",
        second: "shorten",
        f"~__pregel_push, {second}, 0000000000, 0000000001": "research",
        third: "count",  # Named by the body of the next checkpoint.
    }


@pytest.mark.parametrize("era", ["lg-0.2.70", "js-0.2.74"])
def test_metadata_of_older_libraries_names_tasks(era: str, tmp_path: Path) -> None:
    path = copy_store(FIXTURES / era / "store.db", tmp_path)
    first = asked(path, "history", "functional")[-1]
    assert sorted(one["node"] for one in first["tasks"]) == ["square"] * 3 + ["workflow"]
    # Of one that has not finished, the metadata of other threads tells the names.
    (asking,) = asked(path, "history", "functional-asking")
    assert sorted(one["node"] for one in asking["tasks"]) == ["draft", "workflow"]


def ask_approval(saver: Any) -> Any:
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


def test_a_question_of_a_task_is_told_once(path: Path) -> None:

    def questions() -> list[tuple[str, list[str]]]:
        shown = asked(path, "show", "t")["interrupts"]
        return [(one["interrupt_id"], one["path"]) for one in shown if not one["answered"]]

    with saver_of(path) as saver:
        flow = ask_approval(saver)
        flow.invoke("a letter", CONFIG)
        (first,) = flow.get_state(CONFIG).interrupts
        # Nothing that is stored names a task before it has run once.
        assert questions() == [(first.id, ["flow"])]
        flow.invoke(Command(resume=True), CONFIG)
        flow.invoke("a parcel", CONFIG)
        (second,) = flow.get_state(CONFIG).interrupts
    assert questions() == [(second.id, ["flow", "send", "approve"])]
    shown = ckpt("-s", path, "show", "t", "-o", "table").out
    assert shown.count("question ") == 1
    assert f'Command(resume={{"{second.id}": ...}})' in shown
    (row,) = asked(path, "interrupts")
    assert (row["interrupt_id"], row["value"]) == (second.id, "Send a parcel?")
    # Every command names the same node; of each run, only the entrypoint made a step.
    for words in (["show", "t"], ["interrupts"], ["history", "t"]):
        assert "flow > send > approve" in ckpt("-s", path, *words, "-o", "table").out
    made = [one["nodes"] for one in asked(path, "history", "t")]
    assert [one for one in made if one] == [["flow"]]
