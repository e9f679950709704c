"""The status of a thread whose step failed in one task and asks in another."""

from __future__ import annotations

import operator
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt

from tests.kit.command import ckpt

BOTH: Any = {"configurable": {"thread_id": "both"}}


class Log(TypedDict):
    log: Annotated[list[str], operator.add]


def ask(state: Log) -> dict[str, Any]:
    return {"log": [interrupt("ship it?")]}


def crash(state: Log) -> dict[str, Any]:
    raise ValueError("no stock\nsee the log")


def _marks(connection: sqlite3.Connection) -> int:
    """How many of the two writes that tell of a failure and of a question are stored."""
    tables = "select count(*) from sqlite_master where name = 'writes'"
    if not connection.execute(tables).fetchone()[0]:
        return 0
    query = "select count(distinct channel) from writes where channel in (?, ?)"
    found: int = connection.execute(query, ("__error__", "__interrupt__")).fetchone()[0]
    return found


@pytest.fixture
def both(tmp_path: Path) -> Path:
    """A store with a thread in whose last step one task failed while another asks."""
    path = tmp_path / "both.db"
    graph = StateGraph(Log).add_node("ask", ask).add_node("crash", crash)
    graph.add_edge(START, "ask").add_edge(START, "crash")
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        agent = graph.compile(checkpointer=SqliteSaver(connection))
        value: Any = {"log": []}
        # The run ends with the failure, which may come before the other task has asked.
        while _marks(connection) < 2:
            with pytest.raises(ValueError, match="no stock"):
                agent.invoke(value, BOTH)
            value = None
    return path


def test_the_worst_condition_is_the_status_and_all_are_listed(both: Path) -> None:
    (row,) = ckpt("-s", both, "threads", "list", "-o", "json").json
    assert (row["status"], row["conditions"]) == ("error", ["error", "interrupted"])
    found = ckpt("-s", both, "show", "both", "-o", "json").json
    assert (found["status"], found["conditions"]) == ("error", ["error", "interrupted"])
    head = ckpt("-s", both, "history", "both", "-o", "json").json[0]
    assert head["conditions"] == ["error", "interrupted"]


def test_a_purge_says_what_is_wrong_with_what_it_keeps_and_removes(both: Path) -> None:
    words = ["-s", str(both), "purge", "--older-than", "0s", "--dry-run", "-o", "json"]
    (kept,) = ckpt(*words).json["skipped"]
    assert kept["reason"] == (
        "its last step failed and a question waits for an answer"
        " (to remove: --include-error --include-interrupted)"
    )
    (going,) = ckpt(*words, "--include-error", "--include-interrupted").json["threads"]
    assert going["reason"].startswith("error, interrupted; idle for ")


@pytest.mark.parametrize(
    ("status", "found"), [("error", 1), ("interrupted", 1), ("pending", 0), ("done", 0)]
)
def test_a_thread_is_found_by_each_of_its_conditions(both: Path, status: str, found: int) -> None:
    rows = ckpt("-s", both, "threads", "list", "--status", status, "-o", "json").json
    assert len(rows) == found
