"""Implements `threetable.database.WritableDatabase` for PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from ckpt_backends.apps.three_table.database import Row, Values
from ckpt_backends.changes.rows import Cell
from ckpt_backends.errors import StoreUnavailable
from ckpt_backends.model import Space
from ckpt_backends.postgres import sql_write
from ckpt_backends.postgres.catalog import begin
from ckpt_backends.postgres.changing import lock_number, transaction
from ckpt_backends.postgres.connect import PostgresConnection, explained
from ckpt_backends.postgres.layout import PostgresTable, quoted_name, storable
from ckpt_backends.shell import is_shown
from ckpt_backends.url import StoreUrl

_AT_ONCE = 200
_SIZE = """
    SELECT sum(pg_total_relation_size(c.oid))::bigint
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname || '.' || c.relname = ANY(%(names)s::text[])
"""


class PostgresDatabase:
    """A database, opened for reading or for changing."""

    def __init__(
        self, connection: PostgresConnection, url: StoreUrl, tables: Sequence[PostgresTable]
    ) -> None:
        self._open: PostgresConnection | None = connection
        self._url = url
        self._tables = {table.name: table for table in tables}
        self._begun = True

    @property
    def columns(self) -> Mapping[str, set[str]]:
        """The columns of each table."""
        return {name: set(table.columns) for name, table in self._tables.items()}

    def rows(self, query: str, values: Values) -> list[Row]:
        return self._connection.rows(query, values)

    def stream(self, query: str, values: Values) -> Iterator[Row]:
        return self._connection.stream(query, values, _AT_ONCE)

    def text(self, name: str) -> str:
        return f"%({name})s::text"

    def mark(self, name: str) -> str:
        return f"%({name})s"

    def same(self, column: str, name: str) -> str:
        return f"{column} = {self.text(name)}"

    def exact(self, column: str) -> str:
        return f'{column} COLLATE "C"'

    def bytes_of(self, column: str) -> str:
        return f"octet_length({column})"

    def characters(self, column: str) -> str:
        return f"char_length({column})"

    def quoted(self, name: str) -> str:
        # In a query with parameters, `%` must be written as `%%`.
        return quoted_name(name).replace("%", "%%")

    def literal(self, text: str) -> str:
        if is_shown(text):
            return "'" + text.replace("'", "''") + "'"
        return f"convert_from('\\x{text.encode().hex()}', 'UTF8')"

    def bound(self, text: str) -> object:
        return text

    def storable(self, text: str) -> bool:
        return storable(text)

    def engine(self) -> str:
        return f"PostgreSQL {self._connection.version}"

    def space(self, tables: Sequence[str]) -> Space:
        ((size,),) = self.rows(_SIZE, {"names": list(tables)})
        return Space(size)

    def notes(self) -> Sequence[str]:
        return ()

    def restart(self) -> None:
        self._connection.restart()
        self._begun = False

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    @contextmanager
    def transaction(self, thread_id: str | None) -> Iterator[None]:
        with transaction(self._connection, self._url) as connection:
            if thread_id is None:
                names = ", ".join(table.sql for _, table in sorted(self._tables.items()))
                connection.change(sql_write.LOCK_TABLES.format(tables=names))
            else:
                connection.change(sql_write.LOCK, {"number": lock_number(thread_id)})
            yield

    def change(self, query: str, values: Values) -> int:
        return self._connection.change(query, values)

    def given(self, table: str, column: str, name: str, cell: Cell) -> str:
        kind = self._tables[table].columns[column].replace("%", "%%")
        return f"%({name})s::{f'text::{kind}' if isinstance(cell, str) else kind}"

    def is_given(self, table: str, column: str, name: str, cell: Cell) -> str:
        given = self.given(table, column, name, cell)
        return f"{self.quoted(column)} IS NOT DISTINCT FROM {given}"

    def vacuum(self, tables: Sequence[str]) -> None:
        with explained(self._url):
            for table in tables:
                self._connection.alone(f"VACUUM (ANALYZE) {table.replace('%%', '%')}")

    def finish_removal(self) -> str:
        return ""

    @property
    def _connection(self) -> PostgresConnection:
        if self._open is None:
            raise StoreUnavailable(f"'{self._url}' is closed")
        if not self._begun:
            self._begun = True
            begin(self._open)
        return self._open
