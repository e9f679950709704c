"""Stepping through a thread, and what stays where it is meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckpt_backends.testing.screen import Seat, sit


@pytest.mark.parametrize("before", [(), ("slash",), ("question_mark",)])
def test_ctrl_c_twice_leaves(sample: Path, before: tuple[str, ...]) -> None:
    async def look(seat: Seat) -> None:
        await seat.press(*before, "ctrl+c")
        assert seat.said == "press Ctrl-C again to quit"
        assert seat.app.is_running
        assert not seat.app._exit
        await seat.press("ctrl+c")
        assert seat.app._exit

    sit(sample, look)
