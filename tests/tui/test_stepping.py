"""Stepping through a thread, and what stays where it is meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from ckpt_backends.model import CheckpointKey
from ckpt_backends.testing.screen import Seat, sit
from ckpt_cli.tui.panes.tree import ScrubberLine

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("before", [(), ("slash",), ("question_mark",)])
def test_ctrl_c_twice_leaves(sample: Path, before: tuple[str, ...]) -> None:
    async def look(seat: Seat) -> None:
        await seat.press(*before, "ctrl+c")
        assert seat.said == "press Ctrl-C again to quit"
        assert seat.app.is_running
        assert seat.app.return_code is None
        await seat.press("ctrl+c")
        assert seat.app.return_code == 0

    sit(sample, look)


def test_a_fold_stays_folded_while_the_cursor_rests_on_it(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        await seat.press("enter", "g", "j")
        at = seat.main.tree_pane.rows.cursor
        await seat.press("r")
        assert seat.sees("3 steps")
        assert seat.main.tree_pane.rows.cursor == at

    sit(sample, look)


def test_subgraphs_are_hidden_again_among_unfolded_steps(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        await seat.press("enter", "z", "o")
        assert not seat.sees("3 steps")
        assert not seat.sees("draft_days")
        await seat.press("a")
        assert seat.sees("draft_days")
        await seat.press("a")
        assert not seat.sees("3 steps")
        assert not seat.sees("draft_days")

    sit(sample, look)


def test_a_mark_does_not_shift_its_row(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        await seat.press("enter", "z", "g")
        before = seat.lines
        await seat.press("m")
        (row,) = [one for one in seat.lines if "▌" in one]
        assert row.replace("▌", " ", 1) in before

    sit(sample, look)


def test_state_keeps_its_value_from_step_to_step(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        document = seat.main.inspector.rows
        await seat.press("1")
        at = next(line for line, path in document.document.marks.items() if path == "itinerary")
        document.cursor = at
        await seat.rest()
        row = at - round(document.scroll_y)
        seen = set()
        await seat.press("escape")
        for _ in range(12):
            await seat.press("k")
            seen.add("itinerary" in document.document.marks.values())
        assert seen == {True, False}
        await seat.press("G")
        assert document.path == "itinerary"
        assert document.cursor - round(document.scroll_y) == row or document.scroll_y == 0
        # Another thread is read from its start.
        await seat.press("escape", "j")
        assert document.cursor == 0

    sit(sample, look, size=(120, 24))


def test_following_is_shown_and_follows_messages(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        document = seat.main.inspector.rows
        await seat.press("4", "f")
        assert "following the head" in seat.lines[0]
        assert document.cursor == len(document.lines) - 1
        await seat.press("1", "4")
        assert document.cursor == len(document.lines) - 1
        await seat.press("f")
        assert "following the head" not in seat.lines[0]

    sit(sample, look)


def test_going_to_a_checkpoint_ends_following(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        main = seat.main
        await seat.press("enter", "f", "5", "k", "enter")
        picture = main.tree_pane.rows.picture
        assert picture is not None
        assert main.tree_pane.rows.key not in (None, picture.head)
        assert "following the head" not in seat.lines[0]
        await seat.press("f")
        assert main.tree_pane.rows.key == picture.head
        await seat.pilot.click(ScrubberLine, offset=(0, 0))
        await seat.press("r")
        assert main.tree_pane.rows.key != picture.head
        assert "following the head" not in seat.lines[0]

    sit(sample, look)


def test_h_and_l_go_out_and_in_and_control_keys_by_half_pages(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        main = seat.main
        await seat.press("l")
        assert main.tree_pane.rows.has_focus
        await seat.press("l")
        assert main.inspector.rows.has_focus
        await seat.press("ctrl+d")
        half = main.inspector.rows.cursor
        assert 0 < half < main.inspector.rows.size.height
        await seat.press("ctrl+u", "h", "h")
        assert main.inspector.rows.cursor == 0
        assert main.threads_pane.rows.has_focus

    sit(sample, look)


def test_siblings_are_reached_and_the_ends_are_said(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        main = seat.main
        await seat.press("enter", "g", "less_than_sign")
        assert seat.said == "this is the first checkpoint"
        await seat.press("left_curly_bracket")
        assert seat.said == "no sibling: no other checkpoint has this parent"
        await seat.press("G")
        siblings: Sequence[str] = ()
        while len(siblings) < 2:
            await seat.press("less_than_sign")
            place, picture = main.place, main.tree_pane.rows.picture
            assert place is not None
            assert picture is not None
            known = picture.parentage[place.checkpoint_ns]
            siblings = known.siblings(place.checkpoint_id)
        assert len(siblings) == 2
        for key in ("left_curly_bracket", "right_curly_bracket", "left_curly_bracket"):
            before = main.place
            await seat.press(key)
            assert main.place != before
        await seat.press("left_curly_bracket")
        assert seat.said == "this is the oldest of 2 siblings"
        # Forward goes along this branch, to its end.
        for _ in range(20):
            await seat.press("greater_than_sign")
        assert seat.said == "this is the last checkpoint of its branch"

    sit(sample, look)


def test_forward_leads_where_the_way_back_began(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        main = seat.main
        await seat.press("enter", "o")
        picture = main.tree_pane.rows.picture
        assert picture is not None
        known = picture.parentage[""]
        (tip,) = [
            key
            for key in picture.keys
            if key is not None
            and key != picture.head
            and not key[0]
            and not [*known.forward(key[1], None)]
        ]
        main.jump(CheckpointKey("trip-to-kyoto", *tip))
        await seat.rest()
        way = []
        for _ in range(6):
            way.append(main.place)
            await seat.press("less_than_sign")
        for place in reversed(way):
            await seat.press("greater_than_sign")
            assert main.place == place

    sit(sample, look)


def test_a_step_from_a_call_goes_into_its_tree(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        main = seat.main
        await seat.press("enter", "g")
        rows = main.tree_pane.rows
        while (picture := rows.picture) and rows.cursor not in picture.inner:
            await seat.press("j")
        call = main.place
        assert call is not None
        await seat.press("less_than_sign")
        assert main.tree_pane.view.ns == call.checkpoint_ns
        assert main.place is not None
        assert main.place.checkpoint_ns == call.checkpoint_ns
        await seat.press("greater_than_sign")
        assert main.place == call
        await seat.press("escape")
        assert main.tree_pane.view.ns is None
        assert main.place == call

    sit(sample, look)
