"""Copies a SQLite file with its log and its journal, for `--copy`.

The copy is used only if none of the three files changed while they were copied. SQLite rolls back
the journal of a killed writer in the copy, so only committed transactions are read.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from ckpt_backends.errors import StoreUnavailable
from ckpt_backends.files import open_regular
from ckpt_backends.sqlite.journals import (
    detach_super_journal,
    has_journal,
    is_hot_journal,
    journal_of,
    log_of,
)

_TRIES = 3
_HEADER = 100
"""Bytes of a database's header, which contains the change counter. Logs have a shorter header."""
_PIECE = 1 << 20
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

Connect = Callable[[Path, str], sqlite3.Connection]


def copy_unchanged(path: Path, target: Path, connect: Connect) -> bool:
    """Copy a file at a moment when no process writes to it.

    Returns whether a transaction was rolled back in the copy. Raises `StoreUnavailable`, `OSError`
    and `sqlite3.Error`.
    """
    for _ in range(_TRIES):
        before = _stamps(path)
        is_hot = has_journal(path) and _is_hot(path, connect)
        for suffix_of in (log_of, journal_of):
            suffix_of(target).unlink(missing_ok=True)
        target.unlink(missing_ok=True)
        _copy(path, target, follow=True)
        if before[1]:
            _copy(log_of(path), log_of(target))
        if is_hot:
            _copy(journal_of(path), journal_of(target))
            detach_super_journal(journal_of(target))
            connect(target, "mode=rw").close()
        if _stamps(path) == before:
            return is_hot
    raise StoreUnavailable(
        f"cannot copy '{path}': another process is writing to it", hint="try again in a moment"
    )


def _copy(source: Path, target: Path, *, follow: bool = False) -> None:
    """Copy a regular file, as far as it goes now, to a new file that only its owner can read.

    Raises `OSError`, and `StoreUnavailable` if the disk has too little space.
    """
    with open_regular(source, buffering=0, follow=follow) as file:
        left = os.fstat(file.fileno()).st_size
        free = shutil.disk_usage(target.parent).free
        if left > free:
            raise StoreUnavailable(
                f"cannot copy '{source}': it has {left} bytes, and '{target.parent.parent}' has"
                f" {free} bytes free",
                hint="set TMPDIR to a folder with more space",
            )
        with open(os.open(target, _NEW, 0o600), "wb", buffering=0) as out:
            while left and (piece := file.read(min(left, _PIECE))):
                view = memoryview(piece)
                while view:
                    view = view[out.write(view) :]
                left -= len(piece)


def _is_hot(path: Path, connect: Connect) -> bool:
    """Whether a journal was left by a killed writer. SQLite finds out by the locks.

    If a running writer has the journal and the file can be read, its transaction is not in the file
    yet. If the file cannot be read, SQLite waits for the writer and then raises `sqlite3.Error`.
    """
    try:
        with closing(connect(path, "mode=ro")):
            return False
    except sqlite3.Error as error:
        if is_hot_journal(error):
            return True
        raise


def _stamps(path: Path) -> tuple[object, object, object]:
    """Stamps of the file, its log and its journal. At least one changes with each write."""
    return _stamp(path), _stamp(log_of(path)), _stamp(journal_of(path))


def _stamp(path: Path) -> tuple[int, int, bytes] | None:
    """Size in bytes, time of change in ns, and header; None if the file is empty or missing."""
    try:
        with open_regular(path) as file:
            facts = os.fstat(file.fileno())
            header = file.read(_HEADER)
    except FileNotFoundError:
        return None
    return (facts.st_size, facts.st_mtime_ns, header) if facts.st_size else None
