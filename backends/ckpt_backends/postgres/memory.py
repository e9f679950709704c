"""Opens LangGraph's PostgresStore.

Source: `MIGRATIONS` and `VECTOR_MIGRATIONS` in `langgraph/store/postgres/base.py`, 2.0 to 3.2.0.
PostgresStore hides expired rows only with the option `omit_expired`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import quote

from ckpt_backends import shell
from ckpt_backends.codec.values import MOST_BYTES
from ckpt_backends.errors import UnknownLayout
from ckpt_backends.memory import COLUMNS, STORE, VECTORS, Vector, check_leaves
from ckpt_backends.postgres.connect import PostgresConnection, connect
from ckpt_backends.postgres.database import PostgresDatabase, PostgresTable, tables_named
from ckpt_backends.servers import opening
from ckpt_backends.sql.memory import MemoryDialect, MemoryTables, SqlMemory, WritableSqlMemory
from ckpt_backends.url import StoreUrl


def _vectors(fields: Sequence[tuple[str, str]] | None) -> Iterable[Vector]:
    return (Vector(name, int(length)) for name, length in fields or ())


def _problem_of(leaf: object) -> str:
    """What `jsonb` would change (https://www.postgresql.org/docs/current/datatype-json.html)."""
    if isinstance(leaf, str) and "\0" in leaf:
        return "has a NUL character, which PostgreSQL cannot store"
    if isinstance(leaf, float) and (repr(leaf) == "-0.0" or _is_long(leaf)):
        return f"has the number {leaf!r}, which PostgreSQL would store in another form"
    return ""


def _is_long(number: float) -> bool:
    """Whether `jsonb` writes a number without its exponent as a whole number."""
    return number.is_integer() and "e" in repr(number)


_DIALECT = MemoryDialect(
    layout="postgres-store",
    # The compressed size of a value, without reading the value.
    size="pg_column_size(s.value)",
    value=f"CASE WHEN octet_length(s.value::text) <= {MOST_BYTES} THEN s.value::text END",
    vectors="""(
        SELECT array_agg(ARRAY[v.field_name, coalesce(pg_column_size(v.embedding), 0)::text]
                         ORDER BY v.field_name COLLATE "C")
        FROM {vectors} v WHERE v.prefix = s.prefix AND v.key = s.key)""",
    vectors_of=_vectors,
    # NULL for times that Python cannot represent. PostgreSQL's range is larger and has infinity.
    time="CASE WHEN {0} BETWEEN '0001-01-02' AND '9999-12-30' THEN {0} END",
    # These use the index that PostgresStore creates.
    after="~>=~",
    before="~<~",
    lock="FOR UPDATE OF s",
    check_value=lambda value: check_leaves(value, _problem_of),
)


def open_memory(url: StoreUrl) -> SqlMemory:
    """Open a database for reading. Raises `StoreUnavailable` or `UnknownLayout`."""
    with opening(connect(url), url) as connection:
        found = find_memory_tables(connection)
        return SqlMemory(PostgresDatabase(connection, found), url, _named(found), _DIALECT)


def open_writable_memory(url: StoreUrl) -> WritableSqlMemory:
    """Open a database for changing. Raises the errors of `open_memory`, and `Unsupported`."""
    with opening(connect(url, writable=True), url) as connection:
        found = find_memory_tables(connection)
        connection.restart()
        database = PostgresDatabase(connection, found)
        return WritableSqlMemory(database, url, _named(found), _DIALECT)


def _named(tables: Sequence[PostgresTable]) -> MemoryTables:
    return MemoryTables(
        # In a query with parameters, `%` must be written as `%%`.
        {table.name: table.sql.replace("%", "%%") for table in tables},
        {table.name: list(table.columns) for table in tables},
        [f"{table.schema}.{table.name}" for table in tables],
    )


def find_memory_tables(connection: PostgresConnection) -> list[PostgresTable]:
    """The tables: `store` first, then `store_vectors` if it exists.

    Raises `UnknownLayout` if there is no table `store`.
    """
    schemas = connection.schemas()
    tables = tables_named(connection, [STORE, VECTORS])
    for schema in schemas:
        found = sorted((one for one in tables if one.schema == schema), key=lambda one: one.name)
        if found and found[0].name == STORE and found[0].columns.keys() >= COLUMNS:
            return found
    elsewhere = sorted({one.schema for one in tables if one.name == STORE} - set(schemas))
    hint = f"looked in {', '.join(schemas) or 'no schema'} for the table 'store'"
    if elsewhere:
        param = quote(elsewhere[0], safe="")
        hint += f"; there is one in {shell.name(elsewhere[0])}: add ?schema={param}"
    raise UnknownLayout(f"no long-term memory in '{connection.url}'", hint=hint)
