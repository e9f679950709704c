"""The tree of a thread: folds, subgraphs, marks, columns, and what is read of long threads."""

import re
from pathlib import Path

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command

from ckpt_backends.testing.screen import Seat, sitting
from ckpt_cli.tui.panes.tree import ScrubberLine
from tests.kit.agents.two_questions import CONFIG, Two
from tests.kit.command import ckpt

pytestmark = pytest.mark.engines


async def test_the_tree_is_that_of_show(sample: Path) -> None:
    drawn = ckpt("-s", sample, "--utc", "show", "--tree", "trip-to-kyoto").out.splitlines()[3:]
    # The screen has other columns at the right, and more room for what a step changed.
    ends = re.compile(r"…?( +\d+ writes?)? +[\d:]+(–[\d:]+)?$")
    rows = [ends.sub("", one) for one in drawn if "Nov" not in one and one][:-1]
    async with sitting(sample, size=(200, 40)) as seat:
        shown = [one.text for one in seat.tree.lines]
        assert [one for one in rows if not any(row.startswith(one) for row in shown)] == []
        # Waits for people are marked.
        (waited,) = (one for one in shown if "choose_hotel  hotel → Ryo" in one)
        assert "▒ 75ms" in waited
        (asked,) = (one for one in shown if "planner  ✓" in one)
        assert "▒" not in asked


async def test_a_subgraph_call_is_entered_and_left_a_mark_is_seen_and_folds_open(
    seat: Seat,
) -> None:
    await seat.press("enter")
    (seat.tree.cursor,) = seat.picture.inner
    await seat.rest()
    call = seat.place
    for key in ("enter", "less_than_sign"):
        await seat.see(key, "> planner (Esc leaves)", "draft_days", "check_weather")
        # The status of the thread is not that of the call.
        assert "done" not in seat.main.tree_pane.heading
        assert seat.place.checkpoint_ns.startswith("planner:")
        await seat.press("escape")
        assert seat.place == call
        assert seat.sees("20 checkpoints")
    await seat.press("less_than_sign", "greater_than_sign")
    assert seat.place == call
    await seat.press("escape", "escape")
    assert seat.threads.has_focus

    await seat.press("enter", "G")
    before = seat.lines
    await seat.press("m")
    (row,) = [one for one in seat.lines if "▌" in one]
    assert row.replace("▌", " ", 1) in before
    # It does not shift its row, and is seen wherever one goes.
    await seat.press("escape", "j", "2")
    assert seat.sees("marked trip-to-kyoto > step 12 ")
    assert seat.sees("trip-to-kyoto > step 12 · reply · f169 → step")
    await seat.press("escape", "escape", "k")

    # Folds open, and subgraphs are drawn inside.
    await seat.see("enter z g j", "3 steps")
    # It stays folded while the cursor rests on it.
    await seat.see("r", "3 steps")
    await seat.press("enter")
    assert not seat.sees("3 steps")
    await seat.see("o", "3 steps")
    assert not seat.sees("draft_days")
    await seat.see("a", "draft_days")
    # Hidden again, the steps around them stay unfolded.
    await seat.press("a", "o")
    assert not seat.sees("3 steps")
    assert not seat.sees("draft_days")


async def test_the_line_of_the_thread_follows_the_cursor_and_is_clicked(seat: Seat) -> None:
    scrubber = seat.main.query_one(ScrubberLine)
    assert [one for one in "┬◆▒" if one not in scrubber.render_line(0).text] == []
    places = []
    await seat.press("enter", "o", "g")
    for _ in range(4):
        strip = scrubber.render_line(0)
        (at,) = (n for n, one in enumerate(strip) if one.style is not None and one.style.reverse)
        places.append(at)
        await seat.press("j")
    assert places == sorted(set(places))
    assert places[0] == 0
    assert strip.cell_length == scrubber.size.width
    # A click goes to the nearest checkpoint.
    await seat.press("o")
    cells = seat.picture.tree.scrubber.cells(scrubber.size.width)
    for column in (0, len(cells) // 2, len(cells) - 1):
        await seat.pilot.click(ScrubberLine, offset=(column, 0))
        await seat.rest()
        assert seat.tree.key == cells[column].key
        assert seat.main.inspector.shown is not None
        assert seat.main.inspector.shown[0].checkpoint_id == cells[column].key[1]
    assert seat.tree.has_focus
    await seat.press("escape", "j")
    assert scrubber.render_line(0).text.endswith("?")


async def test_the_next_question_of_the_same_task_is_shown(tmp_path: Path) -> None:
    store = tmp_path / "agent.db"
    with SqliteSaver.from_conn_string(str(store)) as saver:
        graph = Two(saver).graph
        graph.invoke({"log": []}, CONFIG)
        async with sitting(store) as seat:
            assert seat.sees("first?")
            graph.invoke(Command(resume="yes"), CONFIG)
            await seat.see("r", "second?")
            assert not seat.sees("? ask: first?")
