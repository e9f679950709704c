"""What SQLite creates next to a database: the write-ahead log and the rollback journal; its errors.

SQLite holds no locks on them, so they may be opened and closed freely. The database file must not
be opened that way (see `database._check_file`).
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from struct import iter_unpack, unpack
from typing import BinaryIO

from ckpt_backends import platform, shell
from ckpt_backends.errors import (
    FILE_DAMAGED,
    ForeignFile,
    StoreChanged,
    StoreUnavailable,
    UnknownLayout,
    reason_of,
)
from ckpt_backends.files import kind_of, open_regular
from ckpt_backends.model import Space
from ckpt_backends.sql.database import text
from ckpt_backends.sqlite.declaration import LOG_SUFFIX
from ckpt_backends.url import StoreUrl

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
    return _bytes_in(log_of(path))


def _bytes_in(path: Path) -> int:
    try:
        return path.stat().st_size
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
    again = in_shell(path, "PRAGMA wal_checkpoint(TRUNCATE)")
    return (
        f"deleted text may remain in '{path}' and in '{log.name}', which keeps {log_size(path)}"
        f" bytes: {why}; later, run: {again}"
    )


# Converts SQLite's errors to errors with a readable reason and a hint.


_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def code_of(error: sqlite3.Error) -> int:
    """The primary result code: the low byte of an extended code."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def is_hot_journal(error: sqlite3.Error) -> bool:
    """Whether a killed writer's journal must be rolled back before the file can be read."""
    return getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_READONLY_ROLLBACK


@contextmanager
def readable_errors() -> Iterator[None]:
    """Raise a `sqlite3.Error` where SQLite's message is not UTF-8 and Python cannot raise it: it
    names a part of a damaged schema.
    """
    try:
        yield
    except UnicodeDecodeError as error:
        damaged = sqlite3.DatabaseError("malformed database schema")
        damaged.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise damaged from error


def unavailable(doing: str, path: Path, error: sqlite3.Error) -> StoreUnavailable:
    """The error to show; `doing` is the failed action, such as `cannot open`."""
    reason, hint = str(error), None
    code = code_of(error)
    if is_hot_journal(error):
        reason = f"a killed process left an unfinished transaction in '{journal_of(path).name}'"
        hint = (
            "add --copy to read a private copy with it rolled back;"
            f" `{in_shell(path)} .tables` rolls back the file itself, if you may write there"
        )
    elif code == sqlite3.SQLITE_NOTADB:
        return _foreign(doing, path)
    elif code in _BUSY:
        hint = "another process is writing to it; try again in a moment"
    elif code == sqlite3.SQLITE_CORRUPT:
        reason = f"{FILE_DAMAGED} ({error})"
        hint = f"`{recovery(path)}` saves what can still be read"
    elif code == sqlite3.SQLITE_FULL:
        hint = "free some disk space, then run the command again"
    return StoreUnavailable(f"{doing} '{path}': {reason}", hint=hint)


def recovery(path: Path) -> str:
    """The command that saves what can still be read of a damaged file into a new one."""
    return f"{in_shell(path)} .recover | sqlite3 recovered.db"


def contradiction(url: StoreUrl) -> StoreUnavailable:
    """The error for a row that an index finds, and whose table has another key."""
    error = sqlite3.DatabaseError("an index contradicts its table")
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return unavailable("cannot read", Path(url.path), error)


def in_shell(path: Path, *words: str) -> str:
    """The command that opens a database, or runs a statement, in SQLite's own shell."""
    return shell.command("sqlite3", str(path.absolute()), *words)


def _foreign(doing: str, path: Path) -> StoreUnavailable:
    """The error for a file that is no database; it says what it is instead, if that is known."""
    reason = "not a SQLite database"
    hint = "a store of another kind has a URL, such as postgresql://HOST/DB"
    name = path.name.removesuffix(LOG_SUFFIX)
    if name != path.name and path.with_name(name).exists():
        return UnknownLayout(
            f"{doing} '{path}': it is the write-ahead log of '{name}'",
            hint=f"open the database: -s {shell.word(str(path.with_name(name)))}",
        )
    if _begins(path, b"version https://git-lfs.github.com/"):
        reason = "it is a pointer of Git LFS, and the file itself is not here"
        hint = f"`{shell.command('git', 'lfs', 'pull', '--include', path.name)}` fetches it"
    return ForeignFile(f"{doing} '{path}': {reason}", hint=hint)


def _begins(path: Path, start: bytes) -> bool:
    try:
        with open_regular(path) as file:
            return file.read(len(start)) == start
    except (OSError, StoreUnavailable):
        return False


@contextmanager
def reading(url: StoreUrl) -> Iterator[None]:
    """Turn the engine's errors into `StoreUnavailable`."""
    try:
        with readable_errors():
            yield
    except sqlite3.Error as error:
        raise unavailable("cannot read", Path(url.path), error) from error


@contextmanager
def writing(url: StoreUrl) -> Iterator[None]:
    """Turn the engine's errors into `StoreChanged` or `StoreUnavailable`."""
    try:
        with readable_errors():
            yield
    except sqlite3.IntegrityError as error:
        raise StoreChanged(
            f"'{url}' changed meanwhile, so nothing was written: {error}",
            hint="run the command again",
        ) from error
    except sqlite3.Error as error:
        found = unavailable("cannot write to", Path(url.path), error)
        found.message += "; nothing was written"
        raise found from error


