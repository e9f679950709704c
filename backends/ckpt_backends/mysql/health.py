"""Faults of a MySQL database: missing columns and indexes, wrong hashes, and unused space.

Reads the catalog and the numbers in `checkpoint_migrations`. Only the check of one thread's hashes
reads its rows, without bodies and values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ckpt_backends.model import Fault
from ckpt_backends.mysql.database import MySQLDatabase
from ckpt_backends.mysql.layout import FULL, HASH, SHALLOW, MySQLLayout, is_lookalike, literal
from ckpt_backends.mysql.queries import SHALLOW_ID, exact
from ckpt_backends.sql.database import text
from ckpt_backends.sql.health import (
    THREAD_INDEXES,
    TWICE,
    TableIndex,
    key_missing,
    missing_column,
    missing_indexes,
    missing_migrations,
    saver_keys,
)
from ckpt_backends.sql.tables import BLOBS, CHECKPOINTS, WRITES

_FULL_KEYS, _SHALLOW_KEYS = saver_keys(HASH)
_BY_ID = TableIndex(CHECKPOINTS, ("checkpoint_id",), "checkpoints_checkpoint_id_idx")
_HASH_COLUMN = f"{HASH} BINARY(16)"


@dataclass(frozen=True, slots=True)
class _Migrations:
    """The numbers of the migrations of a saver that leave something in the catalog."""

    indexes: Mapping[int, TableIndex]
    task_path: int
    hashes: Mapping[int, str]
    """By number, the table that gets a hash. Empty if the tables are created with it."""
    plain: Mapping[int, str]
    """By number, the table whose hash the server stops to compute."""


_OF_SAVER: Mapping[str, _Migrations] = {
    FULL: _Migrations(
        dict(enumerate((*THREAD_INDEXES, _BY_ID), 5)),
        18,
        dict(enumerate((CHECKPOINTS, BLOBS, WRITES), 15)),
        dict(enumerate((CHECKPOINTS, BLOBS, WRITES), 19)),
    ),
    SHALLOW: _Migrations(
        dict(enumerate(THREAD_INDEXES, 4)), 7, {}, dict(enumerate((CHECKPOINTS, BLOBS, WRITES), 8))
    ),
}

_VERSIONS = "SELECT v FROM checkpoint_migrations"
_INDEXES = """
    SELECT table_name, index_name, non_unique, column_name FROM information_schema.statistics
    WHERE table_schema = DATABASE() AND table_name IN %(names)s
    ORDER BY table_name, index_name, seq_in_index
"""
_WRONG = f"""
    SELECT {exact("c.checkpoint_ns")}, {{place}}, COUNT(*) FROM {{table}} c
    WHERE {{where}} AND c.{HASH} NOT IN
          (UNHEX(MD5(c.checkpoint_ns)), UNHEX(MD5(CONVERT(c.checkpoint_ns USING utf8mb4))))
    GROUP BY 1, 2, 3, 4
"""
"""The saver computes the hash from UTF-8, the server from the character set of the column."""


_UNMATCHED = f"""
    SELECT {exact("c.thread_id")} FROM (SELECT DISTINCT thread_id, {HASH} FROM {{table}}) c
    WHERE NOT EXISTS (
        SELECT 1 FROM {{checkpoints}} p WHERE p.thread_id = {{thread}} AND p.{HASH} = c.{HASH}
        AND {exact("p.thread_id")} = {exact("c.thread_id")})
