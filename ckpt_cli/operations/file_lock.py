"""Locks of files: taken for a moment, and asked for without waiting."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from pathlib import Path
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


def is_locked(path: Path) -> bool:
    """Return whether a process holds a lock on a file. Raises `OSError` if it cannot be opened."""
    handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False
