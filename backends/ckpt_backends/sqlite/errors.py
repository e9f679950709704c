"""Converts SQLite's errors to errors with a readable reason and a hint."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ckpt_backends import shell
from ckpt_backends.errors import (
    FILE_DAMAGED,
    ForeignFile,
    StoreChanged,
    StoreUnavailable,
    UnknownLayout,
)
from ckpt_backends.files.regular_file import open_regular
from ckpt_backends.sqlite.declaration import LOG_SUFFIX
from ckpt_backends.sqlite.journals import journal_of
from ckpt_backends.url import StoreUrl

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
            f" `{_opened(path)} .tables` rolls back the file itself, if you may write there"
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
    return f"{_opened(path)} .recover | sqlite3 recovered.db"


def contradiction(url: StoreUrl) -> StoreUnavailable:
    """The error for a row that an index finds, and whose table has another key."""
    error = sqlite3.DatabaseError("an index contradicts its table")
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return unavailable("cannot read", Path(url.path), error)


def _opened(path: Path) -> str:
    return shell.command("sqlite3", str(path.absolute()))


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
