"""`ckpt repair writes` drops an answer that LangGraph would give to the next question."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from ckpt_backends.errors import Refused
from ckpt_backends.model import NULL_TASK_ID
from ckpt_backends.open_for_writing import open_writable
from ckpt_backends.registry import open_store
from ckpt_backends.url import parse_url
from ckpt_cli.plans.repair import plan_write_repair
from ckpt_cli.reading.thread import ThreadReader
from tests.kit.agents.two_questions import CONFIG, State, Two, asked
from tests.kit.command import ckpt
from tests.kit.rows import rows_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "asked.db"


@pytest.fixture
def saver(path: Path) -> Iterator[SqliteSaver]:
    with closing(sqlite3.connect(path, check_same_thread=False)) as db:
        yield SqliteSaver(db)


def test_the_second_question_is_asked_again(saver: SqliteSaver, path: Path) -> None:
    two = Two(saver)
    two.make_stale()
    before = rows_of(path)
    shown = ckpt("-s", path, "repair", "writes", "t", "--dry-run", "-o", "json").json
    assert rows_of(path) == before
    assert (shown["action"], shown["next"], shown["again"]) == ("repair", ["ask"], [])
    assert "the result of pay is kept" in shown["notes"]

    done = ckpt("-s", path, "repair", "writes", "t", "--yes", "--reason", "stale", "-o", "json")
    assert done.code == 0, done.err
    config = {"configurable": done.json["configurable"]}
    assert asked(two.graph.invoke(None, config)) == ["second?"]
    assert two.graph.get_state(CONFIG).metadata["reason"] == "stale"
    assert two.graph.invoke(Command(resume="no"), config)["log"] == ["yes and no", "paid"]
    assert two.ran == ["ask", "ask"]


def test_a_subgraph_asks_again_from_its_first_question(saver: SqliteSaver, path: Path) -> None:
    two = Two(saver, is_nested=True)
    two.make_stale()
    done = ckpt("-s", path, "repair", "writes", "t", "--yes", "-o", "json")
    assert done.code == 0, done.err
    assert asked(two.graph.invoke(None, {"configurable": done.json["configurable"]})) == ["first?"]
    assert two.ran == ["ask"]


def test_an_answer_that_nobody_asked_for_is_dropped_after_a_while(
    saver: SqliteSaver, path: Path
) -> None:
    """The agent was stopped before any task could take the answer."""
    builder: Any = StateGraph(State)
    builder.add_node("ask", lambda _: {"log": [interrupt("first?")]})
    builder.add_edge(START, "ask")
    stopped = builder.compile(checkpointer=saver, interrupt_before=["ask"])
    stopped.invoke({"log": []}, CONFIG)
    head = stopped.get_state(CONFIG).config
    saver.put_writes(head, [("__resume__", "yes")], NULL_TASK_ID)
    graph = builder.compile(checkpointer=saver)
    with open_store(str(path)) as store:
        now = datetime.now(UTC)
        with pytest.raises(Refused, match="may be about to use"):
            plan_write_repair(ThreadReader(store, "t"), store, None, now)
        later = now + timedelta(minutes=2)
        plan = plan_write_repair(ThreadReader(store, "t"), store, None, later)
    with open_writable(parse_url(str(path))) as writable:
        writable.apply(plan.change)
    assert asked(graph.invoke(None, {"configurable": plan.configurable})) == ["first?"]


def test_only_the_head_is_repaired(saver: SqliteSaver, path: Path) -> None:
    Two(saver).make_stale()
    answer = ckpt("-s", path, "repair", "writes", "t@~1", "--yes")
    assert answer.code == 5
    assert "not the head" in answer.err


class Form:
    """A node that fails with the answer it gets, beside one that has finished."""

    def __init__(self, saver: Any, *, is_nested: bool = False) -> None:
        self.ran: list[str] = []
        builder: Any = StateGraph(State)
        inner: Any = StateGraph(State)
        inner.add_node("age", self._age)
        inner.add_edge(START, "age")
        builder.add_node("age", inner.compile() if is_nested else self._age)
        builder.add_node("pay", self._pay)
        builder.add_edge(START, "age")
        builder.add_edge(START, "pay")
        self.graph = builder.compile(checkpointer=saver)

    def _age(self, _: State) -> dict[str, Any]:
        self.ran.append("age")
        return {"log": [f"{int(interrupt('age?'))} years"]}

    def _pay(self, _: State) -> dict[str, Any]:
        self.ran.append("pay")
        return {"log": ["paid"]}

    def answer(self, text: str) -> Any:
        try:
            return self.graph.invoke(Command(resume=text), CONFIG)
        except ValueError as error:
            return str(error)


@pytest.mark.parametrize("is_nested", [False, True])
def test_an_answer_that_failed_is_used_first_until_it_is_dropped(
    saver: SqliteSaver, path: Path, *, is_nested: bool
) -> None:
    form = Form(saver, is_nested=is_nested)
    form.graph.invoke({"log": []}, CONFIG)
    assert "forty" in form.answer("forty")
    assert "forty" in form.answer("40")  # the first answer is used again
    node = "age > age" if is_nested else "age"
    resume = ckpt("-s", path, "show", "t", "-o", "json").json["resume"]
    assert (resume["runs"], resume["applies"], resume["asks"]) == ([node], ["pay"], [])
    assert (resume["answered"], resume["stored_answer"]) == ([node], "unused")
    assert resume["call"] == "graph.invoke(None, config)"
    assert ckpt("-s", path, "interrupts", "-o", "json").json == []
    (row,) = ckpt("-s", path, "threads", "list", "-o", "json").json
    assert row["conditions"] == ["error"]
    shown = ckpt("-s", path, "show", "t").out
    assert f"gives {node} the same answer again" in shown
    assert "the answer that was given last is stored, too, but no question gets it" in shown
    assert "repair writes t" in shown
    # Of many threads, none is asked again: the failure may have another cause.
    assert "nothing to repair" in ckpt("-s", path, "repair", "writes", "--all", "--yes").err
    done = ckpt("-s", path, "repair", "writes", "t", "--yes", "-o", "json")
    assert done.code == 0, done.err
    form.ran.clear()
    config = {"configurable": done.json["configurable"]}
    assert asked(form.graph.invoke(None, config)) == ["age?"]
    assert form.ran == ["age"]  # the result of `pay` is kept
    assert "40 years" in form.answer("40")["log"]
