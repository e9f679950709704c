"""The findings of a thread on the screen: the tab, the marks in the tree, and the way there."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, Never

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph

from ckpt_backends.errors import CkptError
from ckpt_backends.sqlite.store import SqliteStore
from ckpt_backends.testing.screen import Seat, sit
from ckpt_cli.queries.doctor import examine
from ckpt_cli.tui import context
from ckpt_cli.tui.context import CheckRules
from ckpt_cli.tui.tabs import thread as thread_tabs
from tests.kit.command import ckpt
from tests.repair.test_writes import CONFIG, Two, asked

pytestmark = pytest.mark.slow

KYOTO = "trip-to-kyoto"


def lineage(store: Path) -> list[str]:
    """The checkpoints of the thread's root namespace, newest first."""
    return [row["checkpoint_id"] for row in ckpt("-s", store, "history", KYOTO, "-o", "json").json]


def execute(store: Path, statement: str, *values: Any) -> None:
    with closing(sqlite3.connect(store)) as file, file:
        file.execute(statement, values)


def remove(store: Path) -> tuple[str, str]:
    """Remove a checkpoint and not its writes. Returns it, and its child."""
    child, gone, *_ = lineage(store)
    execute(store, "DELETE FROM checkpoints WHERE checkpoint_id = ?", gone)
    return gone, child


def damage(store: Path) -> str:
    """Damage the body of an old checkpoint that the tree folds. Returns it."""
    damaged = lineage(store)[2]
    statement = "UPDATE checkpoints SET checkpoint = x'c1' WHERE checkpoint_id = ?"
    execute(store, statement, damaged)
    return damaged


def document(seat: Seat) -> str:
    return "\n".join(one.text for one in seat.main.inspector.rows.lines)


def marked(seat: Seat) -> list[str]:
    rows = seat.main.tree_pane.rows
    shown = [rows.line_at(at, 200).text for at in range(rows.count())]
    # The column before it is for the marked checkpoint.
    return [one for one in shown if one[1:2] == "!"]


def test_findings_are_listed_and_their_checkpoints_marked(sample: Path) -> None:
    _, child = remove(sample)

    async def look(seat: Seat) -> None:
        await seat.press("7")
        text = document(seat)
        assert "checked 1 thread" in text
        assert "warning parent-missing" in text
        assert "warning write-orphaned" in text
        assert len(marked(seat)) == 1
        assert seat.sees("done, 2 findings")
        assert seat.main.tree_pane.rows.found >= {("", child)}
        listed = list(seat.main.inspector.rows.document.findings.values())
        assert seat.main.command_lines()[0] == f"ckpt -s {sample} doctor {KYOTO}"
        seat.main.inspector.rows.cursor = seat.main.inspector.rows.count()
        same = ckpt("-s", sample, "doctor", KYOTO, "-o", "json").json["findings"]
        fix = next(one["fix"] for one in same if one["code"] == "write-orphaned")
        assert " gc --scope writes " in fix
        # A long path may break the line.
        assert fix in " ".join(text.split())
        assert fix in seat.main.command_lines()
        assert [one.code for one in listed] == [one["code"] for one in same]

    sit(sample, look)


def test_a_thread_is_checked_while_its_tree_is_shown(sample: Path) -> None:
    remove(sample)

    async def look(seat: Seat) -> None:
        await seat.until(lambda: marked(seat))
        assert seat.main.inspector.tab == "state"

    sit(sample, look)


def test_enter_goes_to_the_checkpoint_of_a_finding(sample: Path) -> None:
    _, child = remove(sample)

    async def go(seat: Seat, code: str) -> None:
        await seat.press("7")
        go_to(seat, code)
        await seat.press("j", "enter")

    async def look(seat: Seat) -> None:
        await go(seat, "write-orphaned")
        assert "this checkpoint is not stored" in seat.said
        await go(seat, "parent-missing")
        assert seat.main.tree_pane.rows.has_focus
        assert seat.main.place is not None
        assert seat.main.place.checkpoint_id == child
        assert seat.main.inspector.tab == "findings"

    sit(sample, look)


