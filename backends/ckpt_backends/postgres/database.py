"""PostgreSQL: the layouts that its catalog shows, and `WritableDatabase`.

The columns tell the layout, because the number in `checkpoint_migrations` is ambiguous: releases
2.0.8 to 2.0.12 numbered their migrations differently.

| layout | savers | differences |
|---|---|---|
| `postgres` | PostgresSaver 1.0 to 3.2, LangGraph.js | `task_path` only since 2.0.12, not in JS |
| `postgres-shallow` | ShallowPostgresSaver | no checkpoint ids, no versions: newest state only |

In queries, the names of tables are formatted into the text; everything else is a parameter. Ids are
text in the collation of the database. Within a namespace, checkpoints are sorted in that collation,
because savers find the head that way; for UUIDs it is the order of their characters. Threads and
names are sorted by code points, with `COLLATE "C"`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import quote

import psycopg
from psycopg import errors

from ckpt_backends import shell
from ckpt_backends.changes import BACKUPS, FREED_BLOCKS, Remaining, Remains
from ckpt_backends.declaration import declared_for
from ckpt_backends.errors import CkptError, UnknownLayout, Unsupported
from ckpt_backends.memory import STORE
from ckpt_backends.model import Fault, HiddenRows, Progress, Space
from ckpt_backends.postgres.connect import (
    Notice,
    PostgresConnection,
    explained,
    server_words,
    unavailable,
)
from ckpt_backends.shell import is_shown
from ckpt_backends.sql.database import (
    HELD,
    REMEDY,
    Loaded,
    QueryRow,
    Values,
    WritableDatabase,
    base_of,
    changed_meanwhile,
    committed,
    may_hide,
    unsupported,
    unwritten,
)
from ckpt_backends.sql.tables import (
    BLOBS,
    CHECKPOINTS,
    NAMES,
    NEEDED,
    RENAMED,
    WRITES,
    BlobLayout,
    TableSaver,
    check_wanted,
    missing_columns,
    recognised,
    renamed,
    too_old,
    unknown_columns,
    unknown_tables,
    why_only_read,
)
from ckpt_backends.url import StoreUrl

if TYPE_CHECKING:
    from ckpt_backends.changes import Remains
    from ckpt_backends.model import Progress


CATALOG = """
    SELECT n.nspname::text, c.relname::text, a.attname::text,
           CASE o.nspname WHEN 'pg_catalog' THEN '' ELSE quote_ident(o.nspname) || '.' END
           || quote_ident(t.typname),
           a.attnotnull AND NOT a.atthasdef AND a.attidentity = ''
    FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    JOIN pg_type t ON t.oid = a.atttypid
    JOIN pg_namespace o ON o.oid = t.typnamespace
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND c.relname = ANY(%(names)s::text[])
    ORDER BY 1, 2, a.attnum
"""
"""Types are quoted for use in queries. Types outside of `pg_catalog` have their schema. Last,
whether the column has no default and must have a value."""
TABLES = """
    SELECT DISTINCT n.nspname::text, c.relname::text
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname = ANY(%(schemas)s::text[])
"""


FULL, SHALLOW = "postgres", "postgres-shallow"
_LOOKALIKE = re.compile(r"PostgreSQL (?P<number>[\d.]+)-(?P<name>[A-Za-z]+)-(?P<own>\S+)")
UUID = "uuid"
KEYS = ("thread_id", "checkpoint_id")
"""The ids by which rows are found."""
_IDS = (*KEYS, "parent_checkpoint_id", "task_id")
_OF_SERVER = "these tables are of LangGraph's Agent Server, which keeps others beside them"
UUID_FORM = "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
_SHORT_NAMES = {"YB": "YugabyteDB"}

_ALSO: Mapping[str, frozenset[str]] = {
    CHECKPOINTS: frozenset({"type"}),
    BLOBS: frozenset(),
    WRITES: frozenset({"task_path"}),
}


@dataclass(frozen=True, slots=True)
class PostgresTable:
    """A table of the database with its columns."""

    schema: str
    name: str
    columns: Mapping[str, str]
    """By column, its type, such as `jsonb` or `public.vector`."""
    required: frozenset[str] = frozenset()
    """The columns without a default that must have a value."""
    own_name: str = ""
    """Its name in the database, if that is not the saver's."""

    @property
    def place(self) -> str:
        """The plain name with schema."""
        return f"{self.schema}.{self.own_name or self.name}"

    @property
    def stored(self) -> Collection[str]:
        return self.columns

    @property
    def sql(self) -> str:
        """The quoted name with schema for a query."""
        return f"{quoted_name(self.schema)}.{quoted_name(self.own_name or self.name)}"


