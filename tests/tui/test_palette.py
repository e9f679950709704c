"""The order of the palette and of the help."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.command import CommandList

from ckpt_backends.testing.screen import Seat, sit
from ckpt_cli.tui.keys import READING_GROUPS, WRITING_GROUPS, keys_by_use

pytestmark = pytest.mark.slow


def test_what_was_run_last_is_first_and_then_what_is_used_most() -> None:
    titles = [key.title for key in keys_by_use(READING_GROUPS, ["memory", "again"])]
    assert titles[:3] == ["Refresh", "Memory", "Diff"]
    assert titles.index("Errors") < titles.index("Tab State") < titles.index("Copy ref")
    assert "Palette" not in titles
    changing = [key.title for key in keys_by_use(WRITING_GROUPS, [])]
    assert sorted(set(changing) - set(titles)) == [
        *("Delete", "Fork", "Purge", "Repair", "Roll back", "Undo")
    ]


def test_the_palette_remembers_what_it_ran_in_this_session(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        await seat.press("colon")
        rows = seat.app.screen.query_one(CommandList)
        await seat.until(lambda: rows.option_count > 20)
        assert seat.sees("Diff (d)", "Diff side by side", "Tab State (1)")
        assert not seat.sees("Copy config (Y)")
        await seat.type("Copy config")
        await seat.press("enter")
        assert seat.said.startswith("copied: {")
        await seat.press("colon")
        again = seat.app.screen.query_one(CommandList)
        await seat.until(lambda: again.option_count > 20)
        assert "Copy config (Y)" in str(again.get_option_at_index(0).prompt)

    sit(sample, look)


@pytest.mark.parametrize("columns", [80, 200])
def test_the_help_begins_with_the_six_most_used_keys(sample: Path, columns: int) -> None:
    assert len(READING_GROUPS[0].rows) == 6
    names = [name for group in WRITING_GROUPS for name, _ in group.rows if name != "Enter"]
    assert sorted(set(names)) == sorted(names)

    async def look(seat: Seat) -> None:
        await seat.press("question_mark")
        assert seat.sees("Most used", *(text for _, text in READING_GROUPS[0].rows))
        await seat.press("G")
        # In two columns, all is seen at once.
        assert seat.sees("The marked checkpoint")
        assert seat.sees("Most used") == (columns == 200)

    sit(sample, look, size=(columns, 24 if columns == 80 else 60))
