"""Implements `WritableDatabase` for PostgreSQL."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ckpt_backends.base import OnConnection
from ckpt_backends.model import Fault, HiddenRows, Space
from ckpt_backends.postgres.catalog import begin
from ckpt_backends.postgres.changing import lock_tables, lock_thread, transaction
from ckpt_backends.postgres.connect import PostgresConnection, explained
from ckpt_backends.postgres.layout import (
    UUID_FORM,
    PostgresTable,
    engine_of,
    is_uuid,
    quoted_name,
    storable,
    uuid_of,
    uuids_of,
)
from ckpt_backends.shell import is_shown
from ckpt_backends.sql.database import Loaded, Row, Values, WritableDatabase
from ckpt_backends.sql.views import REMEDY, base_of, may_hide
from ckpt_backends.url import StoreUrl

if TYPE_CHECKING:
    from ckpt_backends.changes.progress import Progress
    from ckpt_backends.changes.remains import Remains

_SIZE = """
    WITH RECURSIVE part(oid) AS (
        SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname || '.' || c.relname = ANY(%(names)s::text[])
        UNION SELECT i.inhrelid FROM pg_inherits i JOIN part p ON i.inhparent = p.oid
    )
    SELECT sum(pg_total_relation_size(oid))::bigint FROM part
"""
"""A partitioned table itself has no bytes, only its partitions have."""
_WITH_THREAD_IDS = """
    SELECT DISTINCT table_name::text FROM information_schema.columns
    WHERE column_name = 'thread_id' AND table_schema = ANY(%(schemas)s::text[])
"""


_HIDING = """
    SELECT c.relname::text, c.relkind::text, row_security_active(c.oid), current_user::text,
           CASE WHEN c.relkind = 'v' THEN pg_get_viewdef(c.oid) END,
           c.relkind = 'v' AND EXISTS (
               SELECT 1 FROM pg_rewrite r
               JOIN pg_depend d ON d.objid = r.oid AND d.classid = 'pg_rewrite'::regclass
                    AND d.refclassid = 'pg_class'::regclass AND d.refobjid <> c.oid
               JOIN pg_class b ON b.oid = d.refobjid
               WHERE r.ev_class = c.oid AND (b.relrowsecurity OR b.relkind NOT IN ('r', 'p')))
"""
_HIDING += """
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname || '.' || c.relname = ANY(%(names)s::text[]) ORDER BY 1
"""
"""Row-level security, and the views and materialized views in the place of tables.

