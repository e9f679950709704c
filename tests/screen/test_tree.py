"""The tree of a thread: folds, subgraphs, marks, columns, and what is read of long threads."""

import re
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from ckpt_backends.testing.official import config_of
from ckpt_backends.testing.screen import Seat, sitting
from ckpt_cli.tui.panes.tree import ScrubberLine
from tests.kit.command import ckpt

pytestmark = pytest.mark.engines


KYOTO = "trip-to-kyoto"


async def test_the_tree_is_that_of_show(sample: Path) -> None:
    drawn = ckpt("-s", sample, "--utc", "show", "--tree", KYOTO).out.splitlines()[3:]
    # The screen has other columns at the right, and more room for what a step changed.
    ends = re.compile(r"…?( +\d+ writes?)? +[\d:]+(–[\d:]+)?$")
    rows = [ends.sub("", one) for one in drawn if "Nov" not in one and one][:-1]
    async with sitting(sample, size=(200, 40)) as seat:
        shown = [one.text for one in seat.tree.lines]
        assert [one for one in rows if not any(row.startswith(one) for row in shown)] == []


async def test_into_a_subgraph_call_and_back_to_its_step(seat: Seat) -> None:
    await seat.press("enter")
    tree = seat.tree
    picture = seat.picture
    (call,) = picture.inner
    tree.cursor = call
    outside = tree.key
    await seat.see(
        "enter", "4 checkpoints", "> planner (Esc leaves)", "draft_days", "check_weather"
    )
    # The status of the thread is not that of the call.
    assert "done" not in seat.main.tree_pane.heading
    assert seat.place.checkpoint_ns.startswith("planner:")
    await seat.press("escape")
    assert tree.key == outside
    assert seat.sees("20 checkpoints")
    await seat.press("escape")
    assert seat.threads.has_focus


async def test_folds_open_and_subgraphs_are_drawn_inside(seat: Seat) -> None:
    await seat.see("enter z g j", "3 steps")
    await seat.press("enter")
    assert not seat.sees("3 steps")
    await seat.see("o", "3 steps")
    assert not seat.sees("draft_days")
    await seat.see("a", "draft_days")
    # Hidden again, the steps around them stay unfolded.
    await seat.press("a", "o")
    assert not seat.sees("3 steps")
    assert not seat.sees("draft_days")


async def test_a_fold_stays_folded_while_the_cursor_rests_on_it(seat: Seat) -> None:
    await seat.press("enter", "g", "j")
    at = seat.tree.cursor
    await seat.see("r", "3 steps")
    assert seat.tree.cursor == at


async def test_a_mark_is_seen_wherever_one_goes_and_does_not_shift_its_row(seat: Seat) -> None:
    await seat.press("enter")
    before = seat.lines
    await seat.press("m")
    (row,) = [one for one in seat.lines if "▌" in one]
    assert row.replace("▌", " ", 1) in before
    await seat.press("escape", "j", "2")
    assert seat.sees("marked trip-to-kyoto > step 12 ")
    assert seat.sees("trip-to-kyoto > step 12 · reply · f169 → step")


@pytest.mark.parametrize(
    ("size", "told", "untold"),
    [
        ((80, 40), ("42ms",), ("558 tok", "22:28")),
        ((120, 40), ("558 tok", "42ms", "22:28:27"), ()),
        ((200, 40), ("+1 ai: Hotel Kanra Kyoto is booked from 7 April", "558 tok", "42ms"), ()),
        ((60, 40), (), ("42ms", "558 tok")),
    ],
)
async def test_columns_are_shown_as_far_as_there_is_room(
    seat: Seat, size: tuple[int, int], told: tuple[str, ...], untold: tuple[str, ...]
) -> None:
    await seat.press("enter")
    (row,) = (one.text for one in seat.tree.lines if " 6a3c " in one.text)
    assert "book" in row
    assert all(one in row for one in told)
    assert not any(one in row for one in untold)
    assert len(row) <= seat.tree.room


async def test_waits_for_people_are_marked(seat: Seat) -> None:
    await seat.press("enter")
    (waited,) = (one for one in seat.tree.lines if "choose_hotel  hotel → Ryo" in one.text)
    assert "▒ 75ms" in waited.text
    (asked,) = (one for one in seat.tree.lines if "planner  ✓" in one.text)
    assert "▒" not in asked.text


async def test_the_line_of_the_thread_follows_the_cursor(seat: Seat) -> None:
    scrubber = seat.main.query_one(ScrubberLine)
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


async def test_a_click_goes_to_the_nearest_checkpoint(seat: Seat) -> None:
    for keys in (["enter"], ["o"]):
        await seat.press(*keys)
        width = seat.main.query_one(ScrubberLine).size.width
        cells = seat.picture.tree.scrubber.cells(width)
        for column in (0, 5, len(cells) // 2, len(cells) - 1):
            await seat.pilot.click(ScrubberLine, offset=(column, 0))
            await seat.rest()
            assert seat.tree.key == cells[column].key
            assert seat.main.inspector.shown is not None
            assert seat.main.inspector.shown[0].checkpoint_id == cells[column].key[1]
    assert seat.tree.has_focus


async def test_the_line_of_the_thread_tells_what_happened(seat: Seat) -> None:
    scrubber = seat.main.query_one(ScrubberLine)

    def text() -> str:
        return scrubber.render_line(0).text

    assert "┬" in text()
    assert "◆" in text()
    assert "▒" in text()
    await seat.press("j")
    assert text().endswith("?")
    await seat.type("/import")
    await seat.press("enter")
    assert text().endswith("✗")


class State(TypedDict, total=False):
    items: list[int]


async def test_the_next_question_of_the_same_task_is_shown(tmp_path: Path) -> None:
    store = tmp_path / "agent.db"

    def ask(_: State) -> State:
        interrupt("first?")
        interrupt("other?")
        return {}

    with SqliteSaver.from_conn_string(str(store)) as saver:
        builder: Any = StateGraph(State)
        graph = builder.add_node(ask).add_edge(START, "ask").compile(checkpointer=saver)
        graph.invoke({"items": []}, config_of("asks"))
        async with sitting(store) as seat:
            assert seat.sees("first?")
            graph.invoke(Command(resume="yes"), config_of("asks"))
            await seat.see("r", "other?")
            assert not seat.sees("? ask: first?")
