"""Opens a SQLite file read-only, or for changing, and implements `WritableDatabase` for it.

Read-only means `mode=ro` if that works. A file in WAL mode needs an `-shm` file, which SQLite
creates in the same folder. If the folder is not writable, `immutable=1` reads the main file alone.
That would miss rows in a write-ahead log and show rows of an unfinished transaction, so it is used
only if there is no log and no journal.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Collection, Iterator, KeysView, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from urllib.parse import quote

from ckpt_backends import platform
from ckpt_backends.errors import StoreUnavailable, Unsupported, UsageError, reason_of
from ckpt_backends.files import not_regular, open_regular
from ckpt_backends.model import Fault, Space
from ckpt_backends.sql.database import Loaded, QueryRow, RowRefused, Values, WritableDatabase, text
from ckpt_backends.sqlite.journals import (
    TEXT,
    bind,
    check_beside,
    check_super_journal,
    code_of,
    copy_unchanged,
    decode_text,
    empty_log,
    has_log,
    has_shared_memory,
    is_hot_journal,
    log_of,
    log_size,
    lone_log,
    quoted_name,
    readable_errors,
    reading,
    rebuild,
    space_of,
    unavailable,
    what_is,
    writing,
)
from ckpt_backends.url import StoreUrl

if TYPE_CHECKING:
    from ckpt_backends.changes import Remains
    from ckpt_backends.model import Progress


_PARAMS = {"copy", "layout", "tables"}
_LAYOUTS = ("sqlite", "three-table", "three-table-latest")
_BUSY_SECONDS = 5.0
_TRIES = 3


class Opened(NamedTuple):
    """A read-only connection, and a function to call after it was closed."""

    connection: sqlite3.Connection
    path: Path
    """The file that it reads; may be a private copy."""
    notes: tuple[str, ...]
    cleanup: Callable[[], None]
    is_copy: bool = False
    was_rolled_back: bool = False
    """Whether an unfinished transaction of a killed process was rolled back in the copy."""
    is_immutable: bool = False
    """Whether the file is read without locks (`immutable=1`), so later changes are not seen."""
    identity: tuple[int, int] | None = None
    """Device and inode of the file; None for a private copy."""


_MADE: set[tuple[int, int]] = set()
"""The files beside which this process made a log and shared memory to read them."""


def open_read_only(url: StoreUrl) -> Opened:
    """Open the file that the URL names, or a private copy of it if the URL has `copy=1`.

    Raises `StoreUnavailable` if the file is missing, not readable, not a database, or has an
    unfinished transaction of a killed process.
    """
    _check_params(url)
    path = Path(url.path)
    if log := lone_log(path):
        if not _is_copy(url):
            raise what_is(log)
        return _open_copy(log, is_lone=True)
    _check_file(path)
    if _is_copy(url):
        return _open_copy(path)
    for attempt in range(_TRIES):
        try:
            opened_file = identity(path)
            made_files = not has_shared_memory(path)
            connection = _connect(path, "mode=ro")
            made_files &= has_shared_memory(path)
            if made_files and opened_file is not None:
                _MADE.add(opened_file)
            # The connection that made them may be closed before others of this process.
            tidy = partial(_remove_empty_log, path) if opened_file in _MADE else _nothing
            return Opened(connection, path, (), tidy, identity=opened_file)
        except sqlite3.DatabaseError as error:
            # The writer may also commit, and delete its journal, while SQLite examines it.
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
    """Open a file in a folder that is not writable. Raises `StoreUnavailable` if it has a log.

    `error` is the error of opening it with `mode=ro`. Of a hot journal, that would be another one.
    """
    if _is_writable(path.absolute().parent):
        found = unavailable("cannot open", path, error)
        found.hint = "add --copy to read a private copy"
        raise found from error
    if has_log(path):
        raise StoreUnavailable(
            f"cannot open '{path}': its folder cannot be written, and '{log_of(path).name}' is"
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
    """Open the file that the URL names for changing. The journal mode is not changed.

    Deleted data is overwritten with zeros (`secure_delete`). Raises `StoreUnavailable` if the file
    is missing, not a database, or cannot be read or written.
    """
    _check_params(url)
    path = Path(url.path)
    _check_file(path)
    _refuse_copy(url, path)
    _check_writable(path)
    check_super_journal(path)
    return _connect_for_writing(path, "mode=rw")


def open_for_creating(url: StoreUrl) -> sqlite3.Connection:
    """Open the file for changing as `open_for_writing` does, or make an empty one.

    A new file has the access that the process gives to all its files, as the savers' files have.
    """
    path = Path(url.path)
    if path.exists():
        return open_for_writing(url)
    _check_params(url)
    _refuse_copy(url, path)
    folder = path.absolute().parent
    if not folder.is_dir():
        raise StoreUnavailable(f"cannot create '{path}': there is no folder '{folder}'")
    if not _is_writable(folder):
        raise StoreUnavailable(f"cannot create '{path}': permission denied for '{folder}'")
    return _connect_for_writing(path, "mode=rwc")


def _refuse_copy(url: StoreUrl, path: Path) -> None:
    if _is_copy(url):
        raise UsageError(
            f"cannot write to '{path}': a private copy (--copy) is read-only",
            hint="leave out --copy",
        )


def _connect_for_writing(path: Path, query: str) -> sqlite3.Connection:
    try:
        return _connection(path, query, "PRAGMA secure_delete = ON")
    except sqlite3.Error as error:
        raise unavailable("cannot open", path, error) from error


def _check_params(url: StoreUrl) -> None:
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


def _is_copy(url: StoreUrl) -> bool:
    return url.params.get("copy") in {"1", "true"}


def _check_file(path: Path) -> None:
    """Raise `StoreUnavailable` unless the path is a readable file. Never creates or opens it.

    On POSIX, a process that closes any descriptor of a file loses all its locks on that file, even
    those of its SQLite connections. Another process could then remove the log that they read. See
    https://www.sqlite.org/howtocorrupt.html, 2.2.
    """
    try:
        facts = path.stat()
    except FileNotFoundError:
        hint = "`ckpt stores` lists the stores in this folder"
        raise StoreUnavailable(f"cannot open '{path}': no such file", hint=hint) from None
    except OSError as error:
        raise StoreUnavailable(f"cannot open '{path}': {reason_of(error)}") from error
    if S_ISDIR(facts.st_mode):
        from ckpt_backends import shell

        # Only an absolute path means the same to `cd` as to `open`.
        enter = shell.command("cd", str(path.absolute()))
        hint = f"name a file in it; `{enter} && ckpt stores` lists its stores"
        raise StoreUnavailable(f"cannot open '{path}': it is a folder", hint=hint)
    if not S_ISREG(facts.st_mode):
        raise not_regular(path, facts.st_mode, verb="open")
    check_beside(path)
    if not _may(path, os.R_OK):
        raise StoreUnavailable(f"cannot open '{path}': permission denied")
    if not facts.st_size and not _is_empty(path):
        raise StoreUnavailable(f"cannot open '{path}': it is a file of the kernel, not a database")


def _is_empty(path: Path) -> bool:
    """Whether a file of size 0 has no data. Files of the kernel, such as /proc/kmsg, may have."""
    try:
        with open_regular(path) as file:
            return file.read(1) == b""
    except OSError:
        return False


def _check_writable(path: Path) -> None:
    """Raise unless SQLite can write to the file and create a journal in its folder."""
    folder = path.absolute().parent
    if not _may(path, os.W_OK):
        what, where = "permission denied", path
    elif not _is_writable(folder):
        what, where = f"permission denied for its folder '{folder}'", folder
    else:
        return
    if platform.is_on_read_only_system(where):
        what = "read-only file system"
    raise StoreUnavailable(
        f"cannot write to '{path}': {what}", hint="--dry-run shows the plan without writing"
    )


def _is_writable(folder: Path) -> bool:
    return _may(folder, os.W_OK | os.X_OK)


def _may(path: Path, mode: int) -> bool:
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


def identity(path: str | Path) -> tuple[int, int] | None:
    """Device and inode of the file at a path; None if there is none."""
    try:
        facts = os.stat(path)
    except OSError:
        return None
    return facts.st_dev, facts.st_ino


def _connect(path: Path, query: str) -> sqlite3.Connection:
    """Connect and begin a read transaction, so all queries see the same snapshot."""
    return _connection(path, query, "PRAGMA query_only = ON", "BEGIN")


def _connection(path: Path, query: str, *statements: str, waits: bool = True) -> sqlite3.Connection:
    """Connect, and run these statements before the first read. Raises `sqlite3.Error`."""
    uri = f"file:{quote(os.fsencode(os.path.abspath(path)))}?{query}"
    seconds = _BUSY_SECONDS if waits else 0
    connection = sqlite3.connect(uri, uri=True, timeout=seconds, isolation_level=None)
    try:
        # Do not run functions that the file's schema names, and check pages for damage.
        for one in ("PRAGMA trusted_schema = OFF", "PRAGMA cell_size_check = ON", *statements):
            connection.execute(one).fetchone()
        with readable_errors():
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _open_copy(path: Path, *, is_lone: bool = False) -> Opened:
    """Copy the file, with its log and its journal, to a temporary folder and open that.

    Of a lone log, the copy is the database that it makes.
    """
    # Most files are read where they are.
    from ckpt_backends.files import TemporaryFolder

    folder = TemporaryFolder()
    copy = folder.path / "copy.db"
    was_rolled_back, notes = False, ["read from a private copy"]
    try:
        if is_lone:
            pages = rebuild(path, copy)
            notes = [f"read from the {pages:,} pages in '{path.name}', in a private copy"]
        else:
            was_rolled_back = copy_unchanged(path, copy, _connect)
        connection = _connect(copy, "mode=ro")
    except OSError as error:
        folder.remove()
        raise StoreUnavailable(
            f"cannot copy '{error.filename or path}': {reason_of(error)}"
        ) from error
    except sqlite3.DatabaseError as error:
        folder.remove()
        raise unavailable("cannot copy", path, error) from error
    except BaseException:
        folder.remove()
        raise
    if was_rolled_back:
        notes.append("an unfinished transaction of a killed process was rolled back in the copy")
    return Opened(
        connection, copy, tuple(notes), folder.remove, is_copy=True, was_rolled_back=was_rolled_back
    )


def _remove_empty_log(path: Path) -> None:
    """Remove the empty log and the shared memory that reading a file in WAL mode made.

    SQLite removes both when the last connection that may write is closed, after it has made sure by
    its locks that there is no other. What a writer has stored meanwhile is left to that writer.
    """
    if log_size(path) or not _may(path, os.W_OK):
        return
    with suppress(sqlite3.Error):
        _connection(path, "mode=rw", "PRAGMA query_only = ON", waits=False).close()


def _nothing() -> None:
    """The cleanup of a connection without a private copy: nothing to do."""


def check_current(opened: Opened, url: StoreUrl) -> None:
    """Raise `Unsupported` or `StoreUnavailable` if the connection cannot see later changes."""
    if opened.is_copy:
        raise Unsupported(
            f"cannot see changes of '{url}': it is read from a private copy (--copy)",
            hint="leave out --copy",
        )
    if opened.is_immutable:
        raise Unsupported(
            f"cannot see changes of '{url}', nor make any: permission denied for its folder"
            f" '{opened.path.absolute().parent}', so it is read without locks",
            hint="run ckpt as a user who can write to that folder",
        )
    if opened.identity not in (None, identity(url.path)):
        raise StoreUnavailable(
            f"'{url}' was removed or replaced by another file meanwhile", hint="open it again"
        )


_TABLES = """
    SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c
    WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
