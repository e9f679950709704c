"""Locks a file for a moment, and waits for other processes no longer than that."""

from __future__ import annotations

import errno
import fcntl
import time
from typing import IO

_PATIENCE = 5.0
"""Seconds to wait. A process holds the lock for milliseconds, unless it was stopped."""
_PAUSE = 0.01


def lock(file: IO[bytes]) -> None:
    """Lock a file until it is closed.

    Raises `OSError` if another process keeps it locked for some seconds.
    """
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise OSError(errno.EAGAIN, "another process keeps it locked") from None
            time.sleep(_PAUSE)
        else:
            return
