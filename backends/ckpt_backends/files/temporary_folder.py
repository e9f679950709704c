"""Temporary folders that only their owner can enter, removed when the run ends.

Each folder is locked while it is in use. A folder without a lock was left by a killed run, and the
next run that makes a folder removes it.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import re
import stat
from contextlib import suppress
from pathlib import Path

from ckpt_backends.errors import StoreUnavailable, reason_of

_NAME = re.compile(r"ckpt-private-[0-9a-f]{16}")


class TemporaryFolder:
    """A new folder; removed by `remove`, at the end of a `with` block, or when the run ends."""

    def __init__(self) -> None:
        """Make the folder. Raises `StoreUnavailable`."""
        from tempfile import gettempdir  # late: few commands need a folder

        self._process = os.getpid()
        self._handle: int | None = None
        try:
            parent = Path(gettempdir())
            _remove_left(parent)
            self._make(parent)
        except OSError as error:
            raise StoreUnavailable(
                f"cannot make a temporary folder: {reason_of(error)}",
                hint="set TMPDIR to a folder that is writable",
            ) from error

    def _make(self, parent: Path) -> None:
        while True:
            self.path = parent / f"ckpt-private-{os.urandom(8).hex()}"
            # Added before it is there: a signal may come at any time.
            _ALIVE.add(self)
            try:
                self.path.mkdir(0o700)
            except OSError:
                _ALIVE.discard(self)
                raise
            self._handle = _locked(self.path)
            if self._handle is not None:
                return
            _ALIVE.discard(self)

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Remove the folder with everything in it."""
        # A forked process has the same object, but the folder is not its own.
        if self in _ALIVE and self._process == os.getpid():
            from shutil import rmtree

            rmtree(self.path, ignore_errors=True)
            if self._handle is not None:
                os.close(self._handle)
        _ALIVE.discard(self)


_ALIVE: set[TemporaryFolder] = set()
"""The folders of this process."""


@atexit.register
def remove_all() -> None:
    """Remove all folders of this process."""
    for one in list(_ALIVE):
        one.remove()


def _locked(folder: Path) -> int | None:
    """A descriptor that locks a folder, if that is possible; None if another run removed it."""
    with suppress(FileNotFoundError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        if folder.exists():
            return handle
        os.close(handle)
    return None


def _remove_left(parent: Path) -> None:
    """Remove this user's folders of killed runs. Ignores errors."""
    mode = parent.stat().st_mode
    if mode & 0o022 and not mode & stat.S_ISVTX:
        return  # Others could give any folder of this user such a name.
    with suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if _NAME.fullmatch(entry.name):
                _remove_unlocked(parent / entry.name)


def _remove_unlocked(folder: Path) -> None:
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            facts = os.fstat(handle)
            if facts.st_uid == os.geteuid() and stat.S_IMODE(facts.st_mode) == 0o700:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                from shutil import rmtree

                rmtree(folder, ignore_errors=True)
        finally:
            os.close(handle)
