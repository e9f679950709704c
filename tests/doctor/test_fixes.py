"""A command that would be refused, or would leave a finding as it is, is not printed as its fix.

`test_planted` runs what is printed.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from ckpt_backends.model import NULL_TASK_ID
from ckpt_cli.core.doctor.findings import CODES
from ckpt_cli.session import Session
from tests.doctor.asking import only
from tests.kit.command import ckpt
from tests.kit.harness.sqlite import SqliteHarness
from tests.kit.opening import empty_store
from tests.kit.planting.faults import CHAT, WAITING, kind_of
from tests.kit.planting.planters import (
    Place,
    SqlitePlanter,
    fill,
    id_after,
    id_at,
    id_before,
    time_of,
)


@pytest.fixture(scope="module")
def store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SqliteHarness]:
    with empty_store(SqliteHarness, request, tmp_path_factory.mktemp("fixes")) as harness:
        fill(harness, frozenset({CHAT, WAITING}))
        yield harness


def fixes(
    store: SqliteHarness, thread_id: str, *more: str, now: datetime | None = None
) -> dict[str, Any]:
    """Return the fix of each code that is found in a thread, None for those without one.

    Without `now`, at a time when no agent is about to use what the tests stored.
    """
    now = now or datetime.now(UTC) + timedelta(minutes=10)
    words = ("-s", store.url, "doctor", thread_id, "--grace", "0s", "-o", "json", *more)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "now", now)
        found = ckpt(*words).json["findings"]
    assert all(one["look"] for one in found)
    return {one["code"]: one["fix"] for one in found}


def copy(store: SqliteHarness, thread: str, name: str) -> tuple[SqlitePlanter, list[Place]]:
    rows = SqlitePlanter(store)
    store.copy(thread, name)
    return rows, rows.places(name)


def test_a_fix_never_only_shows_something() -> None:
    for code in CODES.values():
        assert code.fix.split(" ")[0] in {"", "repair", "rollback", "gc"}, code
        assert "--dry-run" not in code.fix


def without_result(found: list[Any]) -> list[Any]:
    """Remove the first result of a tool."""
    first = min(n for n, one in enumerate(found) if kind_of(one) == "tool")
    return found[:first] + found[first + 1 :]


def test_a_head_of_tomorrow_gets_no_copy(store: SqliteHarness) -> None:
    rows, (head, *_) = copy(store, CHAT, "tomorrow")
    rows.set_value(head, "messages", without_result(rows.value(head, "messages")))
    assert fixes(store, "tomorrow")["tool-call-unanswered"] is not None
    rows.put(head, id_at(2 * 24 * 3600), "loop")
    found = fixes(store, "tomorrow")
    assert found == {"clock-ahead": None, "tool-call-unanswered": None}


def test_a_call_that_waits_for_an_answer_is_left_alone(store: SqliteHarness) -> None:
    """The question concerns another call; a copy of the head would ask it again."""

    def ask(_: MessagesState) -> Any:
        return {"messages": [("ai", interrupt("sure?"))]}

    calling = AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "one"}])
    history = [HumanMessage("hello"), calling, HumanMessage("never mind"), HumanMessage("go on")]
    with store.saver() as saver:
        builder: Any = StateGraph(MessagesState)
        graph = builder.add_node(ask).add_edge(START, "ask").compile(saver)
        config: Any = {"configurable": {"thread_id": "asking"}}
        orphaned = ToolMessage("found", tool_call_id="nobody")
        graph.invoke({"messages": [*history, orphaned, HumanMessage("well")]}, config)
        found = fixes(store, "asking")
        assert found
        assert set(found.values()) == {None}
        assert ckpt("-s", store.url, "repair", "messages", "asking", "--yes").code == 5
        graph.invoke(Command(resume="yes"), config)
        assert all(fixes(store, "asking").values())


def test_a_fresh_answer_may_still_be_used(store: SqliteHarness) -> None:
    rows, (head, *_) = copy(store, WAITING, "fresh")
    young = rows.put(head, id_after(head.checkpoint_id), "loop")
    rows.put_writes(young, [("__resume__", "an answer")], NULL_TASK_ID)
    soon = time_of(young.checkpoint_id) + timedelta(seconds=20)
    assert fixes(store, "fresh", now=soon)["resume-stale"] is None
    assert fixes(store, "fresh", now=soon + timedelta(hours=1))["resume-stale"] is not None


def test_writes_of_a_subgraph_without_their_checkpoint_are_garbage(store: SqliteHarness) -> None:
    rows, (head, *_) = copy(store, CHAT, "inside")
    lost = replace(head, checkpoint_ns="child:1", checkpoint_id=id_at(-3600))
    rows.put_writes(lost, [("log", "x")], "a task")
    assert fixes(store, "inside")["write-orphaned"] is not None


def test_a_rollback_needs_a_sound_checkpoint(store: SqliteHarness) -> None:
    rows, (head, parent, *_) = copy(store, CHAT, "broken")
    rows.spoil_body(head)
    assert fixes(store, "broken")["body-unreadable"] is not None
    # The rows of the head stay, and a deep check reads them again.
    assert fixes(store, "broken", "--deep")["body-unreadable"] is None
    rows.spoil_body(parent)
    assert fixes(store, "broken")["body-unreadable"] is None


def test_a_rollback_goes_to_the_last_checkpoint_of_one_line(store: SqliteHarness) -> None:
    rows, (head, *_) = copy(store, CHAT, "behind")
    child = rows.put_behind(head, id_before(head.checkpoint_id))
    last = rows.put_behind(child, id_before(child.checkpoint_id))
    assert last.checkpoint_id in fixes(store, "behind")["head-not-newest"]
    rows.put_behind(head, id_before(last.checkpoint_id))
    assert fixes(store, "behind")["head-not-newest"] is None


def test_a_key_is_not_created_over_rows_that_are_stored_twice(tmp_path: Path) -> None:
    path = tmp_path / "keyless.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        saver.setup()
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("DROP TABLE writes")
        file.execute(
            "CREATE TABLE writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel,"
            " type, value)"
        )
        row = ("t", "", "1", "task", 0, "a", "msgpack", b"\xc0")
        file.execute("INSERT INTO writes VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
    assert only(path).fix.startswith("CREATE UNIQUE INDEX")
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("INSERT INTO writes VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
    assert only(path).fix == ""
    assert "stored twice" in only(path).detail


def test_the_options_of_the_check_are_those_of_the_fix(
    store: SqliteHarness, tmp_path: Path
) -> None:
    rows, (head, *_) = copy(store, CHAT, "keyed")
    rows.set_value(head, "messages", without_result(rows.value(head, "messages")))
    key = tmp_path / "the key"
    key.write_bytes(b"0" * 16)
    key.chmod(0o600)
    found = fixes(store, "keyed", "--aes-key-file", str(key), "--reducer", "items=append")
    fix = found["tool-call-unanswered"]
    assert f"--aes-key-file '{key}' --reducer items=append repair messages keyed" in fix
