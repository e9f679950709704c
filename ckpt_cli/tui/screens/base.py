"""Base class of screens that read a store: messages and delayed actions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.notifications import SeverityLevel
from textual.screen import Screen, ScreenResultType
from textual.timer import Timer

from ckpt_backends.errors import CkptError
from ckpt_cli.render.text import StyledLine, fit, line, safe_text, wrap
from ckpt_cli.tui.messages import error_text, screen_hint, screen_message

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
