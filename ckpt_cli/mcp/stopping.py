"""End work whose answer nobody waits for any more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from threading import Event
from time import monotonic
from typing import TypeVar

from ckpt_backends.errors import CkptError

_Item = TypeVar("_Item")


class Stopped(CkptError):
    """A call took too long, or was cancelled."""


class Stopping:
    """Watches one call; a `Watcher`, and so it is told of each thread that long work looks at."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until = monotonic() + seconds
        self._cancelled = Event()

    def cancel(self) -> None:
        """Stop the work at its next item."""
        self._cancelled.set()

    def __call__(self, items: Iterable[_Item], /) -> Iterator[_Item]:
        """Yield the items. Raises `Stopped` once the call is cancelled or takes too long."""
        for one in items:
            if self._cancelled.is_set():
                raise Stopped("cancelled")
            if monotonic() > self._until:
                raise self.late()
            yield one

    def late(self) -> Stopped:
        """Return the error of a call that took too long."""
        return Stopped(
            f"stopped after {self._seconds:g} s",
            hint="ask for less: name threads, a filter or a time; or start ckpt mcp with a"
            " larger --timeout",
        )