A view runs as its owner, so what it shows of a table with row-level security, or of another view,
is not followed.
"""
_BYPASS = "connect as the owner of the tables, or as a role with BYPASSRLS"


class PostgresDatabase(OnConnection[PostgresConnection], WritableDatabase):
    """A database, opened for reading or for changing."""

    insert_missing = "INSERT INTO {table} ({columns}) VALUES ({values}) ON CONFLICT DO NOTHING"

    def __init__(
        self, connection: PostgresConnection, url: StoreUrl, tables: Sequence[PostgresTable]
    ) -> None:
        super().__init__(connection, url)
        self._tables = {table.name: table for table in tables}
        """In the order in which they are locked: that of the saver's `put`, to avoid deadlocks."""
        self._uuids = {f"c.{column}": f"c.{uuid_of(column)}" for column in uuids_of(tables)}
        """By column of a query for rows, the one that has the id as it is stored."""
        self._begun = True
        self._hidden: Sequence[HiddenRows] | None = None
        self._has_locked = False
        """Whether the server was seen to lock tables."""

    def hidden_rows(self) -> Sequence[HiddenRows]:
        if self._hidden is None:
            names = [f"{one.schema}.{one.name}" for one in self._tables.values()]
            self._hidden = list(_hiding(self._connection.attempt(_HIDING, {"names": names}) or ()))
        return self._hidden

    @property
    def columns(self) -> Mapping[str, set[str]]:
        """The columns of each table."""
        return {name: set(table.columns) for name, table in self._tables.items()}

    def rows(self, query: str, values: Values) -> list[Row]:
        return self._connection.rows(query, values)

    def stream(self, query: str, values: Values, at_once: int = 200) -> Iterator[Row]:
        return self._connection.stream(query, values, at_once)

    def text(self, name: str) -> str:
        return f"%({name})s::text"

    def mark(self, name: str) -> str:
        return f"%({name})s"

    def same(self, column: str, name: str) -> str:
        stored, text = self._uuids.get(column), self.text(name)
        if stored is None:
            return super().same(column, name)
        return f"{stored} = CASE WHEN {text} ~ '{UUID_FORM}' THEN {text}::uuid END"

    def among(
        self, column: str, name: str, texts: Collection[str]
    ) -> tuple[str, dict[str, object]]:
        if stored := self._uuids.get(column):
            uuids = sorted(filter(is_uuid, {*texts}))
            return f"{stored} = ANY(%({name})s::uuid[])", {name: uuids}
        return f"{column} = ANY(%({name})s::text[])", {name: sorted(filter(storable, {*texts}))}

    def exact(self, column: str) -> str:
        return f'{column} COLLATE "C"'

    def quoted(self, name: str) -> str:
        # In a query with parameters, `%` must be written as `%%`.
        return quoted_name(name).replace("%", "%%")

    def literal(self, text: str) -> str:
        if is_shown(text):
            return "'" + text.replace("'", "''") + "'"
        return f"convert_from('\\x{text.encode().hex()}', 'UTF8')"

    def archived(self, table: str, column: str) -> str:
        name, kind = self.quoted(column), self._tables[table].columns[column]
        return name if kind in {"bytea", "int2", "int4", "int8"} else f"{name}::text"

    def storable(self, text: str) -> bool:
        return storable(text)

    def engine(self) -> str:
        ((version,),) = self.rows("SELECT version()", {})
        return engine_of(version)

    def space(self, tables: Sequence[str]) -> Space:
        found = self._connection.attempt(_SIZE, {"names": list(tables)})
        # YugabyteDB may answer 0, which no stored table needs.
        return Space((found[0][0] if found else None) or None)

    def attempt(self, query: str, values: Values) -> list[Row] | None:
        """All rows of a short result; None if the server refuses the query."""
        return self._connection.attempt(query, values)

    def faults(self, tables: Sequence[str]) -> Iterator[Fault]:
        from ckpt_backends.postgres.health import space_faults

        return space_faults(self, tables)

    def holds(self, column: str, names: Sequence[str]) -> str:
        marks = map(self.mark, names)
        return f"({' OR '.join(f'position({one}::bytea in {column}) > 0' for one in marks)})"

    @property
    def enforces_read_only(self) -> bool:
        return self._connection.is_read_only

    def restart(self) -> None:
        self._connection.restart()
        self._begun = False

    @contextmanager
    def transaction(
        self, thread_id: str | None = None, *, exclusive: bool = False
    ) -> Iterator[None]:
        with transaction(self._connection, self._url) as connection:
            if exclusive:
                names = [one.sql for one in self._tables.values()]
                lock_tables(connection, self._url, names, check=not self._has_locked)
                self._has_locked = True
            if thread_id is not None:
                lock_thread(connection, self._url, thread_id)
            yield

    def change(self, query: str, values: Values) -> int:
        return self._connection.change(query, values)

    def load(self, table: str, sql: str, columns: Sequence[str], rows: Sequence[Loaded]) -> None:
        kinds = [self._tables[table].columns[column] for column in columns]
        listed = ", ".join(map(quoted_name, columns))
        self._connection.load(f"{sql.replace('%%', '%')} ({listed})", kinds, rows)

    def given(self, table: str, column: str, name: str, cell: object) -> str:
        kind = self._tables[table].columns[column].replace("%", "%%")
        return f"%({name})s::{f'text::{kind}' if isinstance(cell, str) else kind}"

    def is_given(self, table: str, column: str, name: str, cell: object) -> str:
        # Compare types of extensions as text, so that no operator of an extension is called.
        text = "::text" if "." in self._tables[table].columns[column] else ""
        given = self.given(table, column, name, cell)
        return f"{self.quoted(column)}{text} IS NOT DISTINCT FROM {given}{text}"

    def json_member(self, column: str, name: str) -> str:
        return f"({column} -> '{name}')::text"

    def vacuum(self, tables: Sequence[str]) -> None:
        with explained(self._url):
            for table in tables:
                self._connection.alone(f"VACUUM (ANALYZE) {table.replace('%%', '%')}")

    def tables_with_thread_ids(self) -> list[str]:
        schemas = sorted({table.schema for table in self._tables.values()})
        found = self._connection.attempt(_WITH_THREAD_IDS, {"schemas": schemas})
        return [name for (name,) in found or ()]

    def erase_remains(self, tables: Sequence[str], *, rewrite: bool, progress: Progress) -> Remains:
        from ckpt_backends.postgres.erasing import erase_remains

        names = [table.replace("%%", "%") for table in tables]
        try:
            with explained(self._url):
                return erase_remains(
                    self._connection, self._url, names, rewrite=rewrite, progress=progress
                )
        finally:
            self._begun = False

    @property
    def _connection(self) -> PostgresConnection:
        connection = super()._connection
        if not self._begun:
            self._begun = True
            begin(connection)
        return connection


def _hiding(rows: Sequence[Row]) -> Iterator[HiddenRows]:
    for table, kind, is_secured, role, definition, is_unclear in rows:
        if is_secured:
            said = f"row-level security is active on table '{table}' for role '{role}'"
            yield HiddenRows(said, _BYPASS)
        elif kind == "m":
            reason = f"'{table}' is a materialized view, which has the rows of its last refresh"
            yield HiddenRows(reason, REMEDY)
        elif kind == "v" and (is_unclear or base_of(definition) is None):
            yield may_hide(table)
