"""Ends an answer, and the process at SIGTERM and SIGHUP.

At a signal, everything is closed and removed as at Ctrl-C.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from ckpt_backends.platform import ENDING


class ReaderGone(Exception):
    """The reader of stdout closed it. Not an `OSError`, as reading may raise."""


class Ended(SystemExit):
    """A signal told this process to end."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number = number


@contextmanager
def restored(*numbers: int) -> Iterator[None]:
    """Restore the handlers of these signals at the end, whatever was installed meanwhile."""
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def heed(act: Callable[[int, FrameType | None], None]) -> None:
    """Call `act` at these signals, except those that the parent process made us ignore."""
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, act)


def unwind(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    """Raise `Ended`. Later signals are ignored, because the process is ending already."""
    for one in ENDING:
        signal.signal(one, signal.SIG_IGN)
    raise Ended(number)


def leave(number: int, frame: FrameType | None = None) -> None:  # noqa: ARG001
    """Remove temporary folders, and end as if the signal had not been caught."""
    if temporary := sys.modules.get("ckpt_backends.files"):
        temporary.remove_all()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
