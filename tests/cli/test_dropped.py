"""What a new input dropped did not run, and what its tasks had stored was not applied."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from tests.kit.command import ckpt


class Notes(TypedDict, total=False):
    notes: Annotated[list[str], operator.add]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Threads that waited for an answer beside a finished node, by what came next."""
    path = tmp_path_factory.mktemp("dropped") / "agent.db"
    builder: Any = StateGraph(Notes)
    builder.add_node("plan", lambda _: {"notes": ["plan"]})
    builder.add_node("fine", lambda _: {"notes": ["fine"]})
    builder.add_node("ask", lambda _: {"notes": [interrupt("sure?")]})
    builder.add_edge(START, "plan")
    builder.add_conditional_edges(
        "plan",
        lambda state: END if "stop" in state["notes"] else ["fine", "ask"],
        ["fine", "ask", END],
    )
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph = builder.compile(checkpointer=saver)
        for durability in ("sync", "exit"):
            for name, given in (
                ("input", {"notes": ["stop"]}),
                ("again", {"notes": ["more"]}),
                ("answer", Command(resume="yes")),
            ):
                config: Any = {"configurable": {"thread_id": f"{name}-{durability}"}}
                graph.invoke({"notes": ["go"]}, config, durability=durability)
                graph.invoke(given, config, durability=durability)
    return path


@pytest.mark.parametrize(
    ("thread", "nodes"),
    [
        ("input-sync", ["plan"]),
        ("input-exit", ["__start__", "plan"]),
        ("again-exit", ["__start__", "plan"]),
        ("answer-exit", ["ask", "fine"]),
        ("answer-sync", ["ask", "fine"]),
    ],
)
def test_only_the_nodes_that_ran_made_a_checkpoint(
    store: Path, thread: str, nodes: list[str]
) -> None:
    (newest,) = ckpt("-s", store, "history", thread, "-n", "1", "-o", "json").json
    assert sorted(newest["nodes"]) == nodes


@pytest.mark.parametrize(
    ("thread", "is_dropped"),
    [("again-sync", True), ("again-exit", True), ("answer-sync", False), ("answer-exit", False)],
)
def test_dropped_writes_are_shown_as_dropped(store: Path, thread: str, is_dropped: bool) -> None:
    ref = f"{thread}@step:1"
    found = ckpt("-s", store, "show", ref, "--writes", "-o", "json").json
    assert "notes" in [one["channel"] for one in found["writes"]]
    assert found.get("writes_dropped", False) is is_dropped
    shown = ckpt("-s", store, "show", ref, "--writes", "-o", "table").out
    assert ("dropped: a new input came" in shown) is is_dropped


def test_the_writes_of_a_head_are_not_dropped(store: Path) -> None:
    assert "writes_dropped" not in ckpt("-s", store, "show", "again-sync", "-o", "json").json
