"""Opening a SQLite file so that nothing can change it, and opening it for one change.

`mode=ro` is right wherever it works. A file in WAL mode needs its `-shm` file, which SQLite
makes beside it; where the folder cannot be written, `immutable=1` reads the main file alone.
That would miss rows that are still in a write-ahead log, and show what an unfinished transaction
wrote, so it is done only where there is neither a log nor a journal.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from shlex import quote as shell_quote
from stat import S_ISDIR
from urllib.parse import quote

from ckpt_backends.errors import StoreUnavailable, Unsupported, UsageError
from ckpt_backends.sqlite.errors import code_of, is_hot_journal, unavailable
from ckpt_backends.sqlite.journals import has_journal, has_log, journal_of, log_of
from ckpt_backends.sqlite.private_copy import copy_unchanged
from ckpt_backends.url import StoreUrl

_PARAMS = {"copy", "layout"}
_LAYOUTS = ("sqlite", "three-table", "three-table-latest")
_BUSY_SECONDS = 5.0
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Opened:
    """A read-only connection and what to do when it closes."""

    connection: sqlite3.Connection
    path: Path
    """The file that it reads."""
    notes: tuple[str, ...]
    cleanup: Callable[[], None]
    is_copy: bool = False
    is_immutable: bool = False
    """Read without locks, as it was when it was opened."""
    identity: tuple[int, int] | None = None
    """Which file was opened; None for a private copy."""


def open_read_only(url: StoreUrl) -> Opened:
    """Open the file that the URL names. With the parameter `copy=1`, a private copy of it.

    Raises `StoreUnavailable` for a file that is missing, unreadable, no database, or left in the
    middle of a transaction.
    """
    path = _path(url)
    if _is_copy(url):
        return _open_copy(path)
    for attempt in range(_TRIES):
        try:
            opened_file = identity(path)
            connection = _connect(path, "mode=ro")
            return Opened(connection, path, (), _nothing, identity=opened_file)
        except sqlite3.DatabaseError as error:
            # A journal can also vanish while SQLite looks at it, because its writer commits.
            if is_hot_journal(error) and attempt + 1 < _TRIES:
                continue
            code = code_of(error)
            if is_hot_journal(error) or code not in {
                sqlite3.SQLITE_CANTOPEN,
                sqlite3.SQLITE_READONLY,
            }:
                raise unavailable("cannot open", path, error) from error
            return _open_immutable(path, error)
    raise AssertionError  # pragma: no cover


def _open_immutable(path: Path, error: sqlite3.Error) -> Opened:
    """Open a file in a folder that cannot be written, where nothing but the file is to be read."""
    if _is_writable(path.absolute().parent):
        found = unavailable("cannot open", path, error)
        found.hint = "add --copy to read a private copy"
        raise found from error
    for is_there, beside in ((has_log, log_of(path)), (has_journal, journal_of(path))):
        if is_there(path):
            raise StoreUnavailable(
                f"cannot open '{path}': its folder cannot be written, and '{beside.name}' is"
                " needed to read it",
                hint="add --copy to read a private copy of both files",
            )
    try:
        connection = _connect(path, "mode=ro&immutable=1")
    except sqlite3.DatabaseError as second:
        raise unavailable("cannot open", path, second) from second
    notes = ("read without locks: its folder cannot be written",)
    return Opened(connection, path, notes, _nothing, is_immutable=True, identity=identity(path))


def open_for_writing(url: StoreUrl) -> sqlite3.Connection:
    """Open the file that the URL names for changing it; the journal mode stays as it is.

    What is deleted is overwritten with zeros. Raises `StoreUnavailable` for a file that is
    missing, no database, or cannot be read or written.
    """
    path = _path(url)
    if _is_copy(url):
        raise UsageError(
            f"cannot write to '{path}': a private copy (--copy) is read-only",
            hint="leave out --copy",
        )
    _check_writable(path)
    try:
        connection = sqlite3.connect(
            _uri(path, "mode=rw"), uri=True, timeout=_BUSY_SECONDS, isolation_level=None
        )
    except sqlite3.Error as error:
        raise unavailable("cannot open", path, error) from error
    try:
        _distrust(connection)
        connection.execute("PRAGMA secure_delete = ON").fetchone()
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error as error:
        connection.close()
        raise unavailable("cannot open", path, error) from error
    return connection


def _path(url: StoreUrl) -> Path:
    """The file that the URL names. Raises `UsageError` and `StoreUnavailable`."""
    unknown = sorted(set(url.params) - _PARAMS)
    if unknown:
        raise UsageError(
            f"unknown parameter '{unknown[0]}' of a SQLite store",
            hint=f"known: {', '.join(sorted(_PARAMS))}",
        )
    layout = url.params.get("layout", "sqlite")
    if layout not in _LAYOUTS:
        raise UsageError(
            f"no layout '{layout}' in SQLite files", hint=f"known: {', '.join(_LAYOUTS)}"
        )
    path = Path(url.path)
    _check_file(path)
    return path


def _is_copy(url: StoreUrl) -> bool:
    return url.params.get("copy") in {"1", "true"}


def _uri(path: Path, query: str) -> str:
    return f"file:{quote(os.fsencode(os.path.abspath(path)))}?{query}"


def _distrust(connection: sqlite3.Connection) -> None:
    """Run no function that the file's schema names, and believe no broken page."""
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")


