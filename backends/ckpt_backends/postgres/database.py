"""Base class for a PostgreSQL database that is open for reading, with any tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ckpt_backends.base import Closing
from ckpt_backends.changes.rows import Row
from ckpt_backends.errors import StoreUnavailable
from ckpt_backends.postgres.catalog import begin
from ckpt_backends.postgres.connect import PostgresConnection
from ckpt_backends.postgres.layout import PostgresTable, quoted_name
from ckpt_backends.url import StoreUrl


class DatabaseReader(Closing):
    """A PostgreSQL database, opened for reading. The caller has begun the first transaction."""

    def __init__(self, connection: PostgresConnection, url: StoreUrl) -> None:
        self._url = url
        self._open: PostgresConnection | None = connection
        self._begun = True

    def refresh(self) -> None:
        self._connection.restart()
        self._begun = False

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    @property
    def _connection(self) -> PostgresConnection:
        if self._open is None:
            raise StoreUnavailable(f"'{self._url}' is closed")
        if not self._begun:
            self._begun = True
            begin(self._open)
        return self._open

    def _rows(self, query: str, **values: object) -> list[tuple[Any, ...]]:
        return self._connection.rows(query, values)

    def _stream(self, query: str, at_once: int, **values: object) -> Iterator[tuple[Any, ...]]:
        return self._connection.stream(query, values, at_once)

    def _whole_rows(
        self, name: str, table: PostgresTable, where: str, at_once: int, **values: object
    ) -> Iterator[Row]:
        """Rows with all columns of the table."""
        listed = ", ".join(as_stored(column, kind) for column, kind in table.columns.items())
        query = f"SELECT {listed} FROM {table.sql}".replace("%", "%%")
        for row in self._stream(f"{query} WHERE {where}", at_once, **values):
            yield Row(name, dict(zip(table.columns, row, strict=True)))


def as_stored(column: str, kind: str) -> str:
    """The expression of a column for an archive: bytes and integers as they are, others as text."""
    name = quoted_name(column)
    return name if kind in {"bytea", "int2", "int4", "int8"} else f"{name}::text"
