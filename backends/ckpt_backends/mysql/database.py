"""Implements `WritableDatabase` for MySQL and MariaDB."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pymysql

from ckpt_backends.base import OnConnection
from ckpt_backends.errors import StoreUnavailable
from ckpt_backends.model import Fault, HiddenRows, Space
from ckpt_backends.mysql.changing import lock, transaction, unsupported
from ckpt_backends.mysql.connect import (
    DUPLICATE,
    UNFIT,
    UNSUPPORTED,
    MySQLConnection,
    code_of,
    explained,
)
from ckpt_backends.mysql.layout import (
    MySQLTable,
    bound,
    collated,
    engine_of,
    is_lookalike,
    literal,
    quoted_name,
    storable,
)
from ckpt_backends.mysql.loading import statements
from ckpt_backends.mysql.sql import exact
from ckpt_backends.sql.blob_tables import BLOBS, CHECKPOINTS, WRITES
from ckpt_backends.sql.database import Loaded, Row, RowRefused, Values, WritableDatabase, text
from ckpt_backends.sql.views import hidden_by_views
from ckpt_backends.url import StoreUrl

if TYPE_CHECKING:
    from ckpt_backends.changes.progress import Progress
    from ckpt_backends.changes.remains import Remains

_REPEATABLE = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"
"""Isolation of the next transaction."""
_SIZE = """
    SELECT CAST(SUM(data_length + index_length) AS UNSIGNED) FROM information_schema.tables
    WHERE table_schema = DATABASE() AND table_name IN %(names)s
"""
_WITH_THREAD_IDS = """
    SELECT DISTINCT table_name FROM information_schema.columns
    WHERE column_name = 'thread_id' AND table_schema = DATABASE()
"""


_VIEWS = """
    SELECT table_name, view_definition FROM information_schema.views
    WHERE table_schema = DATABASE()