def _check_file(path: Path) -> None:
    """Raise unless the path is a file that can be read. Never creates it, and never opens it.

    On POSIX, a process that closes any descriptor of a file loses all its locks on it, also those
    of its other connections: a writer elsewhere would then remove the log that they read. SQLite
    itself tells what kind of file it is (https://www.sqlite.org/howtocorrupt.html, 2.2).
    """
    try:
        facts = path.stat()
    except FileNotFoundError:
        hint = "`ckpt stores` lists the stores in this folder"
        raise StoreUnavailable(f"cannot open '{path}': no such file", hint=hint) from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise StoreUnavailable(f"cannot open '{path}': {reason}") from error
    if S_ISDIR(facts.st_mode):
        hint = f"name a file in it; `cd {shell_quote(str(path))} && ckpt stores` lists its stores"
        raise StoreUnavailable(f"cannot open '{path}': it is a folder", hint=hint)
    if not _may(path, os.R_OK):
        raise StoreUnavailable(f"cannot open '{path}': permission denied")


def _check_writable(path: Path) -> None:
    """Raise unless SQLite can write to the file and make its journal beside it."""
    folder = path.absolute().parent
    if not _may(path, os.W_OK):
        what, where = "permission denied", path
    elif not _is_writable(folder):
        what, where = f"permission denied for its folder '{folder}'", folder
    else:
        return
    if os.statvfs(where).f_flag & os.ST_RDONLY:
        what = "read-only file system"
    raise StoreUnavailable(
        f"cannot write to '{path}': {what}", hint="--dry-run shows the plan without writing"
    )


def _is_writable(folder: Path) -> bool:
    return _may(folder, os.W_OK | os.X_OK)


def _may(path: Path, mode: int) -> bool:
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


def identity(path: str | Path) -> tuple[int, int] | None:
    """Which file a path names now, as device and inode; None where there is none."""
    try:
        facts = os.stat(path)
    except OSError:
        return None
    return facts.st_dev, facts.st_ino


def _connect(path: Path, query: str) -> sqlite3.Connection:
    """Open and begin one read transaction, so that every answer is of one moment."""
    connection = sqlite3.connect(
        _uri(path, query), uri=True, timeout=_BUSY_SECONDS, isolation_level=None
    )
    try:
        connection.execute("PRAGMA query_only = ON")
        _distrust(connection)
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _open_copy(path: Path) -> Opened:
    """Copy the file, with its log and its journal, to a temporary folder and open that."""
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="ckpt-"))
    copy = folder / "copy.db"

    def remove() -> None:
        shutil.rmtree(folder, ignore_errors=True)

    try:
        was_rolled_back = copy_unchanged(path, copy, _connect)
        connection = _connect(copy, "mode=ro")
    except OSError as error:
        remove()
        raise StoreUnavailable(
            f"cannot copy '{error.filename or path}': {(error.strerror or str(error)).lower()}"
        ) from error
    except sqlite3.DatabaseError as error:
        remove()
        raise unavailable("cannot copy", path, error) from error
    except BaseException:
        remove()
        raise
    notes = ["read from a private copy"]
    if was_rolled_back:
        notes.append("an unfinished transaction of a killed process was rolled back in the copy")
    return Opened(connection, copy, tuple(notes), remove, is_copy=True)


def _nothing() -> None:
    """A connection to the file itself leaves nothing to clean up."""


def check_current(opened: Opened, url: StoreUrl) -> None:
    """Raise unless later changes can be seen: `Unsupported`, `StoreUnavailable`."""
    if opened.is_copy:
        raise Unsupported(
            f"cannot see changes of '{url}': it is read from a private copy (--copy)",
            hint="leave out --copy",
        )
    if opened.is_immutable:
        raise Unsupported(
            f"cannot see changes of '{url}': its folder cannot be written, so it is read without"
            " locks",
            hint="run ckpt as a user who can write to that folder",
        )
    if opened.identity not in (None, identity(url.path)):
        raise StoreUnavailable(
            f"'{url}' was removed or replaced by another file meanwhile", hint="open it again"
        )


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """One write transaction, with the engine's lock from its beginning."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise
