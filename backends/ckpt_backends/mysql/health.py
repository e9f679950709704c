"""Faults of a MySQL database: missing columns and indexes, wrong hashes, and unused space.

Reads the catalog and the numbers in `checkpoint_migrations`. Only the check of one thread's hashes
reads its rows, without bodies and values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ckpt_backends.errors import StoreUnavailable
from ckpt_backends.model import Fault
from ckpt_backends.mysql.database import (
    FULL,
    HASH,
    SHALLOW,
    SHALLOW_ID,
    MySQLDatabase,
    MySQLLayout,
    MySQLTable,
    exact,
    is_lookalike,
    literal,
)
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

if TYPE_CHECKING:
    pass


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


# Faults of a server's settings and collations with which the official saver cannot load.
#
# The saver lets the server put the values, and the writes, of a checkpoint into one JSON text
# (`SELECT_SQL` in `langgraph/checkpoint/mysql/base.py`).
#
# - It compares the names of channels that JSON_TABLE gives, in the default collation of utf8mb4,
#   with
#   columns. The server refuses to compare two columns of different collations.
# - MariaDB cuts the text at `group_concat_max_len` and at `max_allowed_packet`, without an error.
#   The
#   saver cannot parse the rest.
# - MariaDB puts NULL in the place of a value whose base64 form is longer than `max_allowed_packet`.
#   The saver takes this for a channel without a value.
#
# Whether MySQL has such limits is not known, so there only collations are compared.


_MIXED = frozenset({1267, 1270, 1271})
"""What servers answer if columns of different collations are compared."""
_TABLE = "JSON_TABLE({keys}, '$[*]' COLUMNS (channel VARCHAR(150) CHARACTER SET utf8mb4 PATH '$'))"
_CHANNELS = _TABLE.format(keys="JSON_KEYS(c.checkpoint, '$.channel_versions')")
_VERSION = """
    JSON_UNQUOTE(JSON_EXTRACT(c.checkpoint,
                              CONCAT('$.channel_versions.', '"', channels.channel, '"')))
"""
_WANTED = f"""SELECT COLLATION(channel) FROM {_TABLE.format(keys="'[1]'")} named"""
_PROBE = f"""
    WITH named AS (
        SELECT c.thread_id, {{own_id}} AS checkpoint_id, channels.channel, {_VERSION} AS version
        FROM {{checkpoints}} c, {_CHANNELS} AS channels
    )
    SELECT 1 FROM {{checkpoints}} c WHERE c.thread_id = '' AND (
        EXISTS (SELECT 1 FROM named JOIN {{blobs}} b ON b.channel = named.channel {{same_version}}
                WHERE b.thread_id = c.thread_id AND named.thread_id = c.thread_id)
        OR EXISTS (SELECT 1 FROM {{writes}} w
                   WHERE w.thread_id = c.thread_id AND w.checkpoint_id = {{own_id}}))
"""
"""The comparisons of the saver's query. It reads nothing."""
_HEADS = f"""
    (SELECT thread_id, {HASH}, MAX(checkpoint_id) AS newest FROM {{checkpoints}}
     GROUP BY thread_id, {HASH}) h
    JOIN {{checkpoints}} c
    ON c.thread_id = h.thread_id AND c.{HASH} = h.{HASH} AND c.checkpoint_id = h.newest
"""
_ENCODED = "4 * CEIL(OCTET_LENGTH(o.`blob`) / 3)"
_BREAKS = f"GREATEST(0, FLOOR(({_ENCODED} - 1) / 76))"
"""TO_BASE64 breaks lines after 76 characters. In JSON, a break has two."""
_LONG = f"""
    SELECT {exact("c.thread_id")}, SUM({_ENCODED} + 2 * {_BREAKS} + {{names}}) - 1 AS whole,
           MAX({_ENCODED} + {_BREAKS} + 1) AS longest
    FROM {{heads}} {{joined}}
    GROUP BY c.thread_id, c.{HASH} HAVING whole > %(most)s OR longest > %(packet)s
"""
_VALUES = f"""
    JOIN {_CHANNELS} AS channels
    JOIN {{blobs}} o ON o.thread_id = c.thread_id AND o.{HASH} = c.{HASH}
         AND o.channel = channels.channel {{same_version}}
"""
_NAMES_OF_VALUES = "OCTET_LENGTH(o.channel) + OCTET_LENGTH(o.type) + 13"
_WRITES = f"""
    JOIN {{writes}} o ON o.thread_id = c.thread_id AND o.{HASH} = c.{HASH}
         AND o.checkpoint_id = {{own_id}}
"""
_NAMES_OF_WRITES = (
    "OCTET_LENGTH(o.task_id) + OCTET_LENGTH(o.channel) + COALESCE(OCTET_LENGTH(o.type), 0) + 20"
)
"""With the punctuation of MariaDB's JSON functions."""
_MOST_PACKET = 1 << 30


