"""Keep the interpreter from pausing the screen."""

from __future__ import annotations

import gc
import sys

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
        self._last: tuple[object, int] = None, 0

    def loaded(self, of: object, number: int) -> None:
        """Note that objects of a thread or a store were loaded, about this number of them."""
        before, most = self._last
        if number < _LARGE or (of == before and number < most * _GROWTH):
            return
        self._last = of, number
        # What is garbage now would stay.
        gc.collect(1)
        gc.freeze()
