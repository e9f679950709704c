"""What panes and screens that read share: questions, delays, errors, and no pauses."""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from textual.message import Message
from textual.notifications import SeverityLevel
from textual.timer import Timer
from textual.widget import Widget

from ckpt_backends.errors import CkptError, StoreUnavailable, Unreadable, Unsupported
from ckpt_backends.protocol import Store
from ckpt_cli.reading.store_worker import StoreWorker
from ckpt_cli.render.text import StyledLine, fit, line, safe_text, wrap

MOST = 200
"""Older messages are forgotten."""


@dataclass(frozen=True, slots=True)
class ScreenMessage:
    """One message of the screen."""

    at: datetime
    text: str
    is_error: bool

    @property
    def shown(self) -> str:
        """The text; errors also show without colours that they are errors."""
        return f"! {self.text}" if self.is_error else self.text


_WORDS: Sequence[tuple[re.Pattern[str], str]] = [
    (re.compile(pattern), words)
    for pattern, words in (
        (r"run the command again", "try again"),
        (r"check the thread with `ckpt history`", "check its tree"),
        (r"(or )?`ckpt show THREAD@REF` says why", "the tab Raw shows its bytes"),
        (r"`ckpt diff [^`]*--writes[^`]*` shows what", "the tab Writes shows what"),
        (r"`ckpt show --where` prints (a query|queries) for .*", "the tab Raw shows where it is"),
        (r"`ckpt rollback [^`]*` goes to any checkpoint", "B on a checkpoint goes back to it"),
        (r"`ckpt rollback [^`]*`", "press B on it"),
        (r"`ckpt fork [^`]*`", "press F on it"),
        (r"`ckpt ops list[^`]*` lists", "press O to list"),
        (r"`ckpt memory list[^`]*` lists the items", "press M to list the items"),
    )
]
"""What a hint for the command line means on the screen."""
_OPTION = re.compile(r"(^|\s)--[a-z]")


def screen_hint(error: CkptError) -> str:
    """Return the hint of an error with keys for commands; empty if it is about options only."""
    hint = error.hint or ""
    for pattern, words in _WORDS:
        hint = pattern.sub(words, hint)
    return "; ".join(part for part in hint.split("; ") if part and not _OPTION.search(part))


def screen_message(error: CkptError) -> str:
    """Return the message of an error without options of a command that was not typed."""
    return error.message.replace("--raw cannot be combined with", "bytes are not shown with")


def error_text(error: CkptError) -> str:
    """Return an error and its hint as one message."""
    return "; ".join(filter(None, (screen_message(error), screen_hint(error))))


_Answer = TypeVar("_Answer")

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


class Changed(Message):
    """What a pane says in the status line has changed."""


class StoreLost(Message):
    """The store cannot be reached."""

    def __init__(self, error: CkptError) -> None:
        super().__init__()
        self.error = error


class Delays:
    """What a widget does after a while, by name."""

    def __init__(self, widget: Widget) -> None:
        self._widget = widget
        self._timers: dict[str, tuple[Timer, bool]] = {}

    @property
    def is_waiting(self) -> bool:
        """Whether something is to be done soon, other than a refresh."""
        return not all(refreshes for _, refreshes in self._timers.values())

    @property
    def names(self) -> frozenset[str]:
        """What is to be done."""
        return frozenset(self._timers)

    def after(
        self, name: str, seconds: float, what: Callable[[], object], *, refreshes: bool = False
    ) -> None:
        """Call `what` after some seconds; a new call with the same name replaces an earlier one."""
        if name in self._timers:
            self._timers[name][0].stop()

        def run() -> None:
            # A stopped timer may still call once.
            if self._timers.pop(name, None) is not None:
                what()

        self._timers[name] = self._widget.set_timer(seconds, run), refreshes


async def ask(
    widget: Widget,
    worker: StoreWorker[Store],
    question: Callable[[Store], _Answer],
    otherwise: Callable[[CkptError], object],
) -> _Answer | None:
    """Return the answer of a worker; None after an error, with which `otherwise` is called."""
    try:
        return await worker.ask(question)
    except CkptError as error:
        tell_if_lost(widget, error)
        otherwise(error)
    return None


def tell_if_lost(widget: Widget, error: CkptError) -> None:
    """Post `StoreLost` if an error says that the store cannot be reached."""
    # What is unsupported or unreadable was answered by the store: asking again would not help.
    if isinstance(error, StoreUnavailable) and not isinstance(error, Unsupported | Unreadable):
        widget.post_message(StoreLost(error))


def say(widget: Widget, text: str, *, is_error: bool = False) -> None:
    """Show a message in place of the one before; markup is not parsed."""
    severity: SeverityLevel = "error" if is_error else "information"
    widget.notify(fit(safe_text(text), _LONGEST_MESSAGE), severity=severity, markup=False)


def show_error(widget: Widget, error: CkptError) -> None:
    """Show an error with its hint as a message."""
    say(widget, error_text(error), is_error=True)


def copy(widget: Widget, text: str) -> None:
    """Copy a text to the terminal's clipboard, and show it."""
    widget.app.copy_to_clipboard(text)
    say(widget, f"copied: {text}")


def error_lines(error: CkptError, width: int) -> Sequence[StyledLine]:
    """Return an error as lines, to show in place of what could not be read."""
    lines = [line((part, "error")) for part in wrap(safe_text(screen_message(error)), width)]
    if hint := screen_hint(error):
        lines += [line((part, "dim")) for part in wrap(safe_text(hint), width)]
    return lines
