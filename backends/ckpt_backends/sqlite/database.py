"""Implements `WritableDatabase` for a SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from ckpt_backends.errors import StoreUnavailable
from ckpt_backends.model import Fault, Space
from ckpt_backends.sql.database import Loaded, QueryRow, RowRefused, Values, WritableDatabase
from ckpt_backends.sqlite.connect import (
    TEXT,
    Opened,
    bind,
    check_current,
    decode_text,
    quoted_name,
    stored_tables,
    transaction,
)
from ckpt_backends.sqlite.journals import empty_log, reading, space_of, writing
from ckpt_backends.url import StoreUrl

if TYPE_CHECKING:
    from ckpt_backends.changes import Remains
    from ckpt_backends.model import Progress


class _Callback:
    """The function that the engine calls; no cycle of references keeps the connection open."""

    function: Callable[..., bool]

    def __call__(self, *cells: bytes) -> bool:
        return self.function(*cells)


class SqliteDatabase(WritableDatabase):
    """A file, opened for reading or for changing."""

    calls_back = True
    insert_missing = "INSERT OR IGNORE INTO {table} ({columns}) VALUES ({values})"
    _errors = staticmethod(writing)

    def __init__(self, connection: sqlite3.Connection, url: StoreUrl) -> None:
        connection.text_factory = decode_text
        self._callback = _Callback()
        connection.create_function("ckpt_called", -1, self._callback, deterministic=True)
        self._url = url
        self._path = Path(url.path)
        self._connection: sqlite3.Connection | None = connection
        self._has_removed = False
        """Whether rows were removed or changed after the write-ahead log was last emptied."""

    def rows(self, query: str, values: Values) -> list[QueryRow]:
        with self._errors(self._url):
            return self._alive().execute(query, values).fetchall()

    def stream(self, query: str, values: Values, at_once: int = 200) -> Iterator[QueryRow]:  # noqa: ARG002
        with self._errors(self._url):
            # `yield from` would close the cursor of an unfinished result, perhaps after its
            # connection.
            for row in self._alive().execute(query, values):  # noqa: UP028
                yield row

    def text(self, name: str) -> str:
        return f"CAST(:{name} AS TEXT)"

    def mark(self, name: str) -> str:
        return f":{name}"

    def among(
        self, column: str, name: str, texts: Collection[str]
    ) -> tuple[str, dict[str, object]]:
        names, marks = _marks(name, len(texts))
        return f"{column} IN ({marks})", dict(zip(names, map(bind, texts), strict=True))

    def exact(self, column: str) -> str:
        return column

    def bytes_of(self, column: str) -> str:
        return f"length(CAST({column} AS BLOB))"

    def characters(self, column: str) -> str:
        return f"length({column})"

    def quoted(self, name: str) -> str:
        return quoted_name(name)

    def holds(self, column: str, names: Sequence[str]) -> str:
        # Text and NULL are left to the function that is called back.
        parts = (f"instr({column}, {self.mark(one)})" for one in names)
        return f"(typeof({column}) <> 'blob' OR {' OR '.join(parts)})"

    def called_back(self, function: Callable[..., bool], *columns: str) -> str:
        self._callback.function = function
        cells = (f"CAST(COALESCE({one}, '') AS BLOB)" for one in columns)
        return f"ckpt_called({', '.join(cells)})"

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
        thread_id: str | None = None,  # noqa: ARG002
        *,
        exclusive: bool = False,  # noqa: ARG002
    ) -> Iterator[None]:
        with writing(self._url), transaction(self._alive()):
            yield

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
        insert = f"INSERT INTO {sql} ({', '.join(map(quoted_name, columns))}) VALUES ({{}})"
        connection.execute("SAVEPOINT load")
        try:
            connection.executemany(insert.format(", ".join("?" * len(columns))), rows)
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
            cells = [bind(cell) if isinstance(cell, str) else cell for cell in row]
            try:
                self._alive().execute(insert.format(marks), cells)
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
        with reading(self._url):
            tables = stored_tables(self._alive())
        return [name for name, columns in tables.items() if "thread_id" in columns]

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


@lru_cache(64)
def _marks(name: str, number: int) -> tuple[list[str], str]:
    """The names of text parameters, and their placeholders in a list."""
    names = [f"{name}{n}" for n in range(number)]
    return names, ", ".join(f"CAST(:{one} AS TEXT)" for one in names)


class OpenedDatabase(SqliteDatabase):
    """A file, opened read-only."""

    _errors = staticmethod(reading)

    def __init__(self, opened: Opened, url: StoreUrl) -> None:
        super().__init__(opened.connection, url)
        # Decodes valid text five times as fast, and refuses all other.
        opened.connection.text_factory = str
        self._path = opened.path
        self._opened = opened

    def rows(self, query: str, values: Values) -> list[QueryRow]:
        return list(self.stream(query, values))

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