# A write-ahead log whose database is missing: what it is, and the database that its pages make.
#
# Until the first checkpoint of the log, it holds every page, and the database may be an empty
# file. If only one of the two was copied or committed, the log may still be all that is needed.
# Format: https://www.sqlite.org/fileformat2.html#the_write_ahead_log


_MAGIC = 0x377F0682
"""With the lowest bit set, checksums are of big-endian words."""
_HEADER, _FRAME = 32, 24
_PAGES = range(512, 65537)
_MODES = slice(18, 20)
"""Where a database says that it needs a log to be read (2), or not (1)."""


def lone_log(path: Path) -> Path | None:
    """The log that a path stands for: itself, or beside a database that is missing or empty.

    None if the path names anything else.
    """
    if not path.name.endswith(LOG_SUFFIX):
        return log_of(path) if not _bytes_in(path) and log_size(path) > _HEADER else None
    database = path.with_name(path.name.removesuffix(LOG_SUFFIX))
    return path if not _bytes_in(database) and _bytes_in(path) > _HEADER else None


def what_is(log: Path) -> StoreUnavailable:
    """The error for a log that is opened without `--copy`."""
    name = log.name.removesuffix(LOG_SUFFIX)
    return StoreUnavailable(
        f"cannot open '{log}': it is the write-ahead log of '{name}', which is missing or empty",
        hint="add --copy to rebuild the database from the log, in a private copy",
    )


def rebuild(log: Path, target: Path) -> int:
    """Write the database that the committed pages of a log make. Returns the number of pages.

    Raises `StoreUnavailable` if pages are missing, and OSError.
    """
    with open_regular(log) as file:
        size, pages, count = _committed(file)
        missing = count - sum(number <= count for number in pages)
        if not count or missing:
            held = (
                f"{count - missing:,} of its {count:,} pages" if count else "no whole transaction"
            )
            raise StoreUnavailable(
                f"cannot rebuild '{log.name.removesuffix(LOG_SUFFIX)}': its log holds {held}",
                hint="the rest was in the database file; look for a copy of it",
            )
        with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            for number in range(1, count + 1):
                file.seek(pages[number])
                page = bytearray(file.read(size))
                if number == 1:
                    page[_MODES] = b"\x01\x01"
                out.write(page)
    return count


def _committed(file: BinaryIO) -> tuple[int, dict[int, int], int]:
    """The size of a page, where the newest committed page of each number stands, and their count.

    The count is 0 if the file is no log or has no commit.
    """
    header = file.read(_HEADER)
    magic, _, size, *_ = unpack(">8I", header.ljust(_HEADER, b"\0"))
    order = ">" if magic & 1 else "<"
    if magic & ~1 != _MAGIC or size not in _PAGES or size & (size - 1):
        return 0, {}, 0
    sums = _checksum((0, 0), header[:24], order)
    if sums != unpack(">2I", header[24:]):
        return 0, {}, 0
    committed: dict[int, int] = {}
    pending: dict[int, int] = {}
    count = 0
    for number, pages_then, place in _frames(file, size, header[16:24], sums, order):
        pending[number] = place
        if pages_then:
            committed |= pending
            pending.clear()
            count = pages_then
    return size, committed, count


def _frames(
    file: BinaryIO, size: int, salt: bytes, sums: tuple[int, int], order: str
) -> Iterator[tuple[int, int, int]]:
    """Yield number, size of the database after a commit or 0, and place of each valid page."""
    place = _HEADER
    while len(frame := file.read(_FRAME + size)) == _FRAME + size:
        sums = _checksum(_checksum(sums, frame[:8], order), frame[_FRAME:], order)
        number, pages_then = unpack(">2I", frame[:8])
        # What a former use of the file left behind has another salt.
        if frame[8:16] != salt or sums != unpack(">2I", frame[16:24]) or not number:
            return
        yield number, pages_then, place + _FRAME
        place += len(frame)


def _checksum(sums: tuple[int, int], data: bytes, order: str) -> tuple[int, int]:
    one, two = sums
    for first, second in iter_unpack(f"{order}2I", data):
        one = (one + first + two) & 0xFFFFFFFF
        two = (two + second + one) & 0xFFFFFFFF
    return one, two


# Copies a file with its log and its journal, for `--copy`.
#
# The copy is used only if none of the three files changed while they were copied. SQLite rolls back
# the journal of a killed writer in the copy, so only committed transactions are read.


_TRIES = 3
_DATABASE_HEADER = 100
"""Bytes of a database's header, which contains the change counter. Logs have a shorter header."""
_PIECE = 1 << 20
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | platform.NOFOLLOW | platform.PRIVATE

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
    import shutil  # late: most files are read where they are

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
            header = file.read(_DATABASE_HEADER)
    except FileNotFoundError:
        return None
    return (facts.st_size, facts.st_mtime_ns, header) if facts.st_size else None


# Converts names, text and bytes for SQLite, where any column may contain any type.


TEXT = "CAST(? AS TEXT)"
"""The placeholder for an id. Ids are bound as bytes, because `sqlite3` binds only valid text."""


def bind(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a lone surrogate; no stored text can match it
        return text.encode("utf-8", "surrogatepass")


decode_text: Callable[[bytes], str] = partial(str, encoding="utf-8", errors="surrogateescape")
"""Called for each text of each row. For speed, it is not a Python function."""


def stored_bytes(value: object) -> bytes:
    """The cell as bytes; text becomes UTF-8, NULL becomes `b""`."""
    return value if isinstance(value, bytes) else bind(text(value))


def quoted_name(name: str) -> str:
    """The quoted name of a table or column for a query."""
    return '"' + name.replace('"', '""') + '"'
