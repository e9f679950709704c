"""Comparing two checkpoints: by the tab, side by side, and by the command line."""

from __future__ import annotations

import shlex
from pathlib import Path

from ckpt_backends.testing.screen import Seat, sit
from tests.support import ckpt


async def pairs(seat: Seat) -> list[list[str]]:
    """The two checkpoints that the tab, the command and the diff side by side name."""
    await seat.press("2")
    tab = [one.text for one in seat.main.inspector.document.lines[:2]]
    printed = ckpt(*shlex.split(seat.main.command_lines()[0])[1:]).out.splitlines()[:2]
    await seat.press("d")
    beside = seat.lines[1:3]
    await seat.press("escape", "escape")
    return [tab, printed, beside]


def test_the_mark_is_the_base_of_every_diff(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        await seat.press("enter", "k", "k", "k")
        to_parent = await pairs(seat)
        await seat.press("m")
        on_the_mark = await pairs(seat)
        await seat.press("G")
        to_mark = await pairs(seat)
        marked = seat.main.base
        assert marked is not None
        for found in (to_parent, on_the_mark, to_mark):
            assert found[1:] == found[:1] * 2
        assert on_the_mark == to_parent
        assert marked.checkpoint_id in to_mark[0][0]

    sit(sample, look, size=(200, 40))


def test_no_command_is_printed_for_a_diff_across_subgraphs(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        await seat.press("enter", "m")
        picture = seat.main.tree_rows.picture
        assert picture is not None
        (seat.main.tree_rows.cursor,) = picture.inner
        await seat.press("enter", "2")
        assert seat.main.place is not None
        assert seat.main.place.checkpoint_ns
        assert seat.sees("--- trip-to-kyoto", "+++ trip-to-kyoto")
        assert not any(" diff " in one for one in seat.main.command_lines())

    sit(sample, look, size=(200, 40))
