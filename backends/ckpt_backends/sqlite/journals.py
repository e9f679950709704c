"""The files that SQLite creates next to a database: the write-ahead log and the rollback journal.

SQLite holds no locks on them, so they may be opened and closed freely. The database file must not
be opened that way (see `open._check_file`).
"""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path
from typing import BinaryIO

from ckpt_backends import shell
from ckpt_backends.errors import StoreUnavailable, reason_of
from ckpt_backends.files.regular_file import kind_of, open_regular
from ckpt_backends.model import Space
from ckpt_backends.sqlite.declaration import LOG_SUFFIX

_SUPER_MAGIC = bytes.fromhex("d9d505f920a163d7")
"""Ends a journal that names a super-journal (https://www.sqlite.org/fileformat.html, 3)."""
_LONGEST_NAME = 4096


def log_of(path: Path) -> Path:
    """The write-ahead log of a database."""
    return _beside(path, LOG_SUFFIX)


def journal_of(path: Path) -> Path:
    """The rollback journal of a database."""
    return _beside(path, "-journal")


def _beside(path: Path, suffix: str) -> Path:
    # SQLite creates these files next to the database itself, not next to a link to it.
    return Path(os.path.realpath(path) + suffix)


def check_beside(path: Path) -> None:
    """Raise `StoreUnavailable` if a file next to a database is not regular.

    SQLite would wait for the writer of a FIFO, and it follows no links to these files.
    """
    for suffix in (LOG_SUFFIX, "-shm", "-journal"):
        beside = _beside(path, suffix)
        try:
            mode = beside.lstat().st_mode
        except OSError:
            continue
        if not stat.S_ISREG(mode):
            raise StoreUnavailable(
                f"cannot open '{path}': '{beside.name}' is {kind_of(mode)}",
                hint=f"remove '{beside}': only SQLite creates this file",
            )


def has_shared_memory(path: Path) -> bool:
    """Whether the file is there in which connections to a database in WAL mode share an index."""
    return _beside(path, "-shm").exists()


def log_size(path: Path) -> int:
    """Bytes of the write-ahead log; 0 if there is none."""
    try:
        return log_of(path).stat().st_size
    except OSError:
        return 0


def space_of(path: Path, connection: sqlite3.Connection) -> Space:
    """Bytes on disk of a database with its write-ahead log.

    Raises `sqlite3.Error`, and `StoreUnavailable` if the file was removed meanwhile.
    """
    ((page_size,),) = connection.execute("PRAGMA page_size").fetchall()
    ((free,),) = connection.execute("PRAGMA freelist_count").fetchall()
    log = log_size(path)
    try:
        size = path.stat().st_size
    except OSError as error:
        raise StoreUnavailable(f"cannot read '{path}': {reason_of(error)}") from error
    return Space(size + log, free * page_size, log)


def has_log(path: Path) -> bool:
    """Whether the write-ahead log may contain rows; true if that is unknown."""
    return _size(log_of(path)) != 0


def has_journal(path: Path) -> bool:
    """Whether the rollback journal may contain a transaction; true if it cannot be read.

    A finished transaction leaves a journal of length 0 (`journal_mode` TRUNCATE) or one that begins
    with a zero byte (PERSIST).
    """
    journal = journal_of(path)
    if _size(journal) == 0:
        return False
    try:
        with open_regular(journal, follow=False) as file:
            return file.read(1) not in {b"", b"\0"}
    except FileNotFoundError:
        return False
    except (OSError, StoreUnavailable):
        return True


def _size(path: Path) -> int | None:
    """Size in bytes; 0 if the file is missing, None if it is not a file or not accessible."""
    try:
        facts = path.stat()
    except FileNotFoundError:
        return 0
    except OSError:
        return None
    return facts.st_size if stat.S_ISREG(facts.st_mode) else None


def detach_super_journal(journal: Path) -> None:
    """Make a copied journal independent of its super-journal.

    A transaction over several databases is committed when its super-journal is deleted. So if the
    super-journal does not exist, the copied journal is deleted. Otherwise the name of the
    super-journal is removed from the copy: SQLite would delete the named file after the rollback,
    and a journal can name any file.
    """
    name = _cut_super_journal(journal)
    if name is not None and not _size(Path(os.fsdecode(name))):
        journal.unlink()
        return
    while name is not None:
        name = _cut_super_journal(journal)


def _cut_super_journal(journal: Path) -> bytes | None:
    """Remove the name of the super-journal from the end of a journal. Returns it, or None."""
    with journal.open("r+b") as file:
        name = _super_journal(file)
        if name is not None:
            file.truncate(file.seek(0, os.SEEK_END) - 16 - len(name))
    return None if name is None else name.partition(b"\0")[0]


def check_super_journal(path: Path) -> None:
    """Raise `StoreUnavailable` if a database has a journal with the name of a super-journal.

    SQLite would delete the named file after the rollback, and a journal can name any file.
    """
    try:
        with open_regular(journal_of(path), follow=False) as file:
            name = _super_journal(file)
    except OSError:
        return
    if name is not None:
        raise StoreUnavailable(
            f"cannot write to '{path}': '{journal_of(path).name}' names another file, which SQLite"
            f" would delete: '{os.fsdecode(name)}'",
            hint=f"if that is a journal of SQLite, run: sqlite3 {shell.word(str(path))} .tables",
        )


def _super_journal(file: BinaryIO) -> bytes | None:
    """The name of the super-journal at the end of a journal, with any bytes that pad it."""
    end = file.seek(0, os.SEEK_END)
    if end < 16:
        return None
    file.seek(end - 16)
    length, checksum = int.from_bytes(file.read(4)), int.from_bytes(file.read(4))
    if file.read(8) != _SUPER_MAGIC or not 0 < length <= min(_LONGEST_NAME, end - 16):
        return None
    file.seek(end - 16 - length)
    name = file.read(length)
    return name if checksum in _checksums(name) else None


def _checksums(name: bytes) -> set[int]:
    """The possible checksums: bytes are signed on some machines and unsigned on others."""
    return {
        sum(name) % (1 << 32),
        sum(byte - 256 if byte > 127 else byte for byte in name) % (1 << 32),
    }


def truncate_log(connection: sqlite3.Connection) -> str:
    """Move the write-ahead log into the database and truncate it. Returns why not, or `''`."""
    try:
        ((busy, _, _),) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except sqlite3.Error as error:
        return str(error)
    return "another process uses the store" if busy else ""


def empty_log(connection: sqlite3.Connection, path: Path) -> str:
    """Move the write-ahead log into the database and truncate it to zero bytes.

    Returns a note if that was not possible, otherwise `''`.
    """
    why = truncate_log(connection)
    if not why:
        return ""
    log = log_of(path)
    again = shell.command("sqlite3", str(path.absolute()), "PRAGMA wal_checkpoint(TRUNCATE)")
    return (
        f"deleted text may remain in '{path}' and in '{log.name}', which keeps {log_size(path)}"
        f" bytes: {why}; later, run: {again}"
    )