class TableWithUuids(PostgresTable):
    """A table in which ids are of the type `uuid`, such as those of LangGraph's Agent Server."""

    __slots__ = ()

    @property
    def sql(self) -> str:
        """A subquery with these ids as text, and each as it is stored, as `uuid_thread_id`."""
        listed = []
        for column, kind in self.columns.items():
            name = quoted_name(column)
            listed.append(f"{name}::text AS {name}" if kind == UUID else name)
            if kind == UUID and column in KEYS:
                listed.append(f"{name} AS {uuid_of(column)}")
        return f"(SELECT {', '.join(listed)} FROM {super().sql})"


def uuid_of(column: str) -> str:
    """The column of a `TableWithUuids` that has an id as it is stored, which its index has."""
    return f"uuid_{column}"


def uuids_of(tables: Iterable[PostgresTable]) -> frozenset[str]:
    """The columns of `KEYS` that are of the type `uuid` in all of the tables that have them.

    None in the shallow layout, whose checkpoints are read through a subquery without them.
    """
    stored = list(tables)
    if any(one.name == CHECKPOINTS and "checkpoint_id" not in one.columns for one in stored):
        return frozenset()
    return frozenset(
        column
        for column in KEYS
        if {one.columns[column] for one in stored if column in one.columns} == {UUID}
    )


@dataclass(frozen=True, slots=True)
class PostgresLayout(BlobLayout[PostgresTable]):
    """The layout as found in one database."""

    @property
    def name(self) -> str:
        return SHALLOW if self.shallow else FULL

    @property
    def has_uuids(self) -> bool:
        """Whether some ids are not text, as no saver of the library stores them."""
        return any(one.columns.get(name) == UUID for one in self.tables for name in _IDS)

    @property
    def of_server(self) -> bool:
        """Whether LangGraph's Agent Server made the tables: they name the run of a checkpoint."""
        return self.has_uuids and "run_id" in self.checkpoints.columns

    @property
    def only_read(self) -> str:
        return _OF_SERVER if self.of_server else why_only_read(self.unknown, self.required)

    def with_text_ids(self) -> PostgresLayout:
        """The layout as queries see it: its ids are text."""
        if not self.has_uuids:
            return self
        parts = [
            TableWithUuids(one.schema, one.name, one.columns, own_name=one.own_name)
            for one in self.tables
        ]
        checkpoints, blobs, writes = parts
        return replace(self, checkpoints=checkpoints, blobs=blobs, writes=writes)


def detect(
    tables: Iterable[PostgresTable], schemas: Sequence[str], wanted: str | None, where: str
) -> PostgresLayout:
    """The layout of a database with these tables, each from the first schema that contains it.

    Raises `UnknownLayout` if the tables are unknown, or if `wanted` is another layout.
    """
    every = list(tables)
    found = {
        name: table
        for name in NAMES
        for schema in reversed(schemas)
        for table in every
        if (table.schema, table.name) == (schema, name)
    }
    if CHECKPOINTS not in found:
        raise _no_tables(every, schemas, where)
    columns = {name: table.columns.keys() for name, table in found.items()}
    if "thread_ts" in columns[CHECKPOINTS]:
        raise too_old(where)
    shallow = "checkpoint_id" not in columns[CHECKPOINTS]
    missing = missing_columns(columns, NEEDED[shallow])
    if not missing:
        missing = [
            f"{CHECKPOINTS}.{column} of type jsonb"
            for column in ("checkpoint", "metadata")
            if found[CHECKPOINTS].columns[column] != "jsonb"
        ]
    if missing:
        raise unknown_tables(where, missing)
    unknown = unknown_columns(columns, _ALSO)
    places = found[CHECKPOINTS], found[BLOBS], found[WRITES]
    layout = PostgresLayout(*places, shallow=shallow, unknown=unknown)
    if layout.has_uuids:
        layout = replace(layout, unknown=(*layout.unknown, "ids of the type uuid"))
    if any(one.own_name for one in layout.tables):
        layout = replace(layout, unknown=(*layout.unknown, RENAMED))
    check_wanted(wanted, layout.name, where)
    return layout


