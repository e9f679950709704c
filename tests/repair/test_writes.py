"""`ckpt repair writes` drops an answer that LangGraph would give to the next question."""

from __future__ import annotations

import operator
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from ckpt_backends.errors import Refused
from ckpt_backends.model import NULL_TASK_ID
from ckpt_backends.open_for_writing import open_writable
from ckpt_backends.registry import open_store
from ckpt_backends.url import parse_url
from ckpt_cli.plans.repair_writes import plan_write_repair
from ckpt_cli.threads.thread import ThreadReader
from tests.support import ckpt

CONFIG: Any = {"configurable": {"thread_id": "t"}}


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


class Two:
    """A node that asks two questions, beside one that has finished; langgraph issue 8837."""

    def __init__(self, saver: Any, *, is_nested: bool = False) -> None:
        self.ran: list[str] = []
        builder: Any = StateGraph(State)
        builder.add_node("ask", self._inner() if is_nested else self._ask)
        builder.add_node("pay", self._pay)
        builder.add_edge(START, "ask")
        builder.add_edge(START, "pay")
        self.graph = builder.compile(checkpointer=saver)

    def _inner(self) -> Any:
        builder: Any = StateGraph(State)
        builder.add_node("inside", self._ask)
        builder.add_edge(START, "inside")
        return builder.compile()

    def _ask(self, _: State) -> dict[str, Any]:
        self.ran.append("ask")
        return {"log": [f"{interrupt('first?')} and {interrupt('second?')}"]}

    def _pay(self, _: State) -> dict[str, Any]:
        self.ran.append("pay")
        return {"log": ["paid"]}

    def make_stale(self, config: Any = CONFIG) -> None:
        """Answer the first question; the second one waits."""
        self.graph.invoke({"log": []}, config)
        self.graph.invoke(Command(resume="yes"), config)
        self.ran.clear()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "asked.db"


@pytest.fixture
def saver(path: Path) -> Iterator[SqliteSaver]:
    with closing(sqlite3.connect(path, check_same_thread=False)) as db:
        yield SqliteSaver(db)


def rows(path: Path) -> list[Any]:
    with closing(sqlite3.connect(path)) as db:
        tables = ("checkpoints", "writes")
        return [sorted(db.execute(f"SELECT * FROM {one}"), key=repr) for one in tables]


def asked(answer: dict[str, Any]) -> list[str]:
    return [one.value for one in answer.get("__interrupt__", ())]


def test_without_the_repair_the_old_answer_goes_to_the_second_question(saver: SqliteSaver) -> None:
    two = Two(saver)
    two.make_stale()
    assert two.graph.invoke(None, CONFIG)["log"] == ["yes and yes", "paid"]


def test_the_second_question_is_asked_again(saver: SqliteSaver, path: Path) -> None:
    two = Two(saver)
    two.make_stale()
    before = rows(path)
    shown = ckpt("-s", path, "repair", "writes", "t", "--dry-run", "-o", "json").json
    assert rows(path) == before
    assert (shown["action"], shown["next"], shown["again"]) == ("repair", ["ask"], [])
    assert "the result of pay is kept" in shown["notes"]

    done = ckpt("-s", path, "repair", "writes", "t", "--yes", "--reason", "stale", "-o", "json")
    assert done.code == 0, done.err
    config = {"configurable": done.json["configurable"]}
    assert asked(two.graph.invoke(None, config)) == ["second?"]
    assert two.graph.get_state(CONFIG).metadata["reason"] == "stale"
    assert two.graph.invoke(Command(resume="no"), config)["log"] == ["yes and no", "paid"]
    assert two.ran == ["ask", "ask"]


def test_an_undo_restores_the_rows(saver: SqliteSaver, path: Path) -> None:
    Two(saver).make_stale()
    before = rows(path)
    assert ckpt("-s", path, "repair", "writes", "t", "--yes").code == 0
    assert rows(path) != before
    assert ckpt("-s", path, "undo", "t", "--yes").code == 0
    assert rows(path) == before


def test_a_subgraph_asks_again_from_its_first_question(saver: SqliteSaver, path: Path) -> None:
    two = Two(saver, is_nested=True)
    two.make_stale()
    done = ckpt("-s", path, "repair", "writes", "t", "--yes", "-o", "json")
    assert done.code == 0, done.err
    assert asked(two.graph.invoke(None, {"configurable": done.json["configurable"]})) == ["first?"]
    assert two.ran == ["ask"]


def test_an_open_question_needs_no_repair(saver: SqliteSaver, path: Path) -> None:
    two = Two(saver)
    two.graph.invoke({"log": []}, CONFIG)
    assert ckpt("-s", path, "repair", "writes", "t", "--yes").code == 3
    two.graph.invoke(Command(resume="yes"), CONFIG)
    two.graph.invoke(Command(resume="no"), CONFIG)
    answer = ckpt("-s", path, "repair", "writes", "t", "--yes")
    assert answer.code == 3
    assert "nothing to repair" in answer.err


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
