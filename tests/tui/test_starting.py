"""Keys that are pressed before there is something to show."""

from __future__ import annotations

import asyncio
from datetime import UTC
from pathlib import Path
from threading import Event
from typing import Any
from unittest.mock import patch

import pytest
from textual.app import App, ComposeResult

from ckpt_backends.protocol import Store
from ckpt_backends.testing.screen import Seat, sit
from ckpt_backends.url import parse_url
from ckpt_cli.reading.store import Opening
from ckpt_cli.tui.context import ScreenContext
from ckpt_cli.tui.panes.inspector import Inspector

pytestmark = pytest.mark.slow


class OnlyInspector(App[None]):
    """An inspector that is turned before its tabs are mounted."""

    def __init__(self, store: Path) -> None:
        super().__init__()
        self.context = ScreenContext(Opening(parse_url(str(store))), [], UTC, 0)

    def compose(self) -> ComposeResult:
        self.inspector = Inspector(self.context)
        self.inspector.turn("diff")
        assert self.inspector.tab == "diff"
        yield self.inspector


def test_a_tab_may_be_chosen_before_the_tabs_are_mounted(sample: Path) -> None:
    async def run() -> None:
        app = OnlyInspector(sample)
        async with app.run_test() as pilot:
            await pilot.pause()
            assert app.inspector.tab == app.inspector.tabs.active == "diff"

    asyncio.run(run())


def test_a_checkpoint_is_shown_where_its_tree_never_was(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        # On a narrow screen, the threads are shown alone.
        await seat.press("down", "1")
        assert seat.sees("step 3 · check_policy", "ask_approval")
        await seat.press("escape")
        assert seat.sees("Tree: 5 checkpoints", "lookup_order", "8d9f")

    sit(sample, look, size=(50, 24))


def test_keys_say_why_they_do_nothing_while_the_store_is_opened(sample: Path) -> None:
    class SlowOpening(Opening):
        def open(self, *args: Any, **kwargs: Any) -> Store:
            may_open.wait(60)
            return super().open(*args, **kwargs)

    may_open = Event()

    async def look(seat: Seat) -> None:
        for key in "dmyOvUPDBF":
            await seat.press_at_once(key)
            await seat.pilot.pause()
            assert seat.said == "the store is not open yet", key
        assert seat.main.inspector.tab == "findings"
        await seat.press_at_once("1", "escape", "escape")
        may_open.set()
        await seat.until(lambda: seat.sees("Tree: 20 checkpoints", "step 12 · reply"))

    async def no_rest(seat: Seat) -> None:
        await seat.pilot.pause()

    # The screen comes to rest only when the store is open.
    with patch.object(Seat, "rest", no_rest):
        sit(sample, look, opening=SlowOpening(parse_url(str(sample))), writes=True)
