"""Faults of a PostgreSQL database: missing columns and indexes, and unused space.

Reads the catalog, statistics, and the numbers in `checkpoint_migrations`. The savers' lists of
migrations, by the number of the last one:

| list | number | what it ends with |
|---|---|---|
| full, LangGraph.js and before 2.0.8 | 4 | values may be NULL |
| full, 2.0.8 and 2.0.9; 2.0.10 and 2.0.11 | 8; 7 | the three indexes of thread ids |
| full, 2.0.12; from 2.0.13 | 8; 9 | the same and `task_path` |
| shallow | 7 | one index each in 4, 5 and 6, then `task_path` |

So 8 does not tell whether `task_path` must exist. Where it exists, all the others must, too.
"""

from __future__ import annotations

from collections.abc import Iterator

from ckpt_backends.model import Fault
from ckpt_backends.postgres.database import PostgresDatabase, PostgresLayout, quoted_name
from ckpt_backends.sql.health import (
    THREAD_INDEXES,
    TableIndex,
    key_missing,
    missing_column,
    missing_indexes,
    missing_migrations,
    saver_keys,
)
from ckpt_backends.sql.tables import BLOBS, WRITES

_NEWEST = 9
"""The last known migration. After a later one, nothing is expected."""
_FULL_KEYS, _SHALLOW_KEYS = saver_keys("checkpoint_ns")
_NULLABLE, _INDEXED, _PATHS = 4, 7, 9
"""Full layout: the numbers from which values may be NULL, all indexes exist, and `task_path`."""
_SHALLOW_INDEXED, _SHALLOW_PATHS = 4, 7
"""Shallow layout: the numbers of the first index, and of `task_path`."""


_VERSIONS = "SELECT v FROM {}.checkpoint_migrations"
_TABLES = """
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace {}
    WHERE n.nspname || '.' || c.relname = ANY(%(names)s::text[])
"""
_NOT_NULL = (
    "SELECT 1"
    + _TABLES.format("JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'blob'")
    + "AND a.attnotnull"
)
_STORED = "SELECT c.relname::text" + _TABLES.format("") + "AND c.relkind IN ('r', 'p')"
"""The tables that can have indexes; a view cannot."""
_INDEXES = """
    SELECT c.relname::text, i.relname::text, x.indisunique, x.indisvalid,
           array(SELECT a.attname::text
                 FROM unnest(x.indkey::int2[]) WITH ORDINALITY k(number, place)
                 JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.number
                 WHERE k.place <= x.indnkeyatts ORDER BY k.place)
""" + _TABLES.format(
    "JOIN pg_index x ON x.indrelid = c.oid AND x.indpred IS NULL"
    " JOIN pg_class i ON i.oid = x.indexrelid"
)
_BUILDING = "SELECT 1 FROM pg_stat_progress_create_index WHERE datname = current_database() LIMIT 1"
"""An index that is being built is not valid yet. Which one that is, other users cannot see."""


def schema_faults(database: PostgresDatabase, layout: PostgresLayout) -> Iterator[Fault]:
    """What the migrations that were run should have left, and is not there.

    Nothing is expected of an unknown saver.
    """
    if layout.unknown:
        return
    schema = quoted_name(layout.checkpoints.schema)
    # A role that reads the three tables may not be allowed to read this one.
    versions = [v for (v,) in database.attempt(_VERSIONS.format(schema), {}) or ()]
    last = max(versions, default=-1)
    if last > _NEWEST:
        return
    yield from missing_migrations(versions)
    if layout.task_path:
        last = _NEWEST
    elif last >= (_SHALLOW_PATHS if layout.shallow else _PATHS):
        fix = f"ALTER TABLE {layout.writes.sql} ADD COLUMN task_path TEXT NOT NULL DEFAULT '';"
        yield missing_column(WRITES, "task_path", fix)
    if not database.is_postgres():
        return
    blobs = f"{layout.blobs.schema}.{BLOBS}"
    if not layout.shallow and last >= _NULLABLE and database.rows(_NOT_NULL, {"names": [blobs]}):
        yield Fault(
            "schema-old",
            f"column 'blob' of table '{BLOBS}' is NOT NULL, so empty values cannot be saved",
            fix=f"ALTER TABLE {layout.blobs.sql} ALTER COLUMN blob DROP NOT NULL;",
        )
    yield from _index_faults(database, layout, last)


def _index_faults(database: PostgresDatabase, layout: PostgresLayout, last: int) -> Iterator[Fault]:
    names = {"names": [f"{one.schema}.{one.name}" for one in layout.tables]}
    stored = {table for (table,) in database.rows(_STORED, names)}
    wanted = [one for one in _wanted(layout, last) if one.table in stored]
    indexes: dict[bool, list[TableIndex]] = {True: [], False: []}
    for table, name, is_unique, is_valid, columns in database.rows(_INDEXES, names):
        indexes[is_valid].append(TableIndex(table, tuple(columns), name, is_unique))
    missing = list(missing_indexes(indexes[True], wanted))
    # None if the server is too old to tell.
    if not missing or database.attempt(_BUILDING, {}) != []:
        return
    tables = {one.name: one for one in layout.tables}
    for one in missing:
        table = tables[one.table]
        invalid = next((other for other in indexes[False] if other.serves_as(one)), None)
        if invalid is not None:
            detail = f"index '{invalid.name}' of table '{one.table}' is invalid and not used"
            index = f"{quoted_name(table.schema)}.{quoted_name(invalid.name)}"
            fix = f"REINDEX INDEX CONCURRENTLY {index};"
            yield Fault("index-missing", detail, fix=fix, is_error=one.is_unique)
            continue
        columns = ", ".join(one.columns)
        fix = f"CREATE INDEX CONCURRENTLY {one.name} ON {table.sql} ({columns});"
        if one.is_unique:
            fix = f"ALTER TABLE {table.sql} ADD PRIMARY KEY ({columns});"
            # `INSERT ... ON CONFLICT` fails without a unique index.
            yield key_missing(database, table.sql, one, fix, "the saver cannot save", is_error=True)
        else:
            yield Fault("index-missing", one.is_missing, fix=fix)


def _wanted(layout: PostgresLayout, last: int) -> list[TableIndex]:
    """The indexes that must exist after a migration."""
    if layout.shallow:
        return [*_SHALLOW_KEYS, *THREAD_INDEXES[: max(0, last + 1 - _SHALLOW_INDEXED)]]
    return [*_FULL_KEYS, *(THREAD_INDEXES if last >= _INDEXED else ())]
