"""Nothing is found in what agents store by the official library, whatever their nodes do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from tests.doctor.test_clean import found

CONFIG: Any = {"configurable": {"thread_id": "agent"}}


def updated_twice(saver: SqliteSaver) -> None:
    """The saver keeps the writes of one update only, and the other one removed all messages."""
    graph = (
        StateGraph(MessagesState)
        .add_node("bot", lambda _: {"messages": [AIMessage("Yes.")]})
        .add_edge(START, "bot")
        .compile(checkpointer=saver)
    )
    graph.invoke({"messages": [HumanMessage("One?")]}, CONFIG, durability="sync")
    head = graph.get_state(CONFIG).config
    graph.update_state(head, {"messages": [HumanMessage("Two?")]})
    graph.update_state(head, {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES)]})


def _without_none(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in {**left, **right}.items() if value is not None}


def _clearing(left: list[int], right: list[int] | None) -> list[int]:
    return [] if right is None else left + right


class Facts(TypedDict):
    facts: Annotated[dict[str, Any], _without_none]
    log: Annotated[list[int], _clearing]


def merged(saver: SqliteSaver) -> None:
    """Reducers that equal well-known ones, except in a few steps."""
    graph = (
        StateGraph(Facts)
        .add_node("note", lambda state: {"facts": {"n": len(state["log"])}, "log": [1]})
        .add_node("forget", lambda _: {"facts": {"in": None}, "log": None})
        .add_edge(START, "note")
        .add_conditional_edges("note", lambda state: "forget" if len(state["log"]) > 5 else "note")
        .compile(checkpointer=saver)
    )
    for number in range(3):
        graph.invoke({"facts": {"in": number}, "log": [0]}, CONFIG, durability="sync")


class Items(TypedDict):
    items: list[int]
    turn: int


def changed_in_place(saver: SqliteSaver) -> None:
    """A node changes a value of the state in place, and does not return it.

    LangGraph stores writes beside the run. If the node is faster, the stored write has the change
    already and its checkpoint does not, which nobody can tell from a checkpoint that was edited.
    So the node waits for the write.
    """
    stored, put = Event(), saver.put_writes

    def put_writes(config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        put(config, writes, task_id, task_path)
        if any(channel == "items" for channel, _ in writes):
            stored.set()

    saver.put_writes = put_writes  # type: ignore[method-assign]

    def note(state: Items) -> dict[str, int]:
        assert stored.wait(30)
        stored.clear()
        state["items"].append(1)
        return {"turn": state["turn"] + 1}

    graph = (
        StateGraph(Items).add_node("note", note).add_edge(START, "note").compile(checkpointer=saver)
    )
    for number in range(3):
        graph.invoke({"items": [number], "turn": number}, CONFIG, durability="sync")


@pytest.mark.parametrize("agent", [updated_twice, merged, changed_in_place])
def test_an_agent(agent: Callable[[SqliteSaver], None], tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        agent(saver)
    assert found(path) == []