class _Long(NamedTuple):
    """What the head of a thread needs of the server, in bytes."""

    thread_id: str
    whole: int
    longest: int


def limit_faults(database: MySQLDatabase, layout: MySQLLayout) -> Iterator[Fault]:
    """`saver-limit`, if the server cannot answer the query with which the saver loads.

    Looks at the values and writes of the newest checkpoint of each namespace, by their lengths.
    """
    if not layout.hashed or layout.unknown or database.views:
        return
    probe = _PROBE.format(**_terms(layout, "AND b.version = named.version"))
    try:
        is_mixed = database.attempt(probe, {}, expected=_MIXED) is None
    except StoreUnavailable:  # A server without JSON_TABLE, for which there are older savers.
        return
    if is_mixed:
        yield _mixed_collations(database, layout)
    elif database.engine().startswith("MariaDB "):
        yield from _setting_faults(database, layout)


def _terms(layout: MySQLLayout, version: str) -> dict[str, str]:
    return {
        "checkpoints": layout.checkpoints.sql,
        "blobs": layout.blobs.sql,
        "writes": layout.writes.sql,
        "own_id": SHALLOW_ID if layout.shallow else "c.checkpoint_id",
        "same_version": "" if layout.shallow else version,
    }


def _mixed_collations(database: MySQLDatabase, layout: MySQLLayout) -> Fault:
    wanted = text(database.rows(_WANTED, {})[0][0])
    others = {
        table.name: other
        for table in layout.tables
        if (other := next((one for one in _compared(table) if one != wanted), ""))
    }
    found = " and ".join(f"{collation} in '{name}'" for name, collation in others.items())
    detail = f"the server refuses the saver's query: it compares {wanted} with {found}"
    fix = " ".join(
        f"ALTER TABLE {name} CONVERT TO CHARACTER SET utf8mb4 COLLATE {wanted};" for name in others
    )
    return Fault("saver-limit", detail, fix=fix)


def _compared(table: MySQLTable) -> Iterator[str]:
    """The collations of the columns that the saver compares."""
    for name in ("thread_id", "checkpoint_id", "channel", "version"):
        if name in table.columns:
            yield table.columns[name].collation


def _setting_faults(database: MySQLDatabase, layout: MySQLLayout) -> Iterator[Fault]:
    ((concat, packet),) = database.rows(
        "SELECT @@GLOBAL.group_concat_max_len, @@GLOBAL.max_allowed_packet", {}
    )
    concat, packet = int(concat), int(packet)
    found = list(_long(database, layout, min(concat, packet), packet))
    cut = {one.thread_id for one in found if one.whole > concat}
    needed = max((one.whole for one in found), default=0)
    if cut:
        yield Fault(
            "saver-limit",
            f"group_concat_max_len is {concat}, and the saver needs {needed} bytes to load"
            f" {_named(cut)}",
            fix=f"SET GLOBAL group_concat_max_len = {_room(needed)};",
        )
    cut = {one.thread_id for one in found if max(one.whole, one.longest) > packet}
    if cut:
        needed = max(max(one.whole, one.longest) for one in found)
        yield Fault(
            "saver-limit",
            f"max_allowed_packet is {packet}, and the saver needs {needed} bytes to load"
            f" {_named(cut)}; a longer value is left out, without an error",
            fix=f"SET GLOBAL max_allowed_packet = {min(_MOST_PACKET, _room(needed))};",
        )


def _long(database: MySQLDatabase, layout: MySQLLayout, most: int, packet: int) -> Iterator[_Long]:
    terms = _terms(layout, f"AND o.version = {_VERSION}")
    heads = f"{layout.checkpoints.sql} c" if layout.shallow else _HEADS.format(**terms)
    for joined, names in ((_VALUES, _NAMES_OF_VALUES), (_WRITES, _NAMES_OF_WRITES)):
        query = _LONG.format(heads=heads, joined=joined.format(**terms), names=names)
        rows = database.rows(query, {"most": most, "packet": packet})
        for thread_id, whole, longest in rows:
            yield _Long(text(thread_id), int(whole), int(longest))


def _named(threads: Collection[str]) -> str:
    first = f"thread '{min(threads)}'"
    return first if len(threads) == 1 else f"{first} and {len(threads) - 1} more"


def _room(needed: int) -> int:
    """Twice as much, as a power of two of at least 16 MiB."""
    return 1 << max(24, (2 * needed - 1).bit_length())
