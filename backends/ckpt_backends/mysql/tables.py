"""Implements `threetable.database.WritableDatabase` for MySQL and MariaDB."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from ckpt_backends.apps.three_table.database import Row, Values
from ckpt_backends.changes.rows import Cell
from ckpt_backends.errors import StoreUnavailable
from ckpt_backends.model import Space
from ckpt_backends.mysql import sql_write
from ckpt_backends.mysql.changing import lock, transaction
from ckpt_backends.mysql.connect import MySQLConnection, explained
from ckpt_backends.mysql.layout import MySQLTable, bound, engine_of, literal, quoted_name, storable
from ckpt_backends.mysql.sql import exact
from ckpt_backends.url import StoreUrl

_SIZE = """
    SELECT CAST(SUM(data_length + index_length) AS UNSIGNED) FROM information_schema.tables
    WHERE table_schema = DATABASE() AND table_name IN %(names)s
"""


class MySQLDatabase:
    """A database, opened for reading or for changing."""

    def __init__(
        self, connection: MySQLConnection, url: StoreUrl, tables: Mapping[str, MySQLTable]
    ) -> None:
        self._open: MySQLConnection | None = connection
        self._url = url
        self._columns = tables["checkpoints"].columns

    def rows(self, query: str, values: Values) -> list[Row]:
        return self._connection.rows(query, values)

    def stream(self, query: str, values: Values) -> Iterator[Row]:
        return self._connection.stream(query, values)

    def text(self, name: str) -> str:
        return f"%({name})s"

    def mark(self, name: str) -> str:
        return f"%({name})s"

    def same(self, column: str, name: str) -> str:
        # The first comparison uses the index; there, `abc` may equal `ABC`.
        known = self._columns.get(column)
        mark = self.mark(name) if known is None else bound(self.mark(name), known)
        return f"({column} = {mark} AND {exact(column)} = {exact(self.mark(name))})"

    def exact(self, column: str) -> str:
        return exact(column)

    def bytes_of(self, column: str) -> str:
        return f"OCTET_LENGTH({column})"

    def characters(self, column: str) -> str:
        return f"CHAR_LENGTH({column})"

    def quoted(self, name: str) -> str:
        return quoted_name(name)

    def literal(self, text: str) -> str:
        return literal(text)

    def bound(self, text: str) -> object:
        return text

    def storable(self, text: str) -> bool:
        return storable(text)

    def engine(self) -> str:
        ((version,),) = self.rows("SELECT VERSION()", {})
        return engine_of(version)

    def space(self, tables: Sequence[str]) -> Space:
        ((size,),) = self.rows(_SIZE, {"names": tuple(tables)})
        return Space(None if size is None else int(size))

    def notes(self) -> Sequence[str]:
        return ()

    def restart(self) -> None:
        self._connection.restart()

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    @contextmanager
    def transaction(self, thread_id: str | None) -> Iterator[None]:
        connection = self._connection
        with ExitStack() as stack:
            if thread_id is not None:
                stack.enter_context(lock(connection, self._url, thread_id))
            with transaction(connection, self._url):
                if thread_id is None:
                    connection.alone(sql_write.REPEATABLE)
                yield

    def change(self, query: str, values: Values) -> int:
        return self._connection.change(query, values)

    def given(self, table: str, column: str, name: str, cell: Cell) -> str:  # noqa: ARG002
        return self.mark(name)

    def is_given(self, table: str, column: str, name: str, cell: Cell) -> str:  # noqa: ARG002
        if isinstance(cell, str) and not column.startswith("gmt_"):
            return f"{exact(self.quoted(column))} <=> {exact(self.mark(name))}"
        return f"{self.quoted(column)} <=> {self.mark(name)}"

    def vacuum(self, tables: Sequence[str]) -> None:
        with explained(self._url):
            for table in tables:
                for _, _, kind, text in self._connection.alone(f"OPTIMIZE TABLE {table}"):
                    if str(kind).lower() == "error":
                        raise StoreUnavailable(f"cannot vacuum '{self._url}': {text}")

    def finish_removal(self) -> str:
        return ""

    @property
    def _connection(self) -> MySQLConnection:
        if self._open is None:
            raise StoreUnavailable(f"'{self._url}' is closed")
        return self._open
