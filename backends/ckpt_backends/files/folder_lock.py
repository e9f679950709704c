"""Locks on a folder, against two changes of its files at the same time."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ckpt_backends.errors import StoreUnavailable, reason_of

_LOCK_SECONDS = 5.0
_PAUSE_SECONDS = 0.05


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold an exclusive lock on the folder. The system releases it when the process ends.

    Raises `StoreUnavailable` if another process holds it for `_LOCK_SECONDS`.
    """
    with _locked(folder, os.O_RDONLY | os.O_DIRECTORY, folder):
        yield


@contextmanager
def locked_by(file: Path) -> Iterator[None]:
    """Hold the lock that an application takes on a file to change the folder of that file.

    The file is made if it is missing. Raises `StoreUnavailable`.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    with _locked(file, flags, file.parent):
        yield


@contextmanager
def _locked(path: Path, flags: int, folder: Path) -> Iterator[None]:
    try:
        handle = os.open(path, flags | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise StoreUnavailable(f"cannot open '{path}': {reason_of(error)}") from error
    try:
        until = time.monotonic() + _LOCK_SECONDS
        while True:
            with suppress(BlockingIOError):
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            if time.monotonic() > until:
                raise StoreUnavailable(
                    f"cannot write to '{folder}': another process is writing to it",
                    hint="try again in a moment",
                )
            time.sleep(_PAUSE_SECONDS)
        yield
    finally:
        os.close(handle)
