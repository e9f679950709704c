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
