"""What panes and screens that read share: questions, delays, errors, and no pauses."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.notifications import SeverityLevel
from textual.screen import Screen, ScreenResultType
from textual.timer import Timer

from ckpt_backends.errors import CkptError
from ckpt_cli.render.terminal.cell_width import fit, wrap
from ckpt_cli.render.terminal.safe_text import safe_text
from ckpt_cli.render.terminal.styled_text import StyledLine, line
from ckpt_cli.tui.messages import error_text, screen_hint, screen_message

_TURN = 0.001
"""Seconds that a reading thread may compute while the screen waits; Python's own 0.005 adds up to
a tenth of a second in one step.
"""
_LARGE = 1000
_GROWTH = 1.25


def share_often() -> None:
    """Let the thread of the screen run soon while other threads compute."""
    sys.setswitchinterval(_TURN)


class LoadedObjects:
    """Takes many objects out of garbage collection, once they are loaded.

    Threads and steps stay in memory for long, and looking through 10,000 of them stops the screen
    for a fifth of a second. They are still freed when nothing refers to them any more: only cycles
    among them are not found, and they have none.
    """

    def __init__(self) -> None:
        self._most = 0

    def loaded(self, number: int) -> None:
        """Note that about this number of objects was loaded.

        Only a larger load than any before counts: what is garbage now is never collected.
        """
        if number < max(_LARGE, self._most * _GROWTH):
            return
        self._most = number
        gc.collect(1)
        gc.freeze()


SOON = 0.05
"""Seconds that the cursor must rest before its line is read."""
SHARE = 10
"""Refreshing takes at most this fraction of the time: one part in 10."""
_LONGEST_MESSAGE = 300
"""Maximum number of characters of a message."""


class StoreScreen(Screen[ScreenResultType]):
    """A screen that reads in the background."""

    READING: ClassVar[frozenset[str]] = frozenset()
    """Groups of workers that read and end by themselves."""
    REFRESHING: ClassVar[frozenset[str]] = frozenset()
    """Delayed actions that only refresh."""

    def __init__(self) -> None:
        super().__init__()
        self._delayed: dict[str, Timer] = {}

    @property
    def is_busy(self) -> bool:
        """Whether something is being read, or will be soon, other than a refresh."""
        reading = any(one.group in self.READING and not one.is_finished for one in self.workers)
        return reading or not self._delayed.keys() <= self.REFRESHING

    def say(self, text: str, *, is_error: bool = False) -> None:
        """Show a message in place of the one before; markup is not parsed."""
        severity: SeverityLevel = "error" if is_error else "information"
        self.notify(fit(safe_text(text), _LONGEST_MESSAGE), severity=severity, markup=False)

    def show_error(self, error: CkptError) -> None:
        """Show an error with its hint as a message."""
        self.say(error_text(error), is_error=True)

    def copy(self, text: str) -> None:
        """Copy a text to the terminal's clipboard, and show it."""
        self.app.copy_to_clipboard(text)
        self.say(f"copied: {text}")

    def schedule(self, name: str, seconds: float, what: Callable[[], object]) -> None:
        """Call `what` after some seconds; a new call with the same name replaces an earlier one."""
        if (before := self._delayed.get(name)) is not None:
            before.stop()

        def run() -> None:
            # A stopped timer may still call once.
            if self._delayed.pop(name, None) is not None:
                what()

        self._delayed[name] = self.set_timer(seconds, run)


def error_lines(error: CkptError, width: int) -> Sequence[StyledLine]:
    """Return an error as lines, to show in place of what could not be read."""
    lines = [line((part, "error")) for part in wrap(safe_text(screen_message(error)), width)]
    if hint := screen_hint(error):
        lines += [line((part, "dim")) for part in wrap(safe_text(hint), width)]
    return lines
