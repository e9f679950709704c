"""Files that appear under their name only when they are complete and on disk.

Such a file is written under another name in the same folder, `.NAME.TOKEN.part`, and renamed. The
writer holds a lock on it, so that what a killed run left can be told from what a run still writes.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

_PART = re.compile(r"\.(?P<name>.+)\.[0-9a-f]+\.part", re.DOTALL)


@contextmanager
def writing(path: Path) -> Iterator[IO[bytes]]:
    """A new file that only its owner can read, renamed to `path` at the end. Raises `OSError`."""
    remove_unfinished(path.parent, path.name)
    part, file = _create(path)
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            part.replace(path)
        _sync_folder(path.parent)
    finally:
        with suppress(OSError):
            part.unlink()


def remove_unfinished(folder: Path, ending: str) -> None:
    """Remove what killed runs left of files whose names end so. Faults are ignored."""
    with suppress(OSError):
        for part in folder.glob(".*.part"):
            found = _PART.fullmatch(part.name)
            if found is not None and found["name"].endswith(ending):
                _remove_unlocked(part)


def _remove_unlocked(part: Path) -> None:
    with suppress(OSError):
        handle = os.open(part, os.O_RDWR | os.O_NOFOLLOW)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            part.unlink()
        finally:
            os.close(handle)


def _create(path: Path) -> tuple[Path, IO[bytes]]:
    """A new file, locked until it is closed where its file system has locks."""
    while True:
        part = path.with_name(f".{path.name}.{os.urandom(8).hex()}.part")
        file = os.fdopen(os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "wb")
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:
            return part, file
        # Another run took it for a leftover before it was locked.
        file.close()


def _sync_folder(folder: Path) -> None:
    """Have the new name of a file on disk, on systems that can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
