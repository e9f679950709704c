"""Reads a whole file with its time stamp, and replaces it atomically."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from stat import S_IMODE, S_ISREG

from ckpt_backends.errors import StoreChanged, StoreUnavailable, Unreadable

_MOST = 64 << 20
_TELLING = 1_000_000
"""Difference in nanoseconds that is still visible in a time in seconds as float."""
_HERE, _EXCHANGE = -100, 2
"""`AT_FDCWD` and `RENAME_EXCHANGE` of Linux."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A file as it was read."""

    path: Path
    """Without symbolic links."""
    raw: bytes
    stamp: tuple[int, int, int, int]
    """Device, inode, time of the last change in nanoseconds, size."""
    mode: int
    owner: tuple[int, int]


def read(path: Path) -> Snapshot:
    """Read a file. Raises `StoreUnavailable`, and `Unreadable` if it is not regular or too long."""
    try:
        whole = path.resolve(strict=True)
        # Do not wait for a pipe.
        with open(os.open(whole, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
            facts = os.fstat(file.fileno())
            if not S_ISREG(facts.st_mode):
                raise Unreadable(f"cannot read '{path}': not a regular file")
            raw = file.read(_MOST + 1)
    except (OSError, RuntimeError) as error:
        raise _unavailable("read", path, error) from error
    if len(raw) > _MOST:
        raise Unreadable(f"cannot read '{path}': longer than {_MOST >> 20} MiB")
    return Snapshot(whole, raw, _stamp(facts), S_IMODE(facts.st_mode), (facts.st_uid, facts.st_gid))


class Replacement:
    """Replaces a file if it has not changed since it was read.

    The new contents are first written to another file in the same folder. DeerFlow takes no lock on
    its files: it also writes another file and renames it. If the system can swap two names
    atomically, the old file is checked again after the swap, so no change of DeerFlow is lost. On
    other systems, a change within the same few microseconds is overwritten.
    """

    def __init__(self, before: Snapshot, raw: bytes) -> None:
        """Write the new contents to the disk. Raises `StoreUnavailable`."""
        self._before = before
        self._is_swapped = False
        path = before.path
        self._beside = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            with open(os.open(self._beside, flags, 0o600), "wb") as file:
                file.write(raw)
                if hasattr(os, "fchown"):
                    # Keep the owner, if permitted.
                    with suppress(PermissionError):
                        os.fchown(file.fileno(), *before.owner)
                os.chmod(self._beside, before.mode)
                file.flush()
                os.fsync(file.fileno())
                self._inode = os.fstat(file.fileno()).st_ino
            if abs(os.stat(self._beside).st_mtime_ns - before.stamp[2]) < _TELLING:
                # DeerFlow reloads a file when its time, a float, has changed.
                os.utime(self._beside, ns=(before.stamp[2], before.stamp[2] + _TELLING))
        except OSError as error:
            self.drop()
            raise _unavailable("write", path, error) from error

    def check(self) -> None:
        """Raise `StoreChanged` if the file changed since it was read."""
        if not _is_same(self._before.path, self._before):
            raise changed(self._before.path)

    def put(self) -> None:
        """Check again, and replace the file atomically.

        Raises `StoreChanged`, leaving the file of the other writer, and `StoreUnavailable`.
        """
        self.check()
        path = self._before.path
        try:
            self._is_swapped = exchange(self._beside, path)
            if not self._is_swapped:
                os.replace(self._beside, path)
            elif not _is_same(self._beside, self._before):
                self._is_swapped = False
                os.replace(self._beside, path)
                raise changed(path)
            _sync_folder(path.parent)
        except OSError as error:
            raise _unavailable("write", path, error) from error

    def take_back(self) -> None:
        """Restore the old file, unless another writer replaced the new one."""
        if self._is_swapped and os.stat(self._before.path).st_ino == self._inode:
            os.replace(self._beside, self._before.path)
            self._is_swapped = False

    def drop(self) -> None:
        """Remove the file next to it."""
        with suppress(OSError):
            self._beside.unlink()


def changed(path: Path) -> StoreChanged:
    """The error for a file that changed since it was read."""
    return StoreChanged(
        f"'{path}' changed meanwhile; nothing was written", hint="run the command again"
    )


def exchange(one: Path, other: Path) -> bool:
    """Swap the names of two files atomically.

    False, with nothing done, if the system or the file system cannot do that.
    """
    import ctypes

    try:
        swap = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError, TypeError):
        return False
    return bool(
        swap(_HERE, os.fsencode(one), _HERE, os.fsencode(other), ctypes.c_uint(_EXCHANGE)) == 0
    )


def _is_same(path: Path, before: Snapshot) -> bool:
    """Whether a file is the one that was read, unchanged, under any name."""
    try:
        now = read(path)
    except StoreUnavailable:
        return False
    return (now.stamp, now.raw) == (before.stamp, before.raw)


def _stamp(facts: os.stat_result) -> tuple[int, int, int, int]:
    return facts.st_dev, facts.st_ino, facts.st_mtime_ns, facts.st_size


def _sync_folder(folder: Path) -> None:
    """Make the new name survive a power failure."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unavailable(what: str, path: Path, error: Exception) -> StoreUnavailable:
    reason = (getattr(error, "strerror", None) or str(error)).lower()
    return StoreUnavailable(f"cannot {what} '{path}': {reason}")
