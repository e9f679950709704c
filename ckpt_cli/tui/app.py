"""The application: its lanes to the store, and the screen that it begins with."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from time import monotonic
from typing import ClassVar

from textual.app import App

from ckpt_cli.reading.opening import Opening
from ckpt_cli.tui.lane import Lane
from ckpt_cli.tui.screens.main import MainScreen

_PATIENCE = 1.0
"""Seconds that leaving takes at most."""


class CkptApp(App[None]):
    """`ckpt tui`."""

    CSS_PATH = Path(__file__).parent / "theme.tcss"
    TITLE = "ckpt"
    ENABLE_COMMAND_PALETTE: ClassVar[bool] = True

    def __init__(
        self, opening: Opening, store_words: Sequence[str], zone: tzinfo, pause: float
    ) -> None:
        super().__init__()
        # Over a slow line, and for whoever dislikes it, nothing moves by itself.
        self.animation_level = "none"
        self.opening = opening
        self.store_words = store_words
        """How a command line names the store."""
        self.zone = zone
        self.pause = pause
        """Seconds between two looks at the store; 0 for only when asked to."""
        self.lanes: list[Lane] = []
        self.searching = self.lane()

    def lane(self) -> Lane:
        """Another connection to the store."""
        found = Lane(lambda: self.opening.open(lambda _: None))
        self.lanes.append(found)
        return found

    def now(self) -> datetime:
        """The time, UTC."""
        return datetime.now(UTC)

    def get_default_screen(self) -> MainScreen:
        return MainScreen(self.lane(), self.lane(), self.lane())

    def on_unmount(self) -> None:
        for lane in self.lanes:
            lane.close()
        # A store that is at rest is closed at once; a long answer is not waited for.
        until = monotonic() + _PATIENCE
        for lane in self.lanes:
            lane.join(max(until - monotonic(), 0))
