"""The input of a run is shown from where it stands, whether or not its writes are stored."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph

from tests.kit.command import FIXTURES, ckpt, copy_store
from tests.kit.reports import data_of

CONFIG: Any = {"configurable": {"thread_id": "t"}}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return a store with inputs in three forms."""
    path = tmp_path / "store.db"
    builder: Any = StateGraph(MessagesState)
    builder.add_node("talk", lambda _: {"messages": [AIMessage("yes")]})
    builder.add_edge(START, "talk").add_edge("talk", END)
    given: list[Any] = [[("user", "hi")], ("user", "alone"), [{"role": "user", "content": "dict"}]]
    with SqliteSaver.from_conn_string(str(path)) as saver:
        for messages in given:
            builder.compile(checkpointer=saver).invoke({"messages": messages}, CONFIG)
    return path


def without_writes(path: Path) -> Path:
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM writes")
    return path


def told(path: Path, thread_id: str, texts: list[str]) -> None:
    """Assert that all outputs show these inputs, oldest first."""
    tree = ckpt("-s", path, "show", thread_id, "--tree", "-o", "table").out
    page = json.dumps(data_of(ckpt("-s", path, "report", thread_id).out))
    assert all(f'["Input", "{text}"]' in page for text in texts)
    rows = ckpt("-s", path, "history", thread_id, "-o", "json").json
    inputs = [one for one in reversed(rows) if one["source"] == "input"]
    for row, text in zip(inputs, texts, strict=True):
        assert f"+1 {text}" in tree
        at = f"{thread_id}@{row['checkpoint_id']}"
        shown = ckpt("-s", path, "show", at, "-o", "table").out
        said = text.partition(": ")[2]
        assert said in shown[shown.index("\ninput") :]
        assert said in str(ckpt("-s", path, "show", at, "-o", "json").json["input"])
    first = ckpt("-s", path, "messages", f"{thread_id}@{inputs[0]['checkpoint_id']}", "-o", "json")
    assert first.json[-1]["content"] == texts[0].partition(": ")[2]
    assert "the next step takes in" in first.err


TEXTS = ["user: hi", "user: alone", "user: dict"]


def test_an_input_is_shown(store: Path) -> None:
    told(store, "t", TEXTS)
    told(without_writes(store), "t", TEXTS)
    lines = ckpt("-s", store, "history", "t", "-o", "table").out
    assert all(text in lines for text in TEXTS)


def test_an_input_is_redacted(store: Path) -> None:
    for path in (store, without_writes(store)):
        for words in (["show", "t", "--tree"], ["show", "t@step:-1"], ["history", "t"]):
            answer = ckpt("-s", path, "--redact", *words, "-o", "json")
            assert "alone" not in answer.out
            assert '"hi"' not in answer.out


@pytest.mark.parametrize("era", ["lg-0.2.14-json", "lg-0.2.70"])
def test_an_input_is_taken_from_the_metadata(era: str, tmp_path: Path) -> None:
    """LangGraph before 0.5 stores it there, too."""
    path = without_writes(copy_store(FIXTURES / era / "store.db", tmp_path))
    lines = ckpt("-s", path, "show", "chat", "--tree", "-o", "table").out
    assert "+2 human: Opening hours?" in lines
    assert "+1 user: Danke" in lines


def test_a_short_change_is_not_left_out(store: Path) -> None:
    tree = ckpt("-s", store, "show", "t", "--tree", "-o", "table").out
    assert tree.count("+1 ai: yes") == 3
