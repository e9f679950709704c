"""Open files that must be regular files: never a FIFO, a device or a socket."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import IO

from ckpt_backends.errors import StoreUnavailable


def check_regular(path: Path) -> None:
    """Raise `StoreUnavailable` if a path exists and is not a regular file. Links are followed."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return
    if not stat.S_ISREG(mode):
        raise _not_regular(path, mode)


def open_regular(path: Path) -> IO[bytes]:
    """Open a file for reading, without waiting for the writer of a FIFO.

    Raises `OSError` if it cannot be opened, and `StoreUnavailable` if it is not a regular file.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        raise _not_regular(path, mode)
    return os.fdopen(handle, "rb")


def _not_regular(path: Path, mode: int) -> StoreUnavailable:
    kinds = {
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a FIFO",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    kind = kinds.get(stat.S_IFMT(mode), "not a regular file")
    return StoreUnavailable(f"cannot read '{path}': it is {kind}", hint="give a regular file")
