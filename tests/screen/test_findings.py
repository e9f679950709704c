"""The findings of a thread on the screen: the tab, the marks in the tree, and the way there."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

from ckpt_backends.errors import CkptError, Unreadable
from ckpt_backends.sqlite.store import SqliteStore
from ckpt_backends.testing.screen import Seat, sitting
from ckpt_cli.queries.doctor import examine
from ckpt_cli.tui import context
from ckpt_cli.tui.context import CheckRules
from ckpt_cli.tui.tabs import thread as thread_tabs
from tests.kit.agents.two_questions import CONFIG, Two, asked
from tests.kit.command import SAMPLE, ckpt, ids_of

pytestmark = pytest.mark.engines

KYOTO = "trip-to-kyoto"
CHILD, GONE, _NEXT, DAMAGED, *_OLDER = ids_of(SAMPLE, KYOTO)


def execute(store: Path, statement: str, *values: Any) -> None:
    with closing(sqlite3.connect(store)) as file, file:
        file.execute(statement, values)


@pytest.fixture
def store(sample: Path) -> Path:
    """A checkpoint was removed and not its writes."""
    execute(sample, "DELETE FROM checkpoints WHERE checkpoint_id = ?", GONE)
    return sample


def marked(seat: Seat) -> list[str]:
    rows = seat.tree
    shown = [rows.line_at(at, 200).text for at in range(rows.count())]
    # The column before it is for the marked checkpoint.
    return [one for one in shown if one[1:2] == "!"]


def go_to(seat: Seat, code: str) -> None:
    """Set the cursor on a finding."""
    rows = seat.document
    rows.cursor = next(at for at, one in rows.document.findings.items() if one.code == code)


@pytest.mark.screen(writes=True)
async def test_findings_are_listed_and_lead_to_their_checkpoints_and_all_values_are_checked(
    seat: Seat, sample: Path
) -> None:
    # The thread is checked while its tree is shown.
    await seat.until(lambda: marked(seat))
    assert "checked 1 thread" not in seat.read
    await seat.see("7", "done, 2 findings")
    text = seat.read
    assert "checked 1 thread" in text
    assert len(marked(seat)) == 1
    assert seat.tree.found >= {("", CHILD)}
    assert seat.main.command_lines()[0] == f"ckpt -s {sample} doctor {KYOTO}"
    seat.document.cursor = seat.document.count()
    same = ckpt("-s", sample, "doctor", KYOTO, "-o", "json").json["findings"]
    fix = next(one["fix"] for one in same if one["code"] == "write-orphaned")
    # A long path may break the line.
    assert fix in " ".join(text.split())
    assert fix in seat.main.command_lines()
    listed = seat.document.document.findings.values()
    assert [one.code for one in listed] == [one["code"] for one in same]
    go_to(seat, "write-orphaned")
    await seat.press("P")
    assert "no repair mends this finding" in seat.said
    await seat.press("j", "enter")
    assert "this checkpoint is not stored" in seat.said
    go_to(seat, "parent-missing")
    await seat.press("j", "enter")
    assert seat.tree.has_focus
    assert seat.place.checkpoint_id == CHILD
    assert seat.main.inspector.tab == "findings"
    # It is checked again when it is refreshed or has changed.
    execute(sample, "DELETE FROM writes WHERE checkpoint_id = ?", GONE)
    await seat.press("1", "7")
    assert "write-orphaned" in seat.read
    execute(sample, "UPDATE checkpoints SET checkpoint = x'c1' WHERE checkpoint_id = ?", DAMAGED)
    await seat.press("r")
    assert "write-orphaned" not in seat.read
    assert "info parent-missing" in seat.read
    # Every value is checked on request.
    assert "v checks every value" in seat.read
    assert "body-unreadable" not in seat.read
    await seat.press("v")
    assert "error body-unreadable" in seat.read
    assert "v checks" not in seat.read
    assert ("", DAMAGED) in seat.tree.found
    assert seat.main.command_lines()[0] == f"ckpt -s {sample} doctor --deep {KYOTO}"
    execute(sample, "DELETE FROM checkpoints WHERE checkpoint_id = ?", CHILD)
    seat.main.threads_pane.load()
    await seat.until(lambda: "step-uncommitted" in seat.read)


async def test_a_finding_is_repaired_by_its_plan(tmp_path: Path) -> None:
    store, after_grace = tmp_path / "store.db", datetime.now(UTC) + timedelta(hours=1)
    with closing(sqlite3.connect(store, check_same_thread=False)) as file:
        two = Two(SqliteSaver(file))
        # An answer that the next question would get.
        two.make_stale()
        async with sitting(store, writes=True, now=after_grace) as seat:
            await seat.press("enter", "7")
            assert len(marked(seat)) == 1
            go_to(seat, "resume-stale")
            await seat.see("P", "Drop this answer?")
            await seat.see("y", "press U to undo")
            await seat.until(lambda: not marked(seat))
            await seat.press("7")
            assert "no findings" in seat.read
        assert asked(two.graph.invoke(None, CONFIG)) == ["second?"]


async def test_a_store_that_may_charge_for_reads_is_checked_on_request_and_no_other_thread(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = Mock(wraps=examine.check_thread)
    monkeypatch.setattr(thread_tabs, "check_thread", check)
    monkeypatch.setattr(SqliteStore, "lists_by_scan", True)
    # What a profile ignores is left out.
    ignoring = partial(CheckRules, ignored=frozenset({"write-orphaned"}))
    monkeypatch.setattr(context, "CheckRules", ignoring)
    async with sitting(store) as seat:
        assert "findings" not in seat.main.inspector.delays.names
        assert marked(seat) == []
        await seat.press("7", "1", "7")
        assert len(marked(seat)) == 1
        assert "write-orphaned" not in seat.read
        assert "parent-missing" in seat.read
    assert [one.args[0].thread_id for one in check.call_args_list] == [KYOTO]


async def test_what_cannot_be_checked_says_why(seat: Seat, monkeypatch: pytest.MonkeyPatch) -> None:
    await seat.press("z")
    for function, error, said in (
        ("check_thread", Unreadable("\x1b[31mencrypted"), "not checked completely: \\x1b[31menc"),
        ("read_findings", CkptError("it cannot be checked"), "it cannot be checked"),
    ):
        monkeypatch.setattr(thread_tabs, function, Mock(side_effect=error))
        await seat.press("7", "r")
        assert said in seat.read
