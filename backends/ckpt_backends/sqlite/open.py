"""Opening a SQLite file so that nothing can change it.

`mode=ro` is right wherever it works. A file in WAL mode needs its `-shm` file, which SQLite
makes beside it; where the folder cannot be written, `immutable=1` reads the main file alone.
That would miss rows still in a write-ahead log, so it is done only when there is no log.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISDIR
from urllib.parse import quote

from ckpt_backends.errors import StoreChanged, StoreUnavailable, Unsupported, UsageError
from ckpt_backends.url import StoreUrl

_PARAMS = {"copy", "layout"}
_LAYOUTS = ("sqlite", "three-table", "three-table-latest")
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_BUSY_SECONDS = 5.0
_TRIES = 3
_HEADER = 100
"""Bytes of a file's header, which holds its change counter; a log's is shorter."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A read-only connection and what to do when it closes."""

    connection: sqlite3.Connection
    notes: tuple[str, ...]
    cleanup: Callable[[], None]
    frozen: bool = False
    """Whether what is written meanwhile is never seen."""
    identity: tuple[int, int] | None = None
    """Which file was opened; None for a private copy."""


def open_read_only(url: StoreUrl) -> Opened:
    """Open the file that the URL names. With the parameter `copy=1`, a private copy of it.

    Raises `StoreUnavailable` for a file that is missing, unreadable or no database.
    """
    path = _path(url)
    if url.params.get("copy") in {"1", "true"}:
        return _open_copy(path)
    try:
        opened_file = identity(path)
        return Opened(_connect(path, "mode=ro"), (), _nothing, identity=opened_file)
    except sqlite3.DatabaseError as error:
        if _sqlite_code(error) not in {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY}:
            raise _unavailable(path, error) from error
    if _has_log(path):
        raise StoreUnavailable(
            f"cannot open '{path}': its folder cannot be written, and it has a write-ahead log",
            hint="add --copy to read a private copy of the file and its log",
        )
    try:
        connection = _connect(path, "mode=ro&immutable=1")
    except sqlite3.DatabaseError as error:
        raise _unavailable(path, error) from error
    notes = ("read without locks: its folder cannot be written",)
    return Opened(connection, notes, _nothing, frozen=True)


def open_for_writing(url: StoreUrl) -> sqlite3.Connection:
    """Open the file that the URL names for changing it; the journal mode stays as it is.

    Raises `StoreUnavailable` for a file that is missing, unreadable or no database.
    """
    path = _path(url)
    try:
        connection = sqlite3.connect(
            _uri(path, "mode=rw"), uri=True, timeout=_BUSY_SECONDS, isolation_level=None
        )
    except sqlite3.Error as error:
        raise _unavailable(path, error) from error
    try:
        _distrust(connection)
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error as error:
        connection.close()
        raise _unavailable(path, error) from error
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


def _uri(path: Path, query: str) -> str:
    return f"file:{quote(os.fsencode(os.path.abspath(path)))}?{query}"


def _distrust(connection: sqlite3.Connection) -> None:
    """The file is not trusted: no function of its schema runs, no broken page is believed."""
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")


def _check_file(path: Path) -> None:
    """Raise unless the path is a file that can be read. Never creates it, and never opens it.

    On POSIX, a process that closes any descriptor of a file loses all its locks on it, also those
    of its other connections: a writer elsewhere would then remove the log that they read. What
    kind of file it is, SQLite itself tells (https://www.sqlite.org/howtocorrupt.html, 2.2).
    """
    try:
        facts = path.stat()
    except FileNotFoundError:
        hint = "a mistyped path is never created; `ckpt stores` lists the stores of this folder"
        raise StoreUnavailable(f"cannot open '{path}': no such file", hint=hint) from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise StoreUnavailable(f"cannot open '{path}': {reason}") from error
    if S_ISDIR(facts.st_mode):
        hint = f"name a file in it; `cd {path} && ckpt stores` lists its stores"
        raise StoreUnavailable(f"cannot open '{path}': it is a folder", hint=hint)
    if not os.access(path, os.R_OK):
        raise StoreUnavailable(f"cannot open '{path}': permission denied")


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
    """Copy the file and its log to a temporary folder and open that.

    A copy is only used if neither changed while it was made.
    """
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="ckpt-"))

    def remove() -> None:
        shutil.rmtree(folder, ignore_errors=True)

    try:
        _copy_unchanged(path, folder / "copy.db")
        connection = _connect(folder / "copy.db", "mode=ro")
    except OSError as error:
        remove()
        raise StoreUnavailable(f"cannot copy '{path}': {error.strerror or error}") from error
    except sqlite3.DatabaseError as error:
        remove()
        raise _unavailable(path, error) from error
    except BaseException:
        remove()
        raise
    return Opened(connection, ("read from a private copy",), remove, frozen=True)


