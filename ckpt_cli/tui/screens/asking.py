"""What screens that ask a store have in common: what they say, and what they put off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.notifications import SeverityLevel
from textual.screen import Screen, ScreenResultType
from textual.timer import Timer

from ckpt_backends.errors import CkptError
from ckpt_cli.render.cells import fit, wrap
from ckpt_cli.render.lines import Line, line
from ckpt_cli.render.text import safe_text

SOON = 0.05
"""Seconds that the cursor must rest before what it stands on is read."""
SHARE = 10
"""Looking at a store again takes no more than this fraction of the time."""
_SAID = 300
"""Cells of what is said for a few seconds."""


class Asking(Screen[ScreenResultType]):
    """A screen that reads besides itself."""

    READING: ClassVar[frozenset[str]] = frozenset()
    """Groups of what runs besides the screen and ends by itself."""
    AGAIN: ClassVar[frozenset[str]] = frozenset()
    """What is put off only to look at the store again."""

    def __init__(self) -> None:
        super().__init__()
        self._rest: dict[str, Timer] = {}

    @property
    def is_busy(self) -> bool:
        """Whether something is read, or about to be, for what the cursors stand on."""
        reading = any(one.group in self.READING and not one.is_finished for one in self.workers)
        return reading or not self._rest.keys() <= self.AGAIN

    def say(self, text: str, *, is_error: bool = False) -> None:
        """Say something for a few seconds, instead of what was said before; nothing is parsed."""
        self.app.clear_notifications()
        severity: SeverityLevel = "error" if is_error else "information"
        self.notify(fit(safe_text(text), _SAID), severity=severity, markup=False)

    def tell_error(self, error: CkptError) -> None:
        """Say what went wrong, and what to do about it."""
        hint = f"; {error.hint}" if error.hint else ""
        self.say(f"{error.message}{hint}", is_error=True)

    def copy(self, text: str) -> None:
        """Put a text into the terminal's clipboard, and show it."""
        self.app.copy_to_clipboard(text)
        self.say(f"copied: {text}")

    def later(self, name: str, seconds: float, what: Callable[[], object]) -> None:
        """Do something after a while, unless it is put off again before."""
        if (before := self._rest.get(name)) is not None:
            before.stop()

        def run() -> None:
            # One that was put off may come all the same, and finds that it is done.
            if self._rest.pop(name, None) is not None:
                what()

        self._rest[name] = self.set_timer(seconds, run)


def error_lines(error: CkptError, width: int) -> Sequence[Line]:
    """An error in the place of what could not be read, in so many cells."""
    lines = [line((part, "error")) for part in wrap(safe_text(error.message), width)]
    if error.hint:
        lines += [line((part, "dim")) for part in wrap(safe_text(error.hint), width)]
    return lines
