"""What holds on each screen over the main one: how it is left, and what helps."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckpt_backends.testing.screen import Seat, sit
from ckpt_cli.tui.screens.dialogs import HelpScreen

pytestmark = pytest.mark.slow


async def opened(seat: Seat, key: str) -> None:
    await seat.press(key)
    if key == "S":
        # Letters are typed into the field of the pattern; matches have the keys.
        await seat.type("hotel")
        await seat.press("enter")
    assert seat.app.screen is not seat.main


@pytest.mark.parametrize(
    "key", ["i", "M", "S", *(pytest.param(one, marks=pytest.mark.slow) for one in "eOd")]
)
def test_a_screen_lists_its_keys_and_is_left_by_the_same_keys(sample: Path, key: str) -> None:
    async def look(seat: Seat) -> None:
        await seat.press("enter")
        for leaves in ("h", "q"):
            await opened(seat, key)
            screen = seat.app.screen
            await seat.press("question_mark")
            assert isinstance(seat.app.screen, HelpScreen)
            assert seat.sees("Close this screen")
            await seat.press(leaves)
            assert seat.app.screen is screen
            await seat.press(leaves)
            assert seat.app.screen is seat.main

    sit(sample, look)