"""


class SqliteDatabase(WritableDatabase):
    """A file, opened for reading or for changing."""

    in_process = True
    insert_missing = "INSERT OR IGNORE INTO {table} ({columns}) VALUES ({values})"
    _errors = staticmethod(writing)

    def __init__(self, connection: sqlite3.Connection, url: StoreUrl) -> None:
        connection.text_factory = decode_text
        self._url = url
        self._path = Path(url.path)
        self._connection: sqlite3.Connection | None = connection
        self._has_removed = False
        """Whether rows were removed or changed after the write-ahead log was last emptied."""

    def rows(self, query: str, values: Values) -> list[QueryRow]:
        return list(self.stream(query, values))

    def stream(self, query: str, values: Values, at_once: int = 200) -> Iterator[QueryRow]:  # noqa: ARG002
        with self._errors(self._url):
            # `yield from` would close the cursor of an unfinished result, perhaps after its
            # connection.
            for row in self._alive().execute(query, values):  # noqa: UP028
                yield row

    def tables(self) -> dict[str, KeysView[str]]:
        """The tables of the file with their columns, in order."""
        found: dict[str, dict[str, None]] = {}
        for table, column in self.rows(_TABLES, {}):
            found.setdefault(text(table), {})[text(column)] = None
        return {name: columns.keys() for name, columns in found.items()}

    def text(self, name: str) -> str:
        return f"CAST(:{name} AS TEXT)"

    def mark(self, name: str) -> str:
        return f":{name}"

    def among(
        self, column: str, name: str, texts: Collection[str]
    ) -> tuple[str, dict[str, object]]:
        values: dict[str, object] = {f"{name}{n}": bind(one) for n, one in enumerate(texts)}
        return f"{column} IN ({', '.join(map(self.text, values))})", values

    def exact(self, column: str) -> str:
        return column

    def bytes_of(self, column: str) -> str:
        return f"length(CAST({column} AS BLOB))"

    def characters(self, column: str) -> str:
        return f"length({column})"

    def quoted(self, name: str) -> str:
        return quoted_name(name)

    def holds(self, column: str, names: Sequence[str]) -> str:
        # Text and NULL are read.
        parts = (f"instr({column}, {self.mark(one)})" for one in names)
        return f"(typeof({column}) <> 'blob' OR {' OR '.join(parts)})"

    def literal(self, text: str) -> str:
        from ckpt_backends.shell import is_shown  # late: few commands show a literal

        if is_shown(text):
            return "'" + text.replace("'", "''") + "'"
        return f"CAST(X'{bind(text).hex()}' AS TEXT)"

    def bound(self, cell: object) -> object:
        return bind(cell) if isinstance(cell, str) else cell

    def engine(self) -> str:
        return f"SQLite {sqlite3.sqlite_version}"

    def space(self, tables: Sequence[str]) -> Space:  # noqa: ARG002
        with reading(self._url):
            return space_of(self._path, self._alive())

    def restart(self) -> None:
        # The first read that follows takes the snapshot, and the lock.
        for query in ("ROLLBACK", "BEGIN"):
            self.rows(query, {})

    def finish_removal(self) -> str:
        """Empty the write-ahead log; see `WritableStore.finish_removal`."""
        self._has_removed = False
        return empty_log(self._alive(), Path(self._url.path))

    def close(self) -> None:
        if self._connection is not None:
            if self._has_removed:
                self.finish_removal()
            self._connection.close()
            self._connection = None

    @contextmanager
    def transaction(
        self,
        thread_ids: Sequence[str] = (),  # noqa: ARG002
        *,
        exclusive: bool = False,  # noqa: ARG002
    ) -> Iterator[None]:
        with writing(self._url):
            connection = self._alive()
            # Takes SQLite's write lock.
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise

    @contextmanager
    def holding_changes(self) -> Iterator[None]:
        connection = self._alive()
        ((mode,),) = connection.execute("PRAGMA journal_mode").fetchall()
        if mode == "wal":
            yield
            return
        # Pages that do not fit into the cache go to the file, which waits for all readers: also for
        # the one that reads what is to be changed.
        connection.execute("PRAGMA cache_spill = OFF")
        try:
            yield
        finally:
            connection.execute("PRAGMA cache_spill = ON")

    def change(self, query: str, values: Values) -> int:
        self._has_removed |= query.startswith(("DELETE", "UPDATE"))
        return self._alive().execute(query, values).rowcount

    def load(self, table: str, sql: str, columns: Sequence[str], rows: Sequence[Loaded]) -> None:  # noqa: ARG002
        connection = self._alive()
        insert = f"INSERT INTO {sql} ({', '.join(map(quoted_name, columns))}) VALUES "
        connection.execute("SAVEPOINT load")
        try:
            connection.executemany(f"{insert} ({', '.join('?' * len(columns))})", rows)
        except (UnicodeEncodeError, sqlite3.DataError, OverflowError):
            connection.execute("ROLLBACK TO load")
            self._load_odd(insert, rows)
        connection.execute("RELEASE load")

    def _load_odd(self, insert: str, rows: Sequence[Loaded]) -> None:
        """Add rows of which one has a text that is not valid Unicode, or cannot be stored.

        Such texts are bound as bytes, because `sqlite3` binds only valid ones.
        """
        for row in rows:
            marks = ", ".join(TEXT if isinstance(cell, str) else "?" for cell in row)
            try:
                self._alive().execute(f"{insert} ({marks})", [self.bound(cell) for cell in row])
            except (sqlite3.DataError, OverflowError) as error:
                raise RowRefused(row, str(error)) from None

    def given(self, table: str, column: str, name: str, cell: object) -> str:  # noqa: ARG002
        return self.text(name) if isinstance(cell, str) else self.mark(name)

    def is_given(self, table: str, column: str, name: str, cell: object) -> str:
        return f"{quoted_name(column)} IS {self.given(table, column, name, cell)}"

    def json_member(self, column: str, name: str) -> str:
        return f"json_extract({column}, '$.{name}')"

    def vacuum(self, tables: Sequence[str]) -> None:  # noqa: ARG002
        with writing(self._url):
            self._has_removed = True
            self._alive().execute("VACUUM")

    def tables_with_thread_ids(self) -> list[str]:
        return [name for name, columns in self.tables().items() if "thread_id" in columns]

    def erase_remains(
        self,
        tables: Sequence[str],  # noqa: ARG002
        *,
        rewrite: bool,  # noqa: ARG002
        progress: Progress,
    ) -> Remains:
        from ckpt_backends.sqlite.health import erase_remains

        self._has_removed = False
        with writing(self._url):
            return erase_remains(self._alive(), self._path, progress)

    def _alive(self) -> sqlite3.Connection:
        if self._connection is None:
            raise StoreUnavailable(f"'{self._url}' is closed")
        return self._connection


class OpenedDatabase(SqliteDatabase):
    """A file, opened read-only."""

    _errors = staticmethod(reading)

    def __init__(self, opened: Opened, url: StoreUrl) -> None:
        super().__init__(opened.connection, url)
        # Decodes valid text five times as fast, and refuses all other.
        opened.connection.text_factory = str
        self._path = opened.path
        self._opened = opened

    def stream(self, query: str, values: Values, at_once: int = 200) -> Iterator[QueryRow]:  # noqa: ARG002
        number = 0
        with self._errors(self._url):
            try:
                for row in self._alive().execute(query, values):
                    number += 1
                    yield row
                return
            except sqlite3.OperationalError as error:
                connection = self._alive()
                # An error of the engine has a code, that of a text has none.
                if hasattr(error, "sqlite_errorcode") or connection.text_factory is not str:
                    raise
                connection.text_factory = decode_text
            # All is read in one snapshot, so the rows are the same, and in the same order.
            for row in islice(connection.execute(query, values), number, None):
                yield row

    def view(self, named: Mapping[str, str]) -> None:
        """Let other names stand for tables, until the file is closed. Nothing is written to it."""
        for query in (
            *("ROLLBACK", "PRAGMA query_only = OFF"),
            *(
                f"CREATE TEMP VIEW {quoted_name(usual)} AS SELECT * FROM main.{quoted_name(own)}"
                for own, usual in named.items()
            ),
            *("PRAGMA query_only = ON", "BEGIN"),
        ):
            self.rows(query, {})

    def notes(self) -> Sequence[str]:
        return self._opened.notes

    def faults(self, tables: Sequence[str]) -> Iterator[Fault]:
        from ckpt_backends.sqlite.health import file_faults

        was_rolled_back = self._opened.was_rolled_back
        return file_faults(
            Path(self._url.path), self.space(tables), was_rolled_back=was_rolled_back
        )

    def damage(self, *, whole: bool) -> Iterator[Fault]:
        from ckpt_backends.sqlite.health import file_damage

        with reading(self._url):
            found = file_damage(self._alive(), Path(self._url.path), whole=whole)
        return iter(found)

    def restart(self) -> None:
        check_current(self._opened, self._url)
        super().restart()

    def close(self) -> None:
        if self._connection is not None:
            super().close()
            self._opened.cleanup()


_Kind = TypeVar("_Kind", bound=SqliteDatabase)


@contextmanager
def opening(database: _Kind) -> Iterator[tuple[_Kind, Mapping[str, KeysView[str]]]]:
    """A database and its tables. It is closed after any error."""
    try:
        yield database, database.tables()
    except BaseException:
        database.close()
        raise
