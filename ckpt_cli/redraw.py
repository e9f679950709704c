"""Draws a text again and again in the same place of a terminal; `q` ends it."""

from __future__ import annotations

import os
import select
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self, TextIO

_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
"""The other screen of the terminal, without a cursor; what was there before comes back."""
_BEGIN, _END = "\x1b[?2026h\x1b[H", "\x1b[J\x1b[?2026l"
"""Around a frame: the terminal shows it as a whole, and removes what is below it."""
_TICK = 0.25
"""Seconds after which a new size of the terminal is noticed."""


class Redraw:
    """The screen of a terminal while it is used as a `with` block."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._keys = _Keys()

    @property
    def size(self) -> tuple[int, int]:
        """The columns and lines of the terminal."""
        found = shutil.get_terminal_size()
        return found.columns, found.lines

    def draw(self, lines: Sequence[str]) -> None:
        """Show lines in place of the last ones; they must fit on the screen."""
        self._stream.write(_BEGIN + "\r\n".join(f"\x1b[K{one}" for one in lines) + _END)
        self._stream.flush()

    def wait(self, seconds: float) -> bool:
        """Wait, or until the terminal has another size. Returns whether to go on: no `q` came."""
        size, end = self.size, time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and self.size == size:
            if self._keys.ends(min(left, _TICK)):
                return False
        return True

    def __enter__(self) -> Self:
        self._keys.begin()
        self._stream.write(_ENTER)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._keys.restore()
        self._stream.write(_LEAVE)
        self._stream.flush()


class _Keys:
    """Keys that come one by one, without Enter; none if stdin is not a terminal."""

    def __init__(self) -> None:
        self._restore: Callable[[], Any] | None = None

    def begin(self) -> None:
        if not sys.stdin.isatty():
            return
        try:
            import termios
            import tty
        except ImportError:  # There is none on Windows.
            return
        number = sys.stdin.fileno()
        before = termios.tcgetattr(number)
        self._restore = lambda: termios.tcsetattr(number, termios.TCSADRAIN, before)
        tty.setcbreak(number)

    def restore(self) -> None:
        if self._restore is not None:
            self._restore()
            self._restore = None

    def ends(self, seconds: float) -> bool:
        """Wait for a key. Returns whether it is `q`, or the terminal is gone."""
        if self._restore is None:
            time.sleep(seconds)
            return False
        if not select.select([sys.stdin], [], [], seconds)[0]:
            return False
        typed = os.read(sys.stdin.fileno(), 64)
        return not typed or b"q" in typed or b"Q" in typed
