"""Labels of the tabs at every width."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckpt_backends.testing.screen import Seat, sit
from ckpt_cli.tui.panes.inspector import tab_labels
from ckpt_cli.tui.tabs.content import TABS, Tab


@pytest.mark.parametrize("active", TABS)
def test_labels_fit_into_the_pane_and_differ(active: Tab) -> None:
    for width in range(28, 200):
        labels = tab_labels(width, active)
        assert sum(len(one) + 1 for one in labels) <= width
        assert len(set(labels)) == len(TABS)
        assert labels[TABS.index(active)][-3:].isalpha()


def test_no_label_is_cut_at_80_columns(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        await seat.press("enter", "0")
        (shown,) = (one for one in seat.lines if "State" in one)
        assert shown.split()[-10:] == [
            *("State", "Diff", "Writes", "Msgs", "Time", "Errs", "Finds", "Meta", "Raw", "Mem")
        ]
        # The line below a tab is as long as its label.
        tabs = seat.main.inspector.tabs
        assert all(tabs.query_one(f"#{one}").region.right <= 80 for one in TABS)
        await seat.pilot.resize_terminal(160, 40)
        await seat.rest()
        assert seat.sees("1 State 2 Diff 3 Writes 4 Messages 5 Timeline 6 Errors", "0 Memory")
        await seat.pilot.resize_terminal(40, 24)
        await seat.rest()
        assert seat.sees("1 2 3 4 5 6 7 8 9 0 Memory")

    sit(sample, look, size=(80, 24))
