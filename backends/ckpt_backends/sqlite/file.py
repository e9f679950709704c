"""What a SQLite file does that is opened for reading, or for changing, whatever it holds."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ckpt_backends.closing import Closing
from ckpt_backends.errors import StoreChanged, StoreUnavailable, Unsupported
from ckpt_backends.rows import Row
from ckpt_backends.sqlite.binding import decode_text, quoted_name, text
from ckpt_backends.sqlite.open import Opened, identity
from ckpt_backends.url import StoreUrl

_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


class FileReader(Closing):
    """A SQLite file, opened for reading."""

    def __init__(self, opened: Opened, url: StoreUrl) -> None:
        self._opened = opened
        self._url = url
        self._connection: sqlite3.Connection | None = opened.connection
        # Not all text in a file need be UTF-8; what is not survives a round trip this way.
        opened.connection.text_factory = decode_text

    def _whole_rows(self, table: str, where: str, bound: Iterable[object]) -> Iterator[Row]:
        """Rows with all columns that the table has."""
        columns = self._query(f"SELECT name FROM pragma_table_info('{table}')")
        names = [text(name) for (name,) in columns]
        listed = ", ".join(map(quoted_name, names))
        for row in self._query(f"SELECT {listed} FROM {table} WHERE {where}", bound):
            yield Row(table, dict(zip(names, row, strict=True)))

    def refresh(self) -> None:
        if self._opened.frozen:
            raise Unsupported(
                f"'{self._url}' is read as it was: {', '.join(self._opened.notes)}",
                hint="leave out --copy, or read the file where its folder can be written",
            )
        if self._opened.identity not in (None, identity(self._url.path)):
            raise StoreUnavailable(
                f"'{self._url}' was removed or replaced by another file meanwhile",
                hint="open it again",
            )
        # The first read that follows takes the snapshot, and the lock.
        for sql in ("ROLLBACK", "BEGIN"):
            list(self._query(sql))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
            self._opened.cleanup()

    def _query(self, sql: str, bound: Iterable[object] = ()) -> Iterator[tuple[Any, ...]]:
        if self._connection is None:
            raise StoreUnavailable(f"'{self._url}' is closed")
        with self._errors():
            # Not `yield from`, which would close the cursor of an abandoned answer, maybe after
            # its connection.
            for row in self._connection.execute(sql, tuple(bound)):  # noqa: UP028
                yield row

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreUnavailable(
                f"cannot read '{self._url}': {error}",
                hint="if the file is damaged, `sqlite3 FILE .recover` saves what is left",
            ) from error


class FileWriter(Closing):
    """A SQLite file, opened for changing."""

    def __init__(self, connection: sqlite3.Connection, url: StoreUrl) -> None:
        self._url = url
        self._connection: sqlite3.Connection | None = connection
        connection.text_factory = decode_text

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _alive(self) -> sqlite3.Connection:
        if self._connection is None:
            raise StoreUnavailable(f"'{self._url}' is closed")
        return self._connection

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        connection = self._alive()
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.IntegrityError as error:
            raise StoreChanged(
                f"'{self._url}' changed meanwhile, so nothing was written: {error}",
                hint="run the command again",
            ) from error
        except sqlite3.Error as error:
            hint = None
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in _BUSY:
                hint = "another process is writing to it; try again in a moment"
            message = f"cannot write to '{self._url}': {error}; nothing was written"
            raise StoreUnavailable(message, hint=hint) from error
