"""The findings of a thread on the screen: the tab, the marks in the tree, and the way there."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any
from unittest.mock import Mock

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph

from ckpt_backends.errors import CkptError, Unreadable
from ckpt_backends.sqlite.store import SqliteStore
from ckpt_backends.testing.screen import Seat, sitting
from ckpt_cli.queries.doctor import examine
from ckpt_cli.tui import context
from ckpt_cli.tui.context import CheckRules
from ckpt_cli.tui.tabs import thread as thread_tabs
from tests.kit.agents.two_questions import CONFIG, Two, asked
from tests.kit.command import ckpt, ids_of

pytestmark = pytest.mark.engines

KYOTO = "trip-to-kyoto"


def execute(store: Path, statement: str, *values: Any) -> None:
    with closing(sqlite3.connect(store)) as file, file:
        file.execute(statement, values)


@pytest.fixture
def removed(sample: Path) -> tuple[str, str]:
    """Remove a checkpoint and not its writes. Gives it, and its child."""
    child, gone, *_ = ids_of(sample, KYOTO)
    execute(sample, "DELETE FROM checkpoints WHERE checkpoint_id = ?", gone)
    return gone, child


@pytest.fixture
def store(sample: Path, removed: tuple[str, str]) -> Path:
    assert removed
    return sample


def marked(seat: Seat) -> list[str]:
    rows = seat.tree
    shown = [rows.line_at(at, 200).text for at in range(rows.count())]
    # The column before it is for the marked checkpoint.
    return [one for one in shown if one[1:2] == "!"]


async def test_findings_are_listed_and_lead_to_their_checkpoints(
    seat: Seat, sample: Path, removed: tuple[str, str]
) -> None:
    _, child = removed
    # The thread is checked while its tree is shown.
    await seat.until(lambda: marked(seat))
    assert "checked 1 thread" not in seat.read
    await seat.see("7", "done, 2 findings")
    text = seat.read
    assert "checked 1 thread" in text
    assert "warning parent-missing" in text
    assert "warning write-orphaned" in text
    assert len(marked(seat)) == 1
    assert seat.tree.found >= {("", child)}
    assert seat.main.command_lines()[0] == f"ckpt -s {sample} doctor {KYOTO}"
    seat.document.cursor = seat.document.count()
    same = ckpt("-s", sample, "doctor", KYOTO, "-o", "json").json["findings"]
    fix = next(one["fix"] for one in same if one["code"] == "write-orphaned")
    assert " gc --scope writes " in fix
    # A long path may break the line.
    assert fix in " ".join(text.split())
    assert fix in seat.main.command_lines()
    listed = seat.document.document.findings.values()
    assert [one.code for one in listed] == [one["code"] for one in same]
    go_to(seat, "write-orphaned")
    await seat.press("j", "enter")
    assert "this checkpoint is not stored" in seat.said
    go_to(seat, "parent-missing")
    await seat.press("j", "enter")
    assert seat.tree.has_focus
    assert seat.place.checkpoint_id == child
    assert seat.main.inspector.tab == "findings"


async def test_every_value_is_checked_on_request(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged = ids_of(sample, KYOTO)[2]
    spoil = "UPDATE checkpoints SET checkpoint = x'c1' WHERE checkpoint_id = ?"
    execute(sample, spoil, damaged)
    may_check, read = Event(), thread_tabs.read_findings

    def slowly(store: Any, **how: Any) -> Any:
        if how["deep"]:
            may_check.wait(30)
        return read(store, **how)

    monkeypatch.setattr(thread_tabs, "read_findings", slowly)
    async with sitting(sample) as seat:
        await seat.press("7")
        assert "no findings" in seat.read
        assert "v checks every value" in seat.read
        await seat.press_at_once("v", "v")
        await seat.until(lambda: "checking every value" in seat.read)
        # The screen goes on meanwhile.
        await seat.press_at_once("4")
        await seat.until(lambda: "Five nights in Kyoto" in seat.read)
        await seat.press_at_once("7")
        may_check.set()
        await seat.rest()
        assert "error body-unreadable" in seat.read
        assert "v checks" not in seat.read
        (line,) = marked(seat)
        assert "┊ 3 steps" in line
        assert seat.tree.found == {("", damaged)}
        assert seat.main.command_lines()[0] == f"ckpt -s {sample} doctor --deep {KYOTO}"


async def test_a_thread_is_checked_again_when_it_changed_or_is_refreshed(
    seat: Seat, sample: Path, removed: tuple[str, str]
) -> None:
    await seat.press("7")
    assert "write-orphaned" in seat.read
    execute(sample, "DELETE FROM writes WHERE checkpoint_id = ?", removed[0])
    await seat.press("1", "7")
    assert "write-orphaned" in seat.read
    await seat.press("r")
    assert "write-orphaned" not in seat.read
    assert "info parent-missing" in seat.read
    head = ids_of(sample, KYOTO)[0]
    execute(sample, "DELETE FROM checkpoints WHERE checkpoint_id = ?", head)
    seat.main.threads_pane.load()
    await seat.until(lambda: "step-uncommitted" in seat.read)


async def test_what_cannot_be_checked_says_why(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = Mock(side_effect=Unreadable("its values are \x1b[31mencrypted"))
    monkeypatch.setattr(thread_tabs, "check_thread", failing)
    async with sitting(sample) as seat:
        await seat.press("7")
        assert "not checked completely: its values are \\x1b[31mencrypted" in seat.read


async def test_codes_that_a_profile_ignores_are_left_out(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first check begins when the screen does.
    ignoring = partial(CheckRules, ignored=frozenset({"write-orphaned"}))
    monkeypatch.setattr(context, "CheckRules", ignoring)
    async with sitting(store) as seat:
        await seat.press("7")
        assert "write-orphaned" not in seat.read
        assert "parent-missing" in seat.read


async def test_a_quick_check_reads_no_other_thread(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = Mock(wraps=examine.check_thread)
    monkeypatch.setattr(thread_tabs, "check_thread", check)
    async with sitting(sample) as seat:
        await seat.press("7", "1", "7")
        assert [one.args[0].thread_id for one in check.call_args_list] == [KYOTO]


def go_to(seat: Seat, code: str) -> None:
    """Set the cursor on a finding."""
    rows = seat.document
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
async def test_a_finding_is_repaired_by_its_plan(
    tmp_path: Path, plant: Callable[[Any], Callable[[], None]], code: str, question: str
) -> None:
    store, after_grace = tmp_path / "store.db", datetime.now(UTC) + timedelta(hours=1)
    with closing(sqlite3.connect(store, check_same_thread=False)) as file:
        check = plant(SqliteSaver(file))
        async with sitting(store, writes=True, now=after_grace) as seat:
            await seat.press("enter", "7")
            assert len(marked(seat)) == 1
            go_to(seat, code)
            await seat.see("P", question)
            await seat.see("y", "press U to undo")
            await seat.until(lambda: not marked(seat))
            await seat.press("7")
            assert "no findings" in seat.read
        check()


@pytest.mark.screen(writes=True)
async def test_a_finding_without_a_repair_says_so(seat: Seat) -> None:
    await seat.press("7")
    go_to(seat, "write-orphaned")
    await seat.press("P")
    assert "no repair mends this finding" in seat.said


async def test_a_store_that_may_charge_for_reads_is_checked_on_request(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SqliteStore, "lists_by_scan", True)
    async with sitting(store) as seat:
        assert "findings" not in seat.main.inspector.delays.names
        assert marked(seat) == []
        await seat.press("7")
        assert len(marked(seat)) == 1


async def test_a_check_that_fails_is_told_in_place_of_the_tab_before(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = Mock(side_effect=CkptError("the thread cannot be checked"))
    monkeypatch.setattr(thread_tabs, "read_findings", failing)
    async with sitting(sample) as seat:
        await seat.press("7", "z")
        assert seat.read == "the thread cannot be checked"
