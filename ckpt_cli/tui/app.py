"""The application, and the screen that it begins with."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

from textual.app import App, SystemCommand
from textual.screen import Screen

from ckpt_cli.tui.desk import Desk
from ckpt_cli.tui.screens.main import MainScreen


class CkptApp(App[None]):
    """`ckpt tui`."""

    CSS_PATH = Path(__file__).parent / "theme.tcss"
    TITLE = "ckpt"
    ENABLE_COMMAND_PALETTE: ClassVar[bool] = True

    def __init__(self, desk: Desk) -> None:
        super().__init__()
        # Over a slow line, and for whoever dislikes it, nothing moves by itself.
        self.animation_level = "none"
        self.desk = desk

    def get_default_screen(self) -> MainScreen:
        return MainScreen(self.desk)

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:  # noqa: ARG002
        """None of Textual's own stand in the palette before those of the screen."""
        return ()

    def on_unmount(self) -> None:
        self.desk.close()