def test_every_value_is_checked_on_request(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    damaged = damage(sample)
    may_check, read = Event(), thread_tabs.read_findings

    def slowly(store: Any, **how: Any) -> Any:
        if how["deep"]:
            may_check.wait(30)
        return read(store, **how)

    monkeypatch.setattr(thread_tabs, "read_findings", slowly)

    async def look(seat: Seat) -> None:
        await seat.press("7")
        assert "no findings" in document(seat)
        assert "v checks every value" in document(seat)
        await seat.press_at_once("v", "v")
        await seat.until(lambda: "checking every value" in document(seat))
        # The screen goes on meanwhile.
        await seat.press_at_once("4")
        await seat.until(lambda: "Five nights in Kyoto" in document(seat))
        await seat.press_at_once("7")
        may_check.set()
        await seat.rest()
        assert "error body-unreadable" in document(seat)
        assert "v checks" not in document(seat)
        (line,) = marked(seat)
        assert "┊ 3 steps" in line
        assert seat.main.tree_pane.rows.found == {("", damaged)}
        assert seat.main.command_lines()[0] == f"ckpt -s {sample} doctor --deep {KYOTO}"

    sit(sample, look)


def test_a_thread_is_checked_again_when_it_changed_or_is_refreshed(sample: Path) -> None:
    gone, _ = remove(sample)

    async def look(seat: Seat) -> None:
        await seat.press("7")
        assert "write-orphaned" in document(seat)
        execute(sample, "DELETE FROM writes WHERE checkpoint_id = ?", gone)
        await seat.press("1", "7")
        assert "write-orphaned" in document(seat)
        await seat.press("r")
        assert "write-orphaned" not in document(seat)
        assert "info parent-missing" in document(seat)
        head = lineage(sample)[0]
        execute(sample, "DELETE FROM checkpoints WHERE checkpoint_id = ?", head)
        seat.main.threads_pane.load()
        await seat.until(lambda: "step-uncommitted" in document(seat))

    sit(sample, look)


def test_what_cannot_be_checked_says_why(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ckpt_backends.errors import Unreadable

    def fail(*_: object) -> None:
        raise Unreadable("its values are \x1b[31mencrypted")

    monkeypatch.setattr(thread_tabs, "check_thread", fail)

    async def look(seat: Seat) -> None:
        await seat.press("7")
        assert "not checked completely: its values are \\x1b[31mencrypted" in document(seat)

    sit(sample, look)


def test_codes_that_a_profile_ignores_are_left_out(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove(sample)
    # The first check begins when the screen does.
    ignoring = partial(CheckRules, ignored=frozenset({"write-orphaned"}))
    monkeypatch.setattr(context, "CheckRules", ignoring)

    async def look(seat: Seat) -> None:
        await seat.press("7")
        assert "write-orphaned" not in document(seat)
        assert "parent-missing" in document(seat)

    sit(sample, look)


def test_a_quick_check_reads_no_other_thread(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def counted(reader: Any, *about: Any) -> Any:
        asked.append(reader.thread_id)
        return examine.check_thread(reader, *about)

    monkeypatch.setattr(thread_tabs, "check_thread", counted)

    async def look(seat: Seat) -> None:
        await seat.press("7", "1", "7")
        assert asked == [KYOTO]

    sit(sample, look)


def go_to(seat: Seat, code: str) -> None:
    """Set the cursor on a finding."""
    rows = seat.main.inspector.rows
    rows.cursor = next(at for at, one in rows.document.findings.items() if one.code == code)


def call_a_tool(saver: Any) -> Callable[[], None]:
    """Let a user go on without the result of a tool. Returns a test of its repair."""
    builder: Any = StateGraph(MessagesState)
    call = AIMessage("", tool_calls=[{"id": "call-1", "name": "search", "args": {}}])
    builder.add_node("ask", lambda _: {"messages": [call, HumanMessage("well?")]})
    builder.add_edge(START, "ask")
    graph = builder.compile(checkpointer=saver)
    graph.invoke({"messages": ["hello"]}, CONFIG)

    def check() -> None:
        *_, result, _ = graph.get_state(CONFIG).values["messages"]
        assert (result.tool_call_id, result.status) == ("call-1", "error")

    return check


def answer_twice(saver: Any) -> Callable[[], None]:
    """Leave an answer that the next question would get. Returns a test of its repair."""
    two = Two(saver)
    two.make_stale()

    def check() -> None:
        assert asked(two.graph.invoke(None, CONFIG)) == ["second?"]

    return check


@pytest.mark.parametrize(
    ("plant", "code", "question"),
    [
        (call_a_tool, "tool-call-unanswered", "Answer these tool calls?"),
        (answer_twice, "resume-stale", "Drop this answer?"),
    ],
)
def test_a_finding_is_repaired_by_its_plan(
    tmp_path: Path, plant: Callable[[Any], Callable[[], None]], code: str, question: str
) -> None:
    store = tmp_path / "store.db"

    async def mend(seat: Seat) -> None:
        await seat.press("enter", "7")
        assert len(marked(seat)) == 1
        go_to(seat, code)
        await seat.press("P")
        assert seat.sees(question)
        await seat.press("y")
        assert seat.sees("press U to undo")
        await seat.until(lambda: not marked(seat))
        await seat.press("7")
        assert "no findings" in document(seat)

    with closing(sqlite3.connect(store, check_same_thread=False)) as file:
        check = plant(SqliteSaver(file))
        # After the grace period.
        sit(store, mend, writes=True, now=datetime.now(UTC) + timedelta(hours=1))
        check()


def test_a_finding_without_a_repair_says_so(sample: Path) -> None:
    remove(sample)

    async def look(seat: Seat) -> None:
        await seat.press("7")
        go_to(seat, "write-orphaned")
        await seat.press("P")
        assert "no repair mends this finding" in seat.said

    sit(sample, look, writes=True)


def test_a_store_that_may_charge_for_reads_is_checked_on_request(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove(sample)
    monkeypatch.setattr(SqliteStore, "lists_by_scan", True)

    async def look(seat: Seat) -> None:
        assert "findings" not in seat.main.inspector.delays.names
        assert marked(seat) == []
        await seat.press("7")
        assert len(marked(seat)) == 1

    sit(sample, look)


def test_a_check_that_fails_is_told_in_place_of_the_tab_before(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object, **__: object) -> Never:
        raise CkptError("the thread cannot be checked")

    async def look(seat: Seat) -> None:
        await seat.press("7", "z")
        assert document(seat) == "the thread cannot be checked"

    monkeypatch.setattr(thread_tabs, "read_findings", failing)
    sit(sample, look)