def _copy_unchanged(path: Path, target: Path) -> None:
    """Copy a file with its log while nobody writes to it. Raises `StoreUnavailable`."""
    for _ in range(_TRIES):
        before = _stamps(path)
        if before[2]:  # a rollback journal: half of a transaction may be in the file
            break
        log = _beside(target, "-wal")
        log.unlink(missing_ok=True)
        shutil.copyfile(path, target)
        if before[1]:
            shutil.copyfile(_beside(path, "-wal"), log)
        if _stamps(path) == before:
            return
    raise StoreUnavailable(
        f"cannot copy '{path}': another process is writing to it", hint="try again in a moment"
    )


def _stamps(path: Path) -> tuple[object, object, object]:
    """What changes when someone writes: of the file, its log and its rollback journal."""
    return _stamp(path), _stamp(_beside(path, "-wal")), _stamp(_beside(path, "-journal"))


def _stamp(path: Path) -> tuple[int, int, bytes] | None:
    """Size, time and header; None for a file that is empty or not there."""
    try:
        facts = path.stat()
        with path.open("rb") as file:
            header = file.read(_HEADER)
    except FileNotFoundError:
        return None
    return (facts.st_size, facts.st_mtime_ns, header) if facts.st_size else None


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _has_log(path: Path) -> bool:
    try:
        return _stamp(_beside(path, "-wal")) is not None
    except OSError:
        return True  # there is one, and it cannot be read


def _sqlite_code(error: sqlite3.Error) -> int:
    """The primary result code; extended codes hold it in their low byte."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _unavailable(path: Path, error: sqlite3.Error) -> StoreUnavailable:
    hint = None
    if _sqlite_code(error) == sqlite3.SQLITE_NOTADB:
        return StoreUnavailable(
            f"cannot open '{path}': not a SQLite database",
            hint="a store of another kind is named by a URL, such as sqlite:///agent.db",
        )
    if _sqlite_code(error) in _BUSY:
        hint = "another process is writing to it; try again in a moment"
    return StoreUnavailable(f"cannot open '{path}': {error}", hint=hint)


def _nothing() -> None:
    """A connection to the file itself leaves nothing to clean up."""


def check_current(opened: Opened, url: StoreUrl) -> None:
    """Raise unless what is written meanwhile can be seen: `Unsupported`, `StoreUnavailable`."""
    if opened.frozen:
        raise Unsupported(
            f"'{url}' is read as it was: {', '.join(opened.notes)}",
            hint="leave out --copy, or read the file where its folder can be written",
        )
    if opened.identity not in (None, identity(url.path)):
        raise StoreUnavailable(
            f"'{url}' was removed or replaced by another file meanwhile", hint="open it again"
        )


@contextmanager
def reading(url: StoreUrl) -> Iterator[None]:
    """Turn the engine's errors into `StoreUnavailable`."""
    try:
        yield
    except sqlite3.Error as error:
        raise StoreUnavailable(
            f"cannot read '{url}': {error}",
            hint="if the file is damaged, `sqlite3 FILE .recover` saves what is left",
        ) from error


@contextmanager
def writing(url: StoreUrl) -> Iterator[None]:
    """The same for a change: `StoreChanged` or `StoreUnavailable`."""
    try:
        yield
    except sqlite3.IntegrityError as error:
        raise StoreChanged(
            f"'{url}' changed meanwhile, so nothing was written: {error}",
            hint="run the command again",
        ) from error
    except sqlite3.Error as error:
        hint = None
        if _sqlite_code(error) in _BUSY:
            hint = "another process is writing to it; try again in a moment"
        message = f"cannot write to '{url}': {error}; nothing was written"
        raise StoreUnavailable(message, hint=hint) from error


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
