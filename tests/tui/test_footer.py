"""The keys in the last line of the screen."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
from textual.widgets._footer import FooterKey

from ckpt_backends.testing.screen import Seat, sit

pytestmark = pytest.mark.slow


def test_the_keys_are_those_of_the_pane_and_none_is_kept(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        for _ in range(5):
            await seat.press("enter", "enter")
            assert seat.sees(" Unfold ")
            await seat.press("escape", "escape")
            assert not seat.sees(" Unfold ")
        gc.unfreeze()
        gc.collect()
        kept = [one for one in gc.get_objects() if isinstance(one, FooterKey)]
        shown = seat.app.screen.query(FooterKey)
        assert [one for one in kept if one.app is seat.app and not one.is_attached] == []
        assert len(shown) < 10

    sit(sample, look)