def _no_tables(
    tables: Sequence[PostgresTable], schemas: Sequence[str], where: str
) -> UnknownLayout:
    elsewhere = sorted(
        {table.schema for table in tables if table.name == CHECKPOINTS} - set(schemas)
    )
    looked = f"looked in {_list(schemas)}"
    if elsewhere:
        param = quote(elsewhere[0], safe="")
        hint = f"{looked}; found some in {_list(elsewhere)}: add ?schema={param} to the URL"
    else:
        here = sorted({table.name for table in tables if table.schema in schemas})
        hint = f"{looked}, found {', '.join(map(shell.word, here[:10])) or 'no tables at all'}"
        if STORE in here:
            from ckpt_backends.memory import HINT

            hint = f"{hint}; {HINT}"
    return UnknownLayout(f"no checkpoint tables in '{where}'", hint=hint)


def _list(schemas: Sequence[str]) -> str:
    if not schemas:
        return "no schema that exists and is readable"
    return f"schema{'s' if len(schemas) > 1 else ''} " + ", ".join(map(shell.name, schemas))


def quoted_name(name: str) -> str:
    """The quoted name of a table, column or type for a query."""
    return '"' + name.replace('"', '""') + '"'


def is_uuid(text: str) -> bool:
    """Whether a text is a UUID as PostgreSQL prints it; another one is equal to no stored id."""
    return re.fullmatch(UUID_FORM[1:-1], text) is not None


def storable(text: str) -> bool:
    """Whether PostgreSQL can store a text. If not, no row can contain it."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


def engine_of(version: str) -> str:
    """Name and version of the engine, from the result of `version()`.

    PostgreSQL says `PostgreSQL 18.0 on x86_64-...`, YugabyteDB `PostgreSQL 15.2-YB-2.25.0.0-b0 on
    ...`, CockroachDB `CockroachDB CCL v25.2.0 (x86_64-..., built ...)`.
    """
    named, mark, _ = version.partition(" on ")
    named = named if mark else version.partition(" (")[0]
    if found := _LOOKALIKE.fullmatch(named):
        name = _SHORT_NAMES.get(found["name"], found["name"])
        return f"{name} {found['own']} (PostgreSQL {found['number']})"
    return named


ENGINE = "postgresql"
"""What a layout declares as its engine if it is in PostgreSQL only."""

# Finds the tables of a database.


def find_tables(connection: PostgresConnection) -> tuple[list[PostgresTable], list[str]]:
    """The tables that were found, and the schemas to search."""
    schemas, url = connection.schemas(), connection.url
    if named := renamed(url.params.get("tables"), NAMES, str(url)):
        found = tables_named(connection, list(named))
        if missing := named.keys() - {one.name for one in found if one.schema in schemas}:
            raise UnknownLayout(
                f"no table '{min(missing)}' in '{url}'", hint=f"looked in {_list(schemas)}"
            )
        return [replace(one, name=named[one.name], own_name=one.name) for one in found], schemas
    tables = tables_named(connection, NAMES)
    wanted = url.params.get("layout")
    # An application's tables may be beside LangGraph's.
    if wanted is not None and any(wanted in one.layouts for one in declared_for(ENGINE)):
        tables = []
    if not any(one.schema in schemas for one in tables):
        others = connection.rows(TABLES, {"schemas": schemas})
        tables += tables_named(connection, [name for _, name in others if name not in NAMES])
    return tables, schemas


def tables_named(connection: PostgresConnection, names: Collection[str]) -> list[PostgresTable]:
    """The tables with these names in all schemas."""
    columns: dict[tuple[str, str], dict[str, str]] = {}
    required: dict[tuple[str, str], set[str]] = {}
    for schema, table, column, kind, must in connection.rows(CATALOG, {"names": list(names)}):
        columns.setdefault((schema, table), {})[column] = kind
        if must:
            required.setdefault((schema, table), set()).add(column)
    return [
        PostgresTable(*name, found, frozenset(required.get(name, ())))
        for name, found in columns.items()
    ]


def of_application(
    tables: Sequence[PostgresTable], schemas: Sequence[str]
) -> tuple[TableSaver, list[PostgresTable]] | None:
    """The application's saver that made the tables of one schema, and these tables."""
    for schema in schemas:
        found = {one.name: one for one in tables if one.schema == schema}
        saver = recognised({name: one.columns.keys() for name, one in found.items()}, ENGINE)
        if saver is not None:
            return saver, [found[name] for name in saver.tables if name in found]
        if CHECKPOINTS in found:
            return None
    return None