"""
"""Reads the primary keys only, and of each namespace only its first key."""


def schema_faults(database: MySQLDatabase, layout: MySQLLayout) -> Iterator[Fault]:
    """What the migrations that were run should have left, and is not there.

    Nothing is expected of an unknown saver.
    """
    if layout.unknown:
        return
    last = -1 if layout.migration is None else layout.migration
    if layout.migration is not None:
        yield from missing_migrations([v for (v,) in database.rows(_VERSIONS, {})])
    of_saver = _OF_SAVER[layout.name]
    if layout.task_path:
        last = max(last, of_saver.task_path)
    elif last >= of_saver.task_path:
        column = "task_path VARCHAR(2000) NOT NULL DEFAULT ''"
        fix = f"ALTER TABLE {WRITES} ADD COLUMN {column};"
        yield missing_column(WRITES, "task_path", fix, "save")
    tables = {table.name: table for table in layout.tables}
    for number, name in of_saver.hashes.items():
        if last >= number and HASH not in tables[name].columns:
            yield missing_column(name, HASH, f"ALTER TABLE {name} ADD COLUMN {_HASH_COLUMN};")
    for number, name in of_saver.plain.items():
        hashed = tables[name].columns.get(HASH)
        if last >= number and hashed is not None and hashed.generated:
            detail = f"column '{HASH}' of table '{name}' is computed, so the saver cannot write it"
            fix = f"ALTER TABLE {name} MODIFY COLUMN {_HASH_COLUMN};"
            yield Fault("schema-old", detail, fix=fix, is_error=True)
    if not is_lookalike(database.engine()):
        yield from _index_faults(database, layout, last)


def unmatched_queries(database: MySQLDatabase, layout: MySQLLayout) -> Iterator[str]:
    """The queries for threads in which a hash of values or writes has no checkpoint."""
    if layout.hashed:
        for table in (layout.blobs, layout.writes):
            yield _UNMATCHED.format(
                table=table.sql,
                checkpoints=layout.checkpoints.sql,
                thread=database.as_in(CHECKPOINTS, "thread_id", "c.thread_id"),
            )


def hash_faults(database: MySQLDatabase, layout: MySQLLayout, thread_id: str) -> Iterator[Fault]:
    """The rows of a thread that the saver does not find, because their hash is not of their
    namespace.
    """
    if not layout.hashed or not database.storable(thread_id):
        return
    own_id = SHALLOW_ID if layout.shallow else "c.checkpoint_id"
    where, thread = database.same("c.thread_id", "thread"), literal(thread_id)
    for table, place in (
        (layout.checkpoints, f"{own_id}, NULL, NULL"),
        (layout.writes, "c.checkpoint_id, NULL, c.task_id"),
        (layout.blobs, f"NULL, {exact('c.channel')}, NULL"),
    ):
        if table.columns[HASH].generated:
            continue
        query = _WRONG.format(place=place, table=table.sql, where=where)
        fix = (
            f"UPDATE {table.name} SET {HASH} = UNHEX(MD5(checkpoint_ns))"
            f" WHERE thread_id = {thread} AND BINARY thread_id = {thread}"
            f" AND {HASH} <> UNHEX(MD5(checkpoint_ns));"
        )
        for ns, checkpoint_id, channel, task_id, rows in database.rows(
            query, {"thread": thread_id}
        ):
            yield Fault(
                "index-stale",
                f"rows of '{table.name}' with the hash of another namespace: {rows}",
                thread_id,
                text(ns),
                checkpoint_id,
                None if channel is None else text(channel),
                task_id,
                fix,
            )


def _index_faults(database: MySQLDatabase, layout: MySQLLayout, last: int) -> Iterator[Fault]:
    columns: dict[tuple[str, str, bool], list[str]] = {}
    names = tuple(one.name for one in layout.tables)
    for table, name, not_unique, column in database.rows(_INDEXES, {"names": names}):
        columns.setdefault((table, name, not not_unique), []).append(column or "")
    found = [
        TableIndex(table, tuple(listed), name, is_unique)
        for (table, name, is_unique), listed in columns.items()
    ]
    indexes = _OF_SAVER[layout.name].indexes
    wanted = [one for number, one in indexes.items() if last >= number]
    if layout.hashed:
        wanted += _SHALLOW_KEYS if layout.shallow else _FULL_KEYS
    # A view has no indexes.
    wanted = [one for one in wanted if one.table not in database.views]
    for one in missing_indexes(found, wanted):
        listed = ", ".join(one.columns)
        fix = f"CREATE INDEX {one.name} ON {one.table} ({listed});"
        if one.is_unique:
            fix = f"ALTER TABLE {one.table} ADD PRIMARY KEY ({listed});"
            yield key_missing(database, one.table, one, fix, TWICE)
        else:
            yield Fault("index-missing", one.is_missing, fix=fix)
