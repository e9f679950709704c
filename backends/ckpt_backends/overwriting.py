"""Overwrites files with zeros before the system frees their blocks.

A file that was replaced or deleted lives on while it is open. `OldFiles` opens files before that,
and overwrites them later, when no other process reads them any more.
"""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress
from pathlib import Path

from ckpt_backends import platform
from ckpt_backends.changes import BACKUPS, FREED_BLOCKS, Remaining, Remains
from ckpt_backends.errors import Closing, reason_of
from ckpt_backends.files import not_regular, sync_folder

_ZEROS = bytes(1 << 20)
_WAIT_SECONDS = 2.0
_PAUSE_SECONDS = 0.05


class OldFiles(Closing):
    """Files that are about to be replaced or deleted, held open to overwrite them later."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[Path, str]] = {}
        """The path and the label of each file by its descriptor."""
        self._done: dict[str, None] = {}
        self._places: dict[Remaining, None] = {}

    def hold(self, path: Path, label: str) -> None:
        """Open a file before it is replaced or deleted. One that cannot be opened remains.

        `label` says in a receipt what the file is, without an id.
        """
        try:
            self._held[_opened_for_overwriting(path)] = path, label
        except OSError as error:
            self._places[_remaining(label, f"it cannot be overwritten: {reason_of(error)}")] = None

    def overwrite(self) -> None:
        """Overwrite the held files that were replaced or deleted, and let go of all."""
        for handle, (path, label) in self._held.items():
            if _is_at(handle, path):
                continue
            if reason := _overwritten(handle):
                self._places[_remaining(label, reason)] = None
            else:
                self._done[f"overwrite {label}"] = None
        self.close()

    def remains(self) -> Remains:
        """Overwrite the held files. Returns what was overwritten since the start, and what not."""
        self.overwrite()
        return Remains(tuple(self._done), (*self._places, FREED_BLOCKS, BACKUPS))

    def close(self) -> None:
        """Let go of the files without overwriting them."""
        while self._held:
            os.close(self._held.popitem()[0])


def overwrite_and_remove(path: Path, label: str = "a removed file") -> tuple[Remaining, ...]:
    """Overwrite a file with zeros, wait until they are on disk, and delete it.

    `label` says in a receipt what the file is, without an id. A file with several names is only
    deleted under this one. No link is followed. Raises `OSError`, and `StoreUnavailable` if it is
    not a regular file.
    """
    handle = _opened_for_overwriting(path)
    try:
        facts = os.fstat(handle)
        if not stat.S_ISREG(facts.st_mode):
            raise not_regular(path, facts.st_mode, verb="overwrite")
        others = facts.st_nlink - 1
        if not others:
            _fill(handle)
        path.unlink()
    finally:
        os.close(handle)
    sync_folder(path.parent)
    return (_remaining(label, _named(others)),) if others else ()


def overwrite_left(path: Path, label: str, unused: float = 0) -> tuple[Remaining, ...]:
    """Do the same with a file that a killed writer may have left. Returns what remains of it.

    It remains if it was written in the last `unused` seconds. Raises `StoreUnavailable`.
    """
    try:
        if unused and time.time() - path.lstat().st_mtime < unused:
            return (Remaining(label, "they may be in use", is_reachable=True),)
        return overwrite_and_remove(path, label)
    except FileNotFoundError:
        return ()
    except OSError as error:
        return (Remaining(label, reason_of(error), is_reachable=True),)


def _opened_for_overwriting(path: Path) -> int:
    return os.open(path, os.O_WRONLY | platform.NOFOLLOW | platform.NONBLOCK | platform.PRIVATE)


def _is_at(handle: int, path: Path) -> bool:
    """Whether an open file is the one at a path."""
    with suppress(OSError):
        return os.path.samestat(os.fstat(handle), path.lstat())
    return False


def _overwritten(handle: int) -> str:
    """Overwrite a file that has no name any more. Returns why it was not overwritten, or `''`."""
    try:
        facts = os.fstat(handle)
        if facts.st_nlink:
            return _named(facts.st_nlink)
        if not _is_unread(handle):
            return "another process has it open"
        _fill(handle)
    except OSError as error:
        return reason_of(error)
    return ""


def _is_unread(handle: int) -> bool:
    """Wait until no other process has a file open. True if the system cannot tell.

    Overwriting it earlier would show zeros to an application that is reading it.
    """
    until = time.monotonic() + _WAIT_SECONDS
    while platform.is_open_elsewhere(handle):
        if time.monotonic() > until:
            return False
        time.sleep(_PAUSE_SECONDS)
    return True


def _fill(handle: int) -> None:
    """Overwrite a whole file with zeros. Raises `OSError`."""
    left = os.fstat(handle).st_size
    os.lseek(handle, 0, os.SEEK_SET)
    while left:
        left -= os.write(handle, _ZEROS[: min(left, len(_ZEROS))])
    os.fsync(handle)


def _named(number: int) -> str:
    """Why a file with other names is not overwritten."""
    names = "another name" if number == 1 else f"{number} other names"
    return f"the file has {names} (hard links), so it was not overwritten"


def _remaining(label: str, reason: str) -> Remaining:
    return Remaining(f"old contents of {label}", reason)
