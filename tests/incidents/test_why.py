"""`threads list` says why a thread waits, and what it is about."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

from ckpt_cli.render.table import table_lines
from ckpt_cli.render.text import Ui, cell_len
from ckpt_cli.render.threads import thread_columns
from tests.kit.agents import failing as agents
from tests.kit.command import ckpt
from tests.kit.savers.dev import FileSaver

UUID = "0c5ee4a1-6f5f-4b45-9d2c-3b3b8f8d6d11"
LONG = "Where is my parcel? " * 30


def _answer(state: MessagesState) -> dict[str, Any]:
    if "refund" in state["messages"][-1].text:
        raise ConnectionError("no route to payments\nfor 30 s")
    if "parcel" in state["messages"][-1].text:
        return {"messages": [AIMessage(interrupt({"question": "Send another one?"}))]}
    return {"messages": [AIMessage("Hello.")]}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Conversations under ids that say something, and under ids that do not."""
    path = tmp_path_factory.mktemp("why") / "agent.db"
    graph = StateGraph(MessagesState).add_node("answer", _answer).add_edge(START, "answer")
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        agent = graph.compile(checkpointer=SqliteSaver(connection))

        def say(thread_id: str, *messages: Any) -> None:
            agent.invoke({"messages": list(messages)}, {"configurable": {"thread_id": thread_id}})

        say(UUID, SystemMessage("be kind"), HumanMessage(f"\n  {LONG}\nThanks"))
        say("17", HumanMessage([{"type": "text", "text": "Hi"}, {"type": "image_url"}]))
        say("visit-anna", HumanMessage("Hi"))
        with pytest.raises(ConnectionError):
            say("refund-4711", HumanMessage("a refund, please"))
    agents.fill(path, agents.error_and_question, "4711", marks=2)
    return path


def _rows(store: Path, *words: str) -> dict[str, dict[str, Any]]:
    rows = ckpt("-s", store, "threads", "list", *words, "-o", "json").json
    return {row["thread_id"]: row for row in rows}


def test_a_list_has_the_error_and_the_question_of_each_thread(store: Path) -> None:
    rows = _rows(store)
    assert rows["refund-4711"]["error"] == (
        "answer: ConnectionError('no route to payments\\nfor 30 s')"
    )
    assert rows[UUID]["question"] == {"question": "Send another one?"}
    assert rows["4711"]["error"].startswith("crash: TimeoutError(")
    assert rows["4711"]["question"] == "ask: ship it?"
    assert not {"error", "question"} & set(rows["visit-anna"])


def test_an_id_that_says_nothing_gets_a_title(store: Path) -> None:
    rows = _rows(store)
    title = rows[UUID]["title"]
    assert title.startswith("Where is my parcel? Where")
    assert (len(title), title[-1]) == (200, "…")
    assert rows["17"]["title"] == "Hi[image_url]"
    assert not any("title" in rows[one] for one in ("visit-anna", "refund-4711", "4711"))
    assert _rows(store, "--long", "--all")["visit-anna"]["title"] == "Hi"


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_the_table_fits_and_never_cuts_an_id(store: Path, width: int) -> None:
    rows = list(_rows(store).values())
    columns = thread_columns(details=True, wide=width >= 100)
    lines = [one.text for one in table_lines(rows, columns, Ui(datetime.now(UTC), width=width))]
    assert max(map(cell_len, lines)) <= width
    text = "\n".join(lines)
    assert all(row["thread_id"] in text for row in rows)
    assert ("WHY" in lines[0]) is ("Connec" in text) is (width >= 80)
    # The node stands before an error only if no column names it.
    assert ("answer: Connec" in text) is ("WHY" in lines[0] and "NEXT" not in lines[0])
    assert ("TITLE" in lines[0]) is (width >= 120)
    if width == 200:
        assert "  Send another one?  " in text
        assert "  ConnectionError('no route to payments …" in text


def test_an_error_and_a_question_get_room_before_counts_and_sizes() -> None:
    said = "Shall I refund 89 EUR to the card that ends 4242 today?"
    one: dict[str, Any] = {
        "thread_id": "refund-4711",
        "status": "interrupted",
        "conditions": ["interrupted"],
    }
    one |= {"step": 12, "checkpoints": 13, "namespaces": 1, "bytes": 4711}
    one |= {
        "runs": ["ask_for_approval_of_the_refund"],
        "asked_by": ["ask_for_approval_of_the_refund"],
    }
    one |= {"question": {"question": said, "amount": 89}}
    two = one | {"runs": ["send", "check"], "asked_by": ["check", "ask"], "question": {"n": 1}}

    def table(width: int) -> list[str]:
        columns = thread_columns(details=True, wide=width >= 100)
        return [
            line.text
            for line in table_lines([one, two], columns, Ui(datetime.now(UTC), width=width))
        ]

    head, first, second = table(90)
    assert said[:39] in first
    assert "check > ask: {n: 1}" in second
    assert "NEXT" in head
    assert not any(name in head for name in ("STEP", "CHECKPOINTS", "SIZE"))
    head, first, _ = table(160)
    assert f"  {said}  " in first
    assert all(name in head for name in ("STEP", "CHECKPOINTS", "SIZE"))


def test_messages_that_are_stored_apart_are_read_for_a_title_unless_they_are_large(
    tmp_path: Path,
) -> None:
    graph = StateGraph(MessagesState).add_node("answer", _answer).add_edge(START, "answer")
    saver = FileSaver(tmp_path)
    agent = graph.compile(checkpointer=saver)
    rules = SystemMessage("be kind " * 5_000)
    for thread_id, text in ((UUID, "Hi"), ("17", f"Hi{' there' * 50_000}"), ("anna", "Hi")):
        said: Any = {"messages": [rules, HumanMessage(text)]}
        agent.invoke(said, {"configurable": {"thread_id": thread_id}})
    saver.sync()
    titles = {name: row.get("title") for name, row in _rows(tmp_path).items()}
    assert titles == {UUID: "Hi", "17": None, "anna": None}
    assert _rows(tmp_path, "--long")["anna"]["title"] == "Hi"


def test_tsv_has_every_part_in_a_column_of_its_own(store: Path) -> None:
    head, *lines = ckpt("-s", store, "threads", "list", "-o", "tsv").out.splitlines()
    assert {"error", "question", "title"} < set(head.split("\t"))
    assert "why" not in head.lower()
    assert all(line.count("\t") == head.count("\t") for line in lines)


def test_redacted_lists_show_neither_titles_nor_questions(store: Path) -> None:
    rows = _rows(store, "--redact", "--long")
    assert rows[UUID]["title"] == "redacted, 200 characters"
    shown = ckpt("-s", store, "--redact", "threads", "list", "--long", "-o", "json").out
    assert not any(text in shown for text in ("parcel", "ship it", "another", "route", '"Hi'))
