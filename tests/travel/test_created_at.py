"""The `created_at` of an official snapshot names that very checkpoint, though its id is younger."""

from __future__ import annotations

import operator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

from tests.kit.command import ckpt

THREAD = "anna@example.com"
CONFIG: Any = {"configurable": {"thread_id": THREAD}}


class State(TypedDict):
    log: Annotated[list[str], operator.add]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[tuple[str, str]]]:
    """Return a store, and the (created_at, id) of each snapshot, newest first."""
    path = tmp_path_factory.mktemp("created") / "store.db"
    builder: Any = StateGraph(State)
    for name in "abc":
        builder.add_node(name, lambda _, name=name: {"log": [name]})
    builder.add_edge(START, "a").add_edge("a", "b").add_edge("b", "c").add_edge("c", END)
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph = builder.compile(checkpointer=saver)
        for text in ("one", "two"):
            graph.invoke({"log": [text]}, CONFIG)
        return path, [
            (one.created_at, one.config["configurable"]["checkpoint_id"])
            for one in graph.get_state_history(CONFIG)
        ]


def test_a_time_finds_the_checkpoint_that_was_made_then(
    made: tuple[Path, list[tuple[str, str]]],
) -> None:
    path, snapshots = made
    assert len(snapshots) == 10
    for created_at, checkpoint_id in snapshots:
        for words in ([THREAD, "--as-of", created_at], [f"{THREAD}@{created_at}"]):
            shown = ckpt("-s", path, "show", *words, "-o", "json").json
            assert shown["checkpoint_id"] == checkpoint_id
    for (_, before), (created_at, _) in zip(snapshots[1:], snapshots, strict=False):
        earlier = datetime.fromisoformat(created_at) - timedelta(microseconds=1)
        shown = ckpt("-s", path, "show", THREAD, "--as-of", earlier.isoformat(), "-o", "json")
        assert shown.json["checkpoint_id"] == before


def test_bounds_hold_what_was_made_at_them(made: tuple[Path, list[tuple[str, str]]]) -> None:
    path, snapshots = made
    last = snapshots[0][0]
    earlier = (datetime.fromisoformat(last) - timedelta(microseconds=1)).isoformat()

    def listed(*words: str) -> list[str]:
        found = ckpt("-s", path, "threads", "list", *words, "-o", "json").json
        return [one["thread_id"] for one in found]

    assert listed("--until", last) == [THREAD]
    assert listed("--since", last) == [THREAD]
    assert listed("--until", earlier) == []
    nodes = ckpt("-s", path, "stats", THREAD, "--until", snapshots[1][0], "-o", "json").json
    all_nodes = ckpt("-s", path, "stats", THREAD, "--until", last, "-o", "json").json
    whole = ckpt("-s", path, "stats", THREAD, "-o", "json").json
    assert all_nodes["nodes"] == whole["nodes"]
    assert nodes["by"] == whole["by"]  # The last checkpoint has no writes.
    third = ckpt("-s", path, "stats", THREAD, "--until", snapshots[2][0], "-o", "json").json
    assert third["nodes"] != whole["nodes"]
