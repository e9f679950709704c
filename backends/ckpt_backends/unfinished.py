"""Files that appear under their name only when they are complete and on disk.

A file is first written as `.NAME.TOKEN.part` in the same folder and then renamed. The writer holds
a lock on the `.part` file. A `.part` file without a lock was left by a killed run.
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
    """Open a new file that only its owner can read, and rename it to `path` at the end.

    Raises `OSError`.
    """
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
    """Remove the `.part` files of killed runs for file names with this ending. Ignores errors."""
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
    """Create a new `.part` file. It stays locked until closed, if the file system has locks."""
    while True:
        part = path.with_name(f".{path.name}.{os.urandom(8).hex()}.part")
        file = os.fdopen(os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "wb")
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:
            return part, file
        # Another run removed the file before it was locked: try again.
        file.close()


def _sync_folder(folder: Path) -> None:
    """Make sure that the rename is on disk, if the system supports that."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
