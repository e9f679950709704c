"""Base classes for a SQLite file that is open for reading or for changing, with any tables."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from ckpt_backends.base import Closing
from ckpt_backends.changes.rows import Row
from ckpt_backends.errors import StoreUnavailable
from ckpt_backends.sqlite.binding import decode_text, quoted_name, text
from ckpt_backends.sqlite.errors import reading, writing
from ckpt_backends.sqlite.journals import empty_log
from ckpt_backends.sqlite.open import Opened, check_current, transaction
from ckpt_backends.url import StoreUrl


class FileReader(Closing):
    """A SQLite file, opened for reading."""

    def __init__(self, opened: Opened, url: StoreUrl) -> None:
        self._opened = opened
        self._url = url
        self._connection: sqlite3.Connection | None = opened.connection
        # Text in a file need not be UTF-8; other bytes survive a round trip this way.
        opened.connection.text_factory = decode_text

    def _whole_rows(self, table: str, where: str, bound: Iterable[object]) -> Iterator[Row]:
        """Rows with all columns of the table."""
        columns = self._query(f"SELECT name FROM pragma_table_info('{table}')")
        names = [text(name) for (name,) in columns]
        listed = ", ".join(map(quoted_name, names))
        for row in self._query(f"SELECT {listed} FROM {table} WHERE {where}", bound):
            yield Row(table, dict(zip(names, row, strict=True)))

    def refresh(self) -> None:
        check_current(self._opened, self._url)
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
            # `yield from` would close the cursor of an unfinished result, perhaps after its
            # connection.
            for row in self._connection.execute(sql, tuple(bound)):  # noqa: UP028
                yield row

    def _errors(self) -> AbstractContextManager[None]:
        return reading(self._url)


class FileWriter(Closing):
    """A SQLite file, opened for changing."""

    def __init__(self, connection: sqlite3.Connection, url: StoreUrl) -> None:
        self._url = url
        self._connection: sqlite3.Connection | None = connection
        self._has_removed = False
        """Whether rows were removed after the write-ahead log was last emptied."""
        connection.text_factory = decode_text

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

    def _alive(self) -> sqlite3.Connection:
        if self._connection is None:
            raise StoreUnavailable(f"'{self._url}' is closed")
        return self._connection

    def _transaction(self) -> AbstractContextManager[sqlite3.Connection]:
        return transaction(self._alive())

    def _errors(self) -> AbstractContextManager[None]:
        return writing(self._url)