"""
"""A definition is empty for a user without the right to see it."""


class MySQLDatabase(OnConnection[MySQLConnection], WritableDatabase):
    """A database, opened for reading or for changing."""

    insert_missing = (
        "INSERT INTO {table} ({columns}) VALUES ({values})"
        " ON DUPLICATE KEY UPDATE thread_id = thread_id"
    )
    lock_rows = "FOR UPDATE"
    """In REPEATABLE READ it locks rows and the gaps between them."""

    def __init__(
        self, connection: MySQLConnection, url: StoreUrl, tables: Mapping[str, MySQLTable]
    ) -> None:
        super().__init__(connection, url)
        self._tables = tables
        self._views: Mapping[str, str] | None = None
        self._longest = 0
        """The longest statement in bytes; 0 if it is not known yet."""
        self._columns = {
            name: column
            for table in (WRITES, BLOBS, CHECKPOINTS)
            for name, column in tables[table].columns.items()
        }

    @property
    def views(self) -> Mapping[str, str]:
        """The definition of each view of the database."""
        if self._views is None:
            found = self.attempt(_VIEWS, {}) or ()
            self._views = {text(name): text(definition) for name, definition in found}
        return self._views

    def hidden_rows(self) -> Sequence[HiddenRows]:
        names = [one.name for one in self._tables.values()]
        return list(hidden_by_views(names, self.views))

    def rows(self, query: str, values: Values) -> list[Row]:
        return self._connection.rows(query, values)

    def stream(self, query: str, values: Values, at_once: int = 200) -> Iterator[Row]:  # noqa: ARG002
        return self._connection.stream(query, values)

    def mark(self, name: str) -> str:
        return f"%({name})s"

    def same(self, column: str, name: str) -> str:
        # The first comparison uses the index; there, `abc` may equal `ABC`.
        mark = self.comparable(column, name)
        return f"({column} = {mark} AND {exact(column)} = {exact(self.mark(name))})"

    def among(
        self, column: str, name: str, texts: Collection[str]
    ) -> tuple[str, dict[str, object]]:
        found = sorted(filter(storable, {*texts}))
        if not found:
            return "FALSE", {}
        values: dict[str, object] = {f"{name}{n}": one for n, one in enumerate(found)}
        marks = ", ".join(self.comparable(column, mark) for mark in values)
        values[name] = tuple(one.encode() for one in found)
        return f"({column} IN ({marks}) AND {exact(column)} IN %({name})s)", values

    def comparable(self, column: str, name: str) -> str:
        """The placeholder for a parameter that is compared with a column."""
        known = self._columns.get(column.removeprefix("c."))
        return self.mark(name) if known is None else bound(self.mark(name), known)

    def collated(self, column: str, name: str) -> str:
        """A text parameter as a column of a derived table that is joined on this column."""
        known = self._columns.get(column)
        return self.mark(name) if known is None else collated(self.mark(name), known)

    def as_in(self, table: str, column: str, other: str) -> str:
        found = [one.columns[column] for one in self._tables.values() if column in one.columns]
        if len({one.collation for one in found}) < 2:
            return other
        return collated(other, self._tables[table].columns[column])

    def exact(self, column: str) -> str:
        return exact(column)

    def quoted(self, name: str) -> str:
        return quoted_name(name)

    def literal(self, text: str) -> str:
        return literal(text)

    def storable(self, text: str) -> bool:
        return storable(text)

    def engine(self) -> str:
        ((version,),) = self.rows("SELECT VERSION()", {})
        return engine_of(version)

    def holds(self, column: str, names: Sequence[str]) -> str:
        # LOCATE compares bytes if one of the two is binary.
        marks = map(self.mark, names)
        return f"({' OR '.join(f'LOCATE({one}, {column}) > 0' for one in marks)})"

    @property
    def enforces_read_only(self) -> bool:
        return self._connection.is_read_only

    def space(self, tables: Sequence[str]) -> Space:
        ((size,),) = self.rows(_SIZE, {"names": tuple(tables)})
        # OceanBase answers 0 until it has written the table to disk.
        return Space(int(size or 0) or None)

    def attempt(
        self, query: str, values: Values, *, expected: Collection[int] = UNSUPPORTED
    ) -> list[Row] | None:
        """All rows of a short result; None if the server does not support the query.

        `expected` are the error codes that say so.
        """
        return self._connection.attempt(query, values, expected=expected)

    def faults(self, tables: Sequence[str]) -> Iterator[Fault]:
        from ckpt_backends.mysql.health import space_faults

        return space_faults(self, tables)

    def restart(self) -> None:
        self._connection.restart()

    @contextmanager
    def transaction(
        self, thread_id: str | None = None, *, exclusive: bool = False
    ) -> Iterator[None]:
        connection = self._connection
        with ExitStack() as stack:
            if thread_id is not None:
                stack.enter_context(lock(connection, self._url, thread_id))
            if exclusive and is_lookalike(self.engine()):
                # TiDB and OceanBase lock rows, but not the gaps in which savers add others.
                reason = f"removing rows needs locks that {self.engine()} may not have"
                raise unsupported(self._url, reason)
            with transaction(connection, self._url):
                if exclusive:
                    connection.alone(_REPEATABLE)
                yield

    def change(self, query: str, values: Values) -> int:
        return self._connection.change(query, values)

    def load(self, table: str, sql: str, columns: Sequence[str], rows: Sequence[Loaded]) -> None:
        if not self._longest:
            ((longest,),) = self.rows("SELECT @@max_allowed_packet", {})
            self._longest = int(longest)
        listed = ", ".join(map(quoted_name, columns))
        head = f"INSERT INTO {sql} ({listed}) VALUES ".encode()
        own = self._tables[table].columns
        are_bytes = [own[column].kind.endswith(("blob", "binary")) for column in columns]
        for statement, of_rows in statements(head, are_bytes, rows, self._longest):
            try:
                self._connection.load(statement)
            except pymysql.Error as error:
                if code_of(error) not in UNFIT:
                    raise
                # The server says which column, but not always which row.
                for row in of_rows:
                    self._load_one(head, are_bytes, row)

    def _load_one(self, head: bytes, are_bytes: Sequence[bool], row: Loaded) -> None:
        ((statement, _),) = statements(head, are_bytes, [row], self._longest)
        try:
            self._connection.load(statement)
        except pymysql.Error as error:
            if code_of(error) not in UNFIT:
                raise
            reason = str(error.args[-1])
            if code_of(error) == DUPLICATE:
                reason = "its key is equal to another one in the collation of the server"
            raise RowRefused(row, reason) from None

    def given(self, table: str, column: str, name: str, cell: object) -> str:  # noqa: ARG002
        return self.mark(name)

    def is_given(self, table: str, column: str, name: str, cell: object) -> str:  # noqa: ARG002
        if isinstance(cell, str) and not column.startswith("gmt_"):
            return f"{exact(self.quoted(column))} <=> {exact(self.mark(name))}"
        return f"{self.quoted(column)} <=> {self.mark(name)}"

    def json_member(self, column: str, name: str) -> str:
        return f"JSON_EXTRACT({column}, '$.{name}')"

    def vacuum(self, tables: Sequence[str]) -> None:
        with explained(self._url):
            for table in tables:
                for _, _, kind, text in self._connection.optimize(table):
                    if str(kind).lower() == "error":
                        raise StoreUnavailable(f"cannot vacuum '{self._url}': {text}")

    def tables_with_thread_ids(self) -> list[str]:
        return [str(name) for (name,) in self._connection.attempt(_WITH_THREAD_IDS) or ()]

    def erase_remains(self, tables: Sequence[str], *, rewrite: bool, progress: Progress) -> Remains:
        from ckpt_backends.mysql.erasing import erase_remains

        with explained(self._url):
            return erase_remains(
                self._connection, self._url, tables, rewrite=rewrite, progress=progress
            )
