"""The keys in the last line of the screen."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckpt_backends.testing.screen import Seat, sit
from ckpt_cli.tui.screens.dialogs import KeyLine

pytestmark = pytest.mark.slow


def test_the_keys_are_those_of_the_pane_and_can_be_clicked(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        for _ in range(3):
            await seat.press("enter", "enter")
            assert " Unfold " in seat.lines[-1]
            await seat.press("escape", "escape")
            assert " Unfold " not in seat.lines[-1]
        at = seat.lines[-1].index("Help")
        await seat.pilot.click(KeyLine, offset=(at, 0))
        await seat.rest()
        assert not isinstance(seat.app.screen, type(seat.main))

    sit(sample, look)
