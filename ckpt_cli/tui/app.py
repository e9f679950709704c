"""The application, and the screen that it begins with."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar, Literal

from textual.app import App, SystemCommand
from textual.screen import Screen

from ckpt_cli.tui.desk import Desk
from ckpt_cli.tui.screens.main import MainScreen

Start = Literal["threads", "memory", "memory alone"]
"""What is seen first. Memory stands alone where nothing is known of its threads."""


class CkptApp(App[None]):
    """`ckpt tui`."""

    CSS_PATH = Path(__file__).parent / "theme.tcss"
    TITLE = "ckpt"
    ENABLE_COMMAND_PALETTE: ClassVar[bool] = True

    def __init__(self, desk: Desk, start: Start = "threads") -> None:
        super().__init__()
        # Over a slow line, and for whoever dislikes it, nothing moves by itself.
        self.animation_level = "none"
        self.desk = desk
        self._start = start

    def get_default_screen(self) -> Screen[Any]:
        if self._start == "memory alone":
            from ckpt_cli.tui.screens.memory import MemoryScreen

            return MemoryScreen(self.desk, alone=True)
        return MainScreen(self.desk)

    def on_mount(self) -> None:
        if self._start == "memory" and isinstance(self.screen, MainScreen):
            self.screen.action_memory()

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:  # noqa: ARG002
        """None of Textual's own stand in the palette before those of the screen."""
        return ()

    def on_unmount(self) -> None:
        self.desk.close()
