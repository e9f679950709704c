"""Nothing is found in what agents store by the official library, whatever their nodes do."""

import operator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages
from langgraph.types import Command, interrupt

from tests.doctor.asking import findings, left_in
from tests.kit.command import ckpt

CONFIG: Any = {"configurable": {"thread_id": "agent"}}


def test_an_update_that_removed_all_messages_is_no_fault(tmp_path: Path) -> None:
    """Nor beside another: the saver keeps the writes of one update only."""
    path = tmp_path / "store.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
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
        graph.invoke({"messages": [HumanMessage("One?")]}, of("alone"), durability="sync")
        graph.update_state(of("alone"), {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES)]})
    assert left_in(path) == []


# What is no fault of the store, and harms the agent


def found_quickly(path: Path, *words: str) -> list[tuple[str, str, str]]:
    found = findings(path, "--grace", "0s", *words)
    return sorted((one["code"], one["thread_id"], one["detail"]) for one in found)


class Form(TypedDict, total=False):
    age: int


def asking(saver: SqliteSaver) -> Any:
    def ask(_: Form) -> dict[str, int]:
        return {"age": int(interrupt("age?"))}

    builder: Any = StateGraph(Form)
    return builder.add_node("ask", ask).add_edge(START, "ask").compile(checkpointer=saver)


def of(thread_id: str) -> Any:
    return {"configurable": {"thread_id": thread_id}}


def test_an_answer_that_no_task_will_use(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph = asking(saver)
        for name in ("bad once", "bad twice", "answered", "twice", "new turn"):
            graph.invoke({}, of(name))
        graph.invoke({}, of("waits"))
        for name, *answers in (("bad once", "x"), ("bad twice", "x", "40")):
            for answer in answers:
                with pytest.raises(ValueError, match="'x'"):
                    graph.invoke(Command(resume=answer), of(name))
        for name, number in (("answered", 1), ("twice", 2), ("new turn", 2)):
            for _ in range(number):
                graph.invoke(Command(resume="40"), of(name))
        graph.invoke({}, of("new turn"))
    assert found_quickly(path) == [
        ("answer-unused", "bad twice", "'ask' has an earlier answer, which is used first"),
        ("answer-unused", "twice", "nothing is next, so no task asks for it"),
    ]
    assert found_quickly(path, "--deep") == found_quickly(path)
    # A young one may still be used.
    assert findings(path) == []


class Talk(TypedDict, total=False):
    word: str
    said: Annotated[list[str], operator.add]


def remembering(saver: SqliteSaver) -> Any:
    """Return a graph whose subgraph keeps what it was told; it is not called for a `-`."""
    inner: Any = StateGraph(Talk)
    inner.add_node("note", lambda state: {"said": [state["word"]]}).add_edge(START, "note")
    outer: Any = StateGraph(Talk)
    outer.add_node("plan", lambda _: {}).add_node("child", inner.compile(checkpointer=True))
    outer.add_node("end", lambda _: {"word": ""}).add_edge(START, "plan").add_edge("child", "end")
    outer.add_conditional_edges(
        "plan", lambda state: "end" if state["word"] == "-" else "child", ["end", "child"]
    )
    return outer.compile(checkpointer=saver)


def test_a_subgraph_that_remembers_another_branch(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph = remembering(saver)

        def say(thread_id: str, *words: str, at: Any = None) -> None:
            for word in words:
                graph.invoke({"word": word}, at or of(thread_id), durability="sync")

        def first_turn(thread_id: str) -> Any:
            past = [one for one in graph.get_state_history(of(thread_id)) if not one.next]
            return past[-1].config

        names = ("goes on", "skips", "calls", "updated", "rolled", "undone", "apart")
        for name in names:
            say(name, "a", "b")
        say("goes on", "c", "-")
        say("skips", "-", at=first_turn("skips"))
        say("calls", "c", at=first_turn("calls"))
        graph.update_state(first_turn("updated"), {"word": "x"}, as_node="end")
    for words in (
        ("rollback", "rolled", "~5"),
        ("rollback", "undone", "~5"),
        ("undo", "undone"),
        ("copy", "apart@~5", "--as", "new"),
    ):
        assert ckpt("-s", path, *words, "--yes").code == 0
    # `ckpt` takes the memory of the subgraph back, too.
    deep = found_quickly(path, "--deep")
    assert {(code, thread) for code, thread, _ in deep} == {
        ("memory-of-abandoned-branch", "skips"),
        ("memory-of-abandoned-branch", "updated"),
    }
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph = remembering(saver)
        assert "b" not in graph.get_state(of("skips")).values["said"]
        assert "b" in graph.invoke({"word": "next"}, of("skips"))["said"]


class SeparateResults(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    results: Annotated[list[AnyMessage], operator.add]


def test_results_may_be_in_a_channel_of_their_own(tmp_path: Path) -> None:
    call: Any = {"name": "look_up", "args": {}, "id": "call-1", "type": "tool_call"}
    messages = [HumanMessage("go"), AIMessage("", tool_calls=[call]), HumanMessage("and now?")]
    builder = StateGraph(SeparateResults)
    builder.add_node("agent", lambda _: {})
    builder.add_edge(START, "agent")
    path = tmp_path / "store.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph: Any = builder.compile(checkpointer=saver)
        for thread_id, results in (
            ("apart", [ToolMessage("found", tool_call_id="call-1")]),
            ("lost", [ToolMessage("found", tool_call_id="call-2")]),
        ):
            state = {"messages": messages, "results": results}
            graph.update_state(of(thread_id), state, as_node="agent")
    assert [(code, thread) for code, thread, _ in found_quickly(path)] == [
        ("tool-call-unanswered", "lost")
    ]
