"""Base class of the screens over the main one, whose keys `?` lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.screen import Screen, ScreenResultType

from ckpt_cli.tui.keys import KeyGroup


class HelpedScreen(Screen[ScreenResultType]):
    """A screen with a list of its keys."""

    GROUPS: ClassVar[Sequence[KeyGroup]]

    def action_help(self) -> None:
        """Show the keys."""
        from ckpt_cli.tui.screens.text import HelpScreen

        self.app.push_screen(HelpScreen(self.GROUPS))
