"""Stepping through a thread of 10,000 checkpoints."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from ckpt_backends.testing.screen import Seat, sit
from tests.tui import budget_thread


@dataclass
class LongThread:
    store: Path
    ids: list[str]
    """Oldest first."""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> LongThread:
    store = tmp_path_factory.mktemp("long") / "agent.db"
    return LongThread(store, budget_thread.fill(store))


@pytest.fixture
def long(written: LongThread, tmp_path: Path) -> LongThread:
    return LongThread(Path(shutil.copy(written.store, tmp_path / "agent.db")), written.ids)


def test_steps_lead_back_and_forward_inside_folds_from_any_pane(long: LongThread) -> None:
    async def look(seat: Seat) -> None:
        main = seat.main
        at = budget_thread.STEPS - 1

        async def goes(key: str, by: int) -> None:
            nonlocal at
            at += by
            focused = main.focused
            await seat.press(key)
            assert main.place is not None
            assert main.place.checkpoint_id == long.ids[at]
            assert main.shown == (main.place, "state")
            assert main.focused is focused
            # It has a line of its own.
            picture = main.tree_rows.picture
            assert picture is not None
            assert len(picture.holds[main.tree_rows.cursor]) == 1

        for _ in range(6):
            await goes("less_than_sign", -1)
        await seat.press("1")
        await goes("less_than_sign", -1)
        await goes("greater_than_sign", 1)
        await seat.press("2", "1", "tab", "tab")
        await goes("greater_than_sign", 1)
        assert len(main.tree_rows.lines) < 10

    sit(long.store, look)