# Runs the transaction of a change, and converts the driver's errors.


def transaction(connection: PostgresConnection) -> AbstractContextManager[None]:
    """One transaction. Raises `StoreChanged` or `StoreUnavailable`; nothing is written then."""
    return committed(connection, (psycopg.Error,), _refused, unavailable)


_LOCK = "SELECT pg_advisory_xact_lock(number) FROM unnest(%(numbers)s::bigint[]) AS number"
_HOLDS_LOCKS = """
    SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND granted
    AND locktype = 'advisory'
    AND (classid::bigint << 32) | objid::bigint = ANY(%(numbers)s::bigint[])
"""
_HOLDS_TABLES = """
    SELECT count(DISTINCT relation) FROM pg_locks WHERE pid = pg_backend_pid() AND granted
    AND locktype = 'relation' AND mode = 'ShareRowExclusiveLock'
"""


def lock_number(thread_id: str) -> int:
    """The number of a thread's advisory lock. Threads with the same number share a lock."""
    from hashlib import sha256  # late: it loads OpenSSL, which readers do not need

    digest = sha256(b"ckpt\0" + thread_id.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def _refused(url: StoreUrl, error: psycopg.Error) -> CkptError | None:
    match error:
        case errors.UniqueViolation() | errors.SerializationFailure():
            return changed_meanwhile(url)
        case errors.LockNotAvailable():
            return unwritten(url, *HELD)
        case errors.InsufficientPrivilege():
            needed = (
                "a change needs SELECT, INSERT and, for what removes rows, DELETE on its tables"
            )
            return unwritten(url, str(error.diag.message_primary), needed)
        case errors.ReadOnlySqlTransaction():
            hint = "add ?target_session_attrs=read-write to the URL"
            return unwritten(url, "the server is read-only", hint)
    return None


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
_UNUSED = """
    SELECT n.nspname::text, c.relname::text, sum(part.bytes)::bigint,
           sum(CASE WHEN part.live > 0
                    THEN part.bytes * (part.dead::float8 / (part.live + part.dead)) END)::bigint
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace, LATERAL (
        SELECT coalesce(pg_relation_size(p.oid), 0) AS bytes,
               coalesce(pg_stat_get_dead_tuples(p.oid), 0) AS dead,
               greatest(pg_stat_get_live_tuples(p.oid), p.reltuples::bigint) AS live
        FROM pg_class p WHERE p.oid IN (c.oid, c.reltoastrelid)) part
    WHERE n.nspname || '.' || c.relname = ANY(%(names)s::text[])
    GROUP BY 1, 2
"""
"""Bytes of each table with its long values, and of the dead rows in it.

A crash resets the counts. So the number of rows that the last VACUUM counted is used, too.
"""


class PostgresDatabase(PostgresConnection, WritableDatabase):
    """A database, opened for reading or for changing."""

    insert_missing = "INSERT INTO {table} ({columns}) VALUES ({values}) ON CONFLICT DO NOTHING"

    def __init__(self, connection: PostgresConnection, tables: Sequence[PostgresTable]) -> None:
        super().__init__(connection.driver, connection.url)
        self.begun, self.enforces_read_only = connection.begun, connection.enforces_read_only
        self._tables = {table.name: table for table in tables}
        """In the order in which they are locked: that of the saver's `put`, to avoid deadlocks."""
        self._uuids = {f"c.{column}": f"c.{uuid_of(column)}" for column in uuids_of(tables)}
        """By column of a query for rows, the one that has the id as it is stored."""
        self._hidden: Sequence[HiddenRows] | None = None
        self._has_locked = False
        """Whether the server was seen to lock tables."""

    def hidden_rows(self) -> Sequence[HiddenRows]:
        if self._hidden is None:
            names = [one.place for one in self._tables.values()]
            self._hidden = list(_hiding(self.attempt(_HIDING, {"names": names}) or ()))
        return self._hidden

    @property
    def columns(self) -> Mapping[str, set[str]]:
        """The columns of each table."""
        return {name: set(table.columns) for name, table in self._tables.items()}

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
        found = self.attempt(_SIZE, {"names": list(tables)})
        # YugabyteDB may answer 0, which no stored table needs.
        return Space((found[0][0] if found else None) or None)

    def is_postgres(self) -> bool:
        """Whether the catalog has the meaning that it has in PostgreSQL itself."""
        return self.engine().startswith("PostgreSQL ")

    def faults(self, tables: Sequence[str]) -> Iterator[Fault]:
        """The tables, each as `schema.table`, of which a large part are dead rows."""
        from ckpt_backends.sql.health import unused_space

        if not self.is_postgres():
            return
        for schema, table, size, dead in self.rows(_UNUSED, {"names": list(tables)}):
            fix = f"VACUUM {quoted_name(schema)}.{quoted_name(table)};"
            yield from unused_space(f"table '{table}'", dead or 0, size, fix)

    def holds(self, column: str, names: Sequence[str]) -> str:
        marks = map(self.mark, names)
        return f"({' OR '.join(f'position({one}::bytea in {column}) > 0' for one in marks)})"

    @contextmanager
    def transaction(
        self, thread_ids: Sequence[str] = (), *, exclusive: bool = False
    ) -> Iterator[None]:
        with transaction(self):
            if exclusive:
                self._lock_tables()
            if thread_ids:
                # In one order, so that two runs do not wait for each other.
                numbers = sorted({*map(lock_number, thread_ids)})
                values = {"numbers": numbers}
                self._lock("advisory locks", _LOCK, values)
                self._check_held("advisory locks", _HOLDS_LOCKS, values, len(numbers))
            yield

    def _lock_tables(self) -> None:
        """Keep others from writing to the tables until the end of the transaction."""
        names = [one.sql for one in self._tables.values()]
        query = f"LOCK TABLE {', '.join(names)} IN SHARE ROW EXCLUSIVE MODE"
        self._lock("table locks", query, {})
        if not self._has_locked:
            self._check_held("table locks", _HOLDS_TABLES, {}, len(names))
            self._has_locked = True

    def _lock(self, locks: str, query: str, values: Values) -> None:
        try:
            self.change(query, values)
        except (errors.UndefinedFunction, errors.FeatureNotSupported, errors.SyntaxError):
            raise self._without(locks) from None

    def _check_held(self, locks: str, query: str, values: Values, number: int = 1) -> None:
        """Check that the server did lock. Some accept these statements and do nothing."""
        found = self.attempt(query, values)
        if not found or found[0][0] < number:
            raise self._without(locks)

    def _without(self, locks: str) -> Unsupported:
        return unsupported(self.url, f"the server has no {locks} that work as PostgreSQL's do")

    def load(self, table: str, sql: str, columns: Sequence[str], rows: Sequence[Loaded]) -> None:
        kinds = [self._tables[table].columns[column] for column in columns]
        listed = ", ".join(map(quoted_name, columns))
        self.load_rows(f"{sql.replace('%%', '%')} ({listed})", kinds, rows)

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
        with explained(self.url):
            for table in tables:
                self.alone(f"VACUUM (ANALYZE) {table.replace('%%', '%')}")

    def tables_with_thread_ids(self) -> list[str]:
        schemas = sorted({table.schema for table in self._tables.values()})
        found = self.attempt(_WITH_THREAD_IDS, {"schemas": schemas})
        return [name for (name,) in found or ()]

    def erase_remains(self, tables: Sequence[str], *, rewrite: bool, progress: Progress) -> Remains:
        names = [table.replace("%%", "%") for table in tables]
        with explained(self.url):
            return erase_remains(self, names, rewrite=rewrite, progress=progress)


def _hiding(rows: Sequence[QueryRow]) -> Iterator[HiddenRows]:
    for table, kind, is_secured, role, definition, is_unclear in rows:
        if is_secured:
            said = f"row-level security is active on table '{table}' for role '{role}'"
            yield HiddenRows(said, _BYPASS)
        elif kind == "m":
            reason = f"'{table}' is a materialized view, which has the rows of its last refresh"
            yield HiddenRows(reason, REMEDY)
        elif kind == "v" and (is_unclear or base_of(definition) is None):
            yield may_hide(table)


# Erases removed rows from tables of PostgreSQL, and names where they may still be.
#
# VACUUM frees the space of removed rows without overwriting it; VACUUM FULL writes the tables
# anew. Both keep a row that an older transaction may still see.


_STATISTICS = "pg_catalog.pg_statistic"
"""Holds samples of the columns of all tables. ANALYZE replaces those of a table."""
_KEPT = re.compile(r"(\d+) (?:dead row versions? cannot be removed|are dead but not yet removable)")
_ARCHIVE_MODE = "SELECT pg_catalog.current_setting('archive_mode')"
_READERS_OF_THE_LOG = (
    (
        "standby servers",
        "SELECT count(*) FROM pg_catalog.pg_stat_replication",
        "each has a log and backups of its own",
    ),
    (
        "replication slots",
        "SELECT count(*) FROM pg_catalog.pg_replication_slots",
        "the log is kept until their readers have read it, and these have copies",
    ),
)
_LOCK_SECONDS = 5
_FREE_SPACE = Remaining(
    "free space in tables and indexes",
    "VACUUM does not overwrite the space of removed rows; the server does when it reuses it;"
    " VACUUM FULL, or --rewrite, erases it",
    needs_rewrite=True,
)
_OLDER = "older transactions may still see {number} removed rows; they are erased after these end"
_UNTOLD = "the server does not say whether older transactions still see removed rows"


def erase_remains(
    connection: PostgresConnection, tables: Sequence[str], *, rewrite: bool, progress: Progress
) -> Remains:
    """Vacuum the tables, and with `rewrite` write them anew. Raises `psycopg.Error`."""
    done, places = [], []
    options = "FULL, ANALYZE" if rewrite else "ANALYZE"
    for table in [*tables, _STATISTICS]:
        statement = f"VACUUM ({options}) {table}"
        progress(statement)
        try:
            if rewrite and table != _STATISTICS:
                _check_lock(connection, table)
            notices = connection.alone(f"VACUUM (VERBOSE, {options}) {table}")
        except psycopg.Error as error:
            if connection.is_lost:
                raise
            places.append(
                Remaining(f"table {table}", server_words(error, connection.url), is_reachable=True)
            )
            continue
        refusal = _refusal(notices)
        if refusal:
            places.append(Remaining(f"table {table}", refusal))
        else:
            done.append(statement)
            if why := _still_seen(notices):
                places.append(Remaining(f"table {table}", why, is_reachable=True))
    if not rewrite:
        places.append(_FREE_SPACE)
    return Remains(tuple(done), (*places, *_elsewhere(connection), FREED_BLOCKS, BACKUPS))


def _check_lock(connection: PostgresConnection, table: str) -> None:
    """Raise `psycopg.Error` if another session holds a lock on a table.

    VACUUM FULL would wait for it, and block all others meanwhile.
    """
    try:
        connection.change(f"SET LOCAL lock_timeout = '{_LOCK_SECONDS}s'")
        connection.change(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
    finally:
        connection.restart_quietly()


def _refusal(notices: Sequence[Notice]) -> str:
    """Why VACUUM skipped a table; `''` if it did not. A missing right is a warning only."""
    return next((one.text for one in notices if one.is_warning), "")


def _still_seen(notices: Sequence[Notice]) -> str:
    """Why removed rows were kept; `''` if they were not."""
    numbers = [int(number) for one in notices for number in _KEPT.findall(one.text)]
    if not numbers:
        return _UNTOLD
    return _OLDER.format(number=sum(numbers)) if any(numbers) else ""


def _elsewhere(connection: PostgresConnection) -> Iterator[Remaining]:
    """The log of the server, and what is made from it."""
    reason = "it holds removed rows until the server recycles its files"
    for (mode,) in connection.attempt(_ARCHIVE_MODE) or [("unknown",)]:
        if mode != "off":
            reason += f"; its archive keeps them longer (archive_mode: {mode})"
    yield Remaining("write-ahead log", reason)
    for place, query, reason in _READERS_OF_THE_LOG:
        found = connection.attempt(query)
        if found is None:
            yield Remaining(place, f"the server does not say whether it has some; {reason}")
        elif found[0][0]:
            yield Remaining(place, f"it has {found[0][0]}; {reason}")
