"""Reads a whole file with its time stamp, and replaces it atomically."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ckpt_backends.errors import StoreChanged, StoreUnavailable, Unreadable
from ckpt_backends.files.atomic_write import create_part, sync_folder, to_disk
from ckpt_backends.files.overwriting import OldFiles
from ckpt_backends.files.regular_file import open_regular

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


def read(path: Path) -> Snapshot:
    """Read a file. Raises `StoreUnavailable`, also if it is not regular or too long."""
    try:
        whole = path.resolve(strict=True)
        with open_regular(whole) as file:
            facts = os.fstat(file.fileno())
            # None if a file of the kernel has no data yet.
            raw = file.read(_MOST + 1) or b""
    except (OSError, RuntimeError) as error:
        raise _unavailable("read", path, error) from error
    if len(raw) > _MOST:
        raise Unreadable(f"cannot read '{path}': longer than {_MOST >> 20} MiB")
    return Snapshot(whole, raw, _stamp(facts))


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
        try:
            # Locked until it is dropped, so that no other run removes it.
            self._beside, self._file = create_part(path, like=path)
        except OSError as error:
            raise _unavailable("write", path, error) from error
        try:
            self._file.write(raw)
            to_disk(self._file)
            self._inode = os.fstat(self._file.fileno()).st_ino
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
            sync_folder(path.parent)
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
        with suppress(OSError):
            self._file.close()


def replace_or_remove(before: Snapshot, raw: bytes | None, old: OldFiles) -> None:
    """Replace a file, or remove it if the new contents are None; `old` holds it.

    Raises `StoreChanged` and `StoreUnavailable`.
    """
    old.hold(before.path)
    if raw is None:
        try:
            before.path.unlink()
            sync_folder(before.path.parent)
        except OSError as error:
            raise _unavailable("remove", before.path, error) from error
        return
    new = Replacement(before, raw)
    try:
        new.put()
    finally:
        new.drop()


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


def _unavailable(what: str, path: Path, error: Exception) -> StoreUnavailable:
    reason = (getattr(error, "strerror", None) or str(error)).lower()
    return StoreUnavailable(f"cannot {what} '{path}': {reason}")
