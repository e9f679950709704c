"""What the tree tells of each step, and the line with all of the thread."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckpt_backends.testing.screen import Seat, sit
from ckpt_cli.tui.panes.tree import ScrubberLine

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("columns", "told", "untold"),
    [
        (80, ("42ms",), ("558 tok", "22:28")),
        (120, ("558 tok", "42ms", "22:28:27"), ()),
        (200, ("+1 ai: Hotel Kanra Kyoto is booked from 7 April", "558 tok", "42ms"), ()),
        (60, (), ("42ms", "558 tok")),
    ],
)
def test_columns_are_shown_as_far_as_there_is_room(
    sample: Path, columns: int, told: tuple[str, ...], untold: tuple[str, ...]
) -> None:
    async def look(seat: Seat) -> None:
        tree = seat.main.tree_pane.rows
        await seat.press("enter")
        (row,) = (one.text for one in tree.lines if " 6a3c " in one.text)
        assert "book" in row
        assert all(one in row for one in told)
        assert not any(one in row for one in untold)
        assert len(row) <= tree.room

    sit(sample, look, size=(columns, 40))


def test_waits_for_people_are_marked(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        await seat.press("enter")
        (waited,) = (
            one for one in seat.main.tree_pane.rows.lines if "choose_hotel  hotel → Ryo" in one.text
        )
        assert "▒ 75ms" in waited.text
        (asked,) = (one for one in seat.main.tree_pane.rows.lines if "planner  ✓" in one.text)
        assert "▒" not in asked.text

    sit(sample, look)


def test_the_line_of_the_thread_follows_the_cursor(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        scrubber = seat.main.query_one(ScrubberLine)
        places = []
        await seat.press("enter", "o", "g")
        for _ in range(4):
            strip = scrubber.render_line(0)
            (at,) = (
                n for n, one in enumerate(strip) if one.style is not None and one.style.reverse
            )
            places.append(at)
            await seat.press("j")
        assert places == sorted(set(places))
        assert places[0] == 0
        assert strip.cell_length == scrubber.size.width

    sit(sample, look)


@pytest.mark.parametrize("is_unfolded", [True, False])
def test_a_click_goes_to_the_nearest_checkpoint(sample: Path, is_unfolded: bool) -> None:
    async def look(seat: Seat) -> None:
        scrubber = seat.main.query_one(ScrubberLine)
        await seat.press("enter")
        if is_unfolded:
            await seat.press("o")
        picture = seat.main.tree_pane.rows.picture
        assert picture is not None
        cells = picture.tree.scrubber.cells(scrubber.size.width)
        for column in (0, 5, len(cells) // 2, len(cells) - 1):
            await seat.pilot.click(ScrubberLine, offset=(column, 0))
            await seat.rest()
            assert seat.main.tree_pane.rows.key == cells[column].key
            assert seat.main.inspector.shown is not None
            assert seat.main.inspector.shown[0].checkpoint_id == cells[column].key[1]
        assert seat.main.tree_pane.rows.has_focus

    sit(sample, look)


def test_the_line_of_the_thread_tells_what_happened(sample: Path) -> None:
    async def look(seat: Seat) -> None:
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

    sit(sample, look)
