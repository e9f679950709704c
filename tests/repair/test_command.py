"""`ckpt repair messages` as a command: one thread, and many of which some need no repair."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph

from tests.kit.command import ckpt

BROKEN = ("left", "right")


def config(thread_id: str) -> Any:
    return {"configurable": {"thread_id": thread_id}}


def conversation(*, is_broken: bool) -> list[AnyMessage]:
    """Return a conversation with two calls, of which one may lack its result."""
    calls: list[Any] = [
        {"name": name, "args": {}, "id": f"call-{name}", "type": "tool_call"}
        for name in ("search", "book")
    ]
    result = ToolMessage("booked", tool_call_id="call-book", name="book", id="result-2")
    return [
        HumanMessage("go", id="human-1"),
        AIMessage("", id="ai-1", tool_calls=calls),
        ToolMessage("found", tool_call_id="call-search", name="search", id="result-1"),
        *([] if is_broken else [result]),
        HumanMessage("and now?", id="human-2"),
    ]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "talks.db"


@pytest.fixture
def graph(path: Path) -> Iterator[Any]:
    """Two threads that a model's API refuses, and a sound one."""
    builder: Any = StateGraph(MessagesState)
    builder.add_node("agent", lambda _: {"messages": [AIMessage("done", id="ai-2")]})
    builder.add_edge(START, "agent")
    with closing(sqlite3.connect(path, check_same_thread=False)) as db:
        graph = builder.compile(checkpointer=SqliteSaver(db))
        for name in (*BROKEN, "sound"):
            messages = conversation(is_broken=name in BROKEN)
            graph.update_state(config(name), {"messages": messages}, as_node="agent")
        yield graph


def results(graph: Any, thread_id: str) -> dict[str, Any]:
    """Return the results of tools by the id of the call."""
    found = graph.get_state(config(thread_id)).values["messages"]
    return {one.tool_call_id: one for one in found if isinstance(one, ToolMessage)}


def test_a_call_gets_a_result_with_the_content_of_the_user(graph: Any, path: Path) -> None:
    words = ("-s", path, "repair", "messages", "left", "--content", "stopped")
    shown = ckpt(*words, "--dry-run")
    assert shown.code == 0, shown.err
    assert "mends    'messages': 1 result is added" in shown.out
    done = ckpt(*words, "--yes", "--reason", "a crash", "-o", "json").json
    assert done["action"] == "repair"
    added = results(graph, "left")["call-book"]
    assert (added.content, added.status) == ("stopped", "error")
    assert graph.get_state(config("left")).metadata["reason"] == "a crash"
    assert [
        one.type for one in graph.invoke(None, {"configurable": done["configurable"]})["messages"]
    ] == ["human", "ai", "tool", "tool", "human"]
    assert ckpt("-s", path, "repair", "messages", "left", "--yes").code == 3


def test_the_answer_ends_with_what_to_resume(graph: Any, path: Path) -> None:
    tsv = ckpt("-s", path, "repair", "messages", "--all", "--dry-run", "-o", "tsv")
    assert tsv.out.splitlines()[0].split("\t")[:3] == ["thread_id", "state", "next"]
    table = ckpt("-s", path, "repair", "messages", "--match", "*t", "--yes", "-o", "table")
    assert "repaired 2 threads" in table.out
    lines = [one for one in table.out.splitlines() if one.startswith("  {")]
    assert len(lines) == len(BROKEN)
    assert all('"checkpoint_id"' in one for one in lines)


def test_a_call_that_may_get_its_result_is_refused_alone_and_left_out_of_many(
    graph: Any, path: Path
) -> None:
    waiting = {"messages": conversation(is_broken=True)[:2]}
    graph.update_state(config("waiting"), waiting, as_node="agent")
    alone = ckpt("-s", path, "repair", "messages", "waiting", "--yes")
    assert (alone.code, "the call of 'search', 'book'" in alone.err) == (5, True)
    answer = ckpt("-s", path, "repair", "messages", "--all", "--yes", "-o", "json")
    assert answer.code == 0, answer.err
    assert {one["thread_id"] for one in answer.json} == set(BROKEN)
    assert all("1 result is added" in one["mends"][0] for one in answer.json)
    for name in (*BROKEN, "sound"):
        assert set(results(graph, name)) == {"call-search", "call-book"}
