"""Nodes that wait for several others, of which some have finished."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph

from tests.kit.command import ckpt


class Log(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    pick: list[str]


def run(path: Path, thread: str, members: list[str], *picks: list[str], **options: Any) -> None:
    """Run a graph in which `offer` waits for its members, each time with some of them."""
    builder: Any = StateGraph(Log)
    for name in members:
        builder.add_node(name, lambda _, name=name: {"log": [name]})
    builder.add_node("offer", lambda _: {"log": ["offer"]}, **options)
    builder.add_conditional_edges(START, lambda state: state["pick"], members)
    builder.add_edge(members, "offer")
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph = builder.compile(checkpointer=saver)
        for pick in picks:
            graph.invoke({"log": [], "pick": pick}, {"configurable": {"thread_id": thread}})


def joins(path: Path, *words: str) -> Any:
    return ckpt("-s", path, *words, "-o", "json").json.get("joins", [])


def test_a_join_that_waits_is_listed(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    run(path, "one", ["stock", "price"], ["stock"])
    run(path, "all", ["stock", "price"], ["stock", "price"])
    run(path, "later", ["stock", "price"], ["stock"], ["price"])
    waiting = [{"node": "offer", "waits_for": ["price"], "has": ["stock"]}]
    assert joins(path, "show", "one") == waiting
    assert joins(path, "show", "later@step:1") == waiting
    for thread in ("all", "later"):
        assert joins(path, "show", thread) == []
    text = "join     offer waits for price; has stock"
    assert text in ckpt("-s", path, "show", "one", "-o", "table").out


def test_a_deferred_join_is_listed(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    run(path, "one", ["stock", "price"], ["stock"], defer=True)
    assert joins(path, "show", "one") == [
        {"node": "offer", "waits_for": ["price"], "has": ["stock"]}
    ]


@pytest.mark.parametrize(
    ("ran_before", "waits_for"), [([], ["c", "d"]), (["c+d"], ["c+d"])], ids=["unknown", "known"]
)
def test_a_plus_sign_may_belong_to_a_name(
    tmp_path: Path, ran_before: list[str], waits_for: list[str]
) -> None:
    """What arrived is known; of the others, another thread may tell the names."""
    path = tmp_path / "agent.db"
    if ran_before:
        run(path, "other", ["a+b", "c+d"], ran_before)
    run(path, "one", ["a+b", "c+d"], ["a+b"])
    assert joins(path, "show", "one") == [{"node": "offer", "waits_for": waits_for, "has": ["a+b"]}]
