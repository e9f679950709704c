"""Reads LangGraph's PostgreSQL layouts.

A body is JSONB and contains at most small values. The other values are in `checkpoint_blobs`, by
channel and version. All checkpoints with the same version of a channel share the same value.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from ckpt_backends.codec.values import MOST_BYTES, typed
from ckpt_backends.model import USERS, Blob, Checkpoint, CheckpointKey, Fault, Outline, in_chunks
from ckpt_backends.postgres.connect import PostgresConnection, connect
from ckpt_backends.postgres.database import (
    KEYS,
    UUID,
    PostgresDatabase,
    PostgresLayout,
    detect,
    find_tables,
    is_uuid,
    of_application,
    uuid_of,
    uuids_of,
)
from ckpt_backends.protocol import CheckpointQuery, Store
from ckpt_backends.servers import STORE, checked, opening
from ckpt_backends.sql.store import Keyed, SqlStore
from ckpt_backends.sql.tables import (
    BODIES_AT_ONCE,
    KEYS_AT_ONCE,
    STATES_AT_ONCE,
    STORED,
    GroupedThreads,
    RowQuery,
    SqlTable,
    SqlTables,
    json_bytes,
    only_read_note,
    tables_with_blobs,
    where_all,
    with_extras,
)
from ckpt_backends.url import StoreUrl

ALIKE = """
    SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
          AND n.nspname = %(schema)s AND left(c.relname, 10) = 'checkpoint'
"""
"""The tables that are named like those of the saver."""

ROWS_PER_THREAD = """
    SELECT c.reltuples / nullif(CASE WHEN s.n_distinct > 0 THEN s.n_distinct
                                     ELSE -s.n_distinct * c.reltuples END, 0)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_stats s ON s.schemaname = n.nspname AND s.tablename = c.relname
    WHERE n.nspname = %(schema)s AND c.relname = %(table)s AND s.attname = 'thread_id'
"""
"""The server's estimate of checkpoints per thread; no row if the table was never analysed."""

_WALK = """
    WITH RECURSIVE walk(thread_id) AS (
        (SELECT thread_id FROM {checkpoints} ORDER BY thread_id LIMIT 1)
        UNION ALL
        SELECT (SELECT c.thread_id FROM {checkpoints} c WHERE c.thread_id > w.thread_id
                ORDER BY c.thread_id LIMIT 1)
        FROM walk w WHERE w.thread_id IS NOT NULL
    )
"""

WALKED = f"""{_WALK}
    SELECT w.thread_id, CASE of_last_ns.checkpoint_ns WHEN '' THEN of_last_ns.checkpoint_id
        ELSE greatest(
            (SELECT c.checkpoint_id FROM {{checkpoints}} c
             WHERE c.thread_id = w.thread_id AND c.checkpoint_ns = ''
             ORDER BY c.checkpoint_id DESC LIMIT 1) COLLATE "C",
            (SELECT max(c.checkpoint_id COLLATE "C") FROM {{checkpoints}} c
             WHERE c.thread_id = w.thread_id AND c.checkpoint_ns > '')) END AS last_id
    FROM walk w, LATERAL (
        SELECT c.checkpoint_ns, c.checkpoint_id FROM {{checkpoints}} c
        WHERE c.thread_id = w.thread_id
        ORDER BY c.checkpoint_ns DESC, c.checkpoint_id DESC LIMIT 1
    ) of_last_ns
    WHERE w.thread_id IS NOT NULL
"""
"""Threads and their newest checkpoints, found by jumping in the primary key from thread to thread.

Most threads have only the root namespace, which sorts first in every collation.
"""

WALKED_HEADS = f"""{_WALK}
    SELECT w.thread_id AS thread, of_root.checkpoint_id AS head
    FROM walk w, LATERAL (
        SELECT c.checkpoint_id FROM {{checkpoints}} c
        WHERE c.thread_id = w.thread_id AND c.checkpoint_ns = ''
        ORDER BY c.checkpoint_id DESC LIMIT 1
    ) of_root
"""
"""The root head of each thread, found in the same way."""

SCANNED = """
    SELECT thread_id, max(checkpoint_id COLLATE "C") AS last_id
    FROM {checkpoints} c GROUP BY thread_id
"""
"""The same result by reading the whole primary key, which is faster for short threads."""

GROUPED = """
    SELECT thread_id AS thread, max(last_id) FILTER (WHERE checkpoint_ns = '') AS head,
           min(first_id COLLATE "C") AS first_id, max(last_id COLLATE "C") AS newest,
           sum(n)::bigint AS n, count(*) AS spaces
    FROM (SELECT thread_id, checkpoint_ns, min(checkpoint_id) AS first_id,
                 max(checkpoint_id) AS last_id, count(*) AS n
          FROM {checkpoints} c {where} GROUP BY thread_id, checkpoint_ns) per_namespace
    GROUP BY thread_id
"""
"""One thread, some or all threads."""

SHALLOW = """(
    SELECT thread_id, checkpoint_ns, checkpoint ->> 'id' AS checkpoint_id,
           NULL::text AS parent_checkpoint_id, checkpoint, metadata FROM {checkpoints})"""
"""The rows of the shallow layout with the columns of the full layout."""

_VERSIONS = """jsonb_each_text(
    CASE jsonb_typeof(c.checkpoint -> 'channel_versions')
         WHEN 'object' THEN c.checkpoint -> 'channel_versions' END) v(channel, version)"""
"""The channels of a body with their versions."""
OF_KEYS = """
    unnest(%(threads)s::{thread_type}[], %(spaces)s::text[], %(ids)s::{id_type}[])
    WITH ORDINALITY k(thread, ns, id, n) JOIN
"""
AT_KEY = "c.{thread} = k.thread AND c.checkpoint_ns = k.ns AND c.{id} = k.id"
"""Checkpoints or writes of several threads. An id is compared in the type in which it is stored,
because only then the server uses an index."""

BLOBS = """
    LEFT JOIN LATERAL (
        SELECT array_agg(b.channel) FILTER (WHERE {filled}) AS channels,
               array_agg(b.type) FILTER (WHERE {filled}) AS types,
               array_agg(coalesce(octet_length(b.blob), 0)) FILTER (WHERE {filled}) AS sizes,
               array_agg({wanted}) FILTER (WHERE {filled}) AS wanted,
               array_agg(CASE WHEN {wanted} AND {short} THEN b.blob END)
                   FILTER (WHERE {filled}) AS blobs,
               array_agg(v.channel) FILTER (WHERE b.channel IS NULL AND {marked}) AS missing
        FROM {versions}
        LEFT JOIN LATERAL (
            SELECT b.channel, b.type, b.blob FROM {blobs} b
            WHERE b.{thread} = c.{thread} AND b.checkpoint_ns = c.checkpoint_ns
                  AND b.channel = v.channel {same_version}
            OFFSET 0
        ) b ON true
    ) kept ON true
"""
"""`OFFSET 0` forces the server to look up only the blobs that the checkpoint names. Without it, the
server expects few blobs per thread and would read all of them for each checkpoint."""
FILLED_CHANNELS = """
    LEFT JOIN LATERAL (
        SELECT array_agg(v.channel) AS channels
        FROM {versions}, LATERAL (
            SELECT 1 FROM {blobs} b
            WHERE b.{thread} = c.{thread} AND b.checkpoint_ns = c.checkpoint_ns
                  AND b.channel = v.channel {same_version} AND {filled}
            OFFSET 0
        ) b
    ) kept ON true
"""
"""The names of the same blobs alone, in half the time."""
SHAPES = """
    CROSS JOIN LATERAL (
        SELECT array_agg(v.channel) AS named, array_agg(b.filled) AS filled,
               array_agg(jsonb_typeof(c.checkpoint -> 'channel_versions' -> v.channel)) AS types
        FROM {versions} LEFT JOIN LATERAL (
            SELECT {filled} AS filled FROM {blobs} b
            WHERE b.{thread} = c.{thread} AND b.checkpoint_ns = c.checkpoint_ns
                  AND b.channel = v.channel {same_version}
            OFFSET 0
        ) b ON true
    ) versions
    CROSS JOIN LATERAL (
        SELECT array_agg(s.node) AS nodes, array_agg(r.channel) AS read
        FROM jsonb_each(
            CASE jsonb_typeof(c.checkpoint -> 'versions_seen')
                 WHEN 'object' THEN c.checkpoint -> 'versions_seen' END
        ) s(node, channels) LEFT JOIN LATERAL jsonb_object_keys(
            CASE jsonb_typeof(s.channels) WHEN 'object' THEN s.channels END
        ) r(channel) ON true
    ) seen
    CROSS JOIN LATERAL (
        SELECT array_agg(i.channel) AS channels
        FROM jsonb_object_keys(
            CASE jsonb_typeof(c.checkpoint -> 'channel_values')
                 WHEN 'object' THEN c.checkpoint -> 'channel_values' END
        ) i(channel)
    ) inside
    GROUP BY versions.named, versions.filled, versions.types, seen.nodes, seen.read,
             inside.channels, jsonb_typeof(c.checkpoint -> 'channel_versions'),
             jsonb_typeof(c.checkpoint -> 'versions_seen'),
             jsonb_typeof(c.checkpoint -> 'channel_values'), (c.checkpoint -> 'v')::text,
             (c.checkpoint -> 'channel_values' -> '__pregel_tasks')::text,
             (c.metadata -> 'source')::text
"""
"""Groups checkpoints that an outline cannot tell apart; see `Store.outlines_at`. The keys of an
object come in an order of its own, which only depends on the keys."""
FILLED = "b.channel IS NOT NULL AND b.type IS DISTINCT FROM 'empty'"
"""The condition for a stored value. The type `empty` marks a channel without a value."""
MARKED = "NOT c.checkpoint ? 'channel_values'"
"""The condition for bodies of savers that store such a mark: those of Python until 2.0.22, of the
shallow layout, and of LangGraph.js. Later savers store small values in the body instead."""
CONTROL = """(
    left(b.channel, 2) = '__' AND b.channel <> ALL(%(users)s::text[])
    OR b.channel ~ '^(branch|join|start):'
    OR c.checkpoint ->> 'v' IN ('1', '2', '3')
       AND octet_length(b.blob) < octet_length(b.channel) + 6
)"""
"""The condition for LangGraph's control channels. Before format 4 each node has a channel of the
same name, with the node's name as its value. Short values are read because they may be such."""

MARKS = """
    SELECT DISTINCT CASE
               WHEN NOT c.checkpoint ? 'channel_values' AND t.type IS NULL THEN 'empty'
               WHEN t.type = 'number' THEN 'js'
               WHEN c.checkpoint ? 'channel_values' THEN 'inline' ELSE 'apart' END
    FROM ((SELECT checkpoint FROM {checkpoints} LIMIT 50)
          UNION ALL (SELECT checkpoint FROM {checkpoints}
                     ORDER BY thread_id LIMIT 50)
          UNION ALL (SELECT checkpoint FROM {checkpoints}
                     ORDER BY thread_id DESC LIMIT 50)) c
    LEFT JOIN LATERAL (
        SELECT jsonb_typeof(v.version) AS type
        FROM jsonb_each(CASE jsonb_typeof(c.checkpoint -> 'channel_versions')
                             WHEN 'object' THEN c.checkpoint -> 'channel_versions' END
        ) v(channel, version) LIMIT 1
    ) t ON true
"""
"""What some bodies tell about the saver: JavaScript's versions are numbers, and newer releases
store small values in the body. The bodies are those stored first, and those of the first and the
last ids of threads, which most applications choose at random."""


_FEW = 500
"""Up to this many rows are fetched with one query; more are read with a cursor."""
_LONG = 30
"""If threads have at least this many checkpoints on average, the query `WALKED` is used."""


_BYTES_AT_ONCE, _COMPRESSED = 16 << 20, 8
"""Approximate bytes of stored rows in memory, and how much longer than stored they may be."""


@checked(*STORE, "faults", "outlines_at")
class PostgresStore(SqlStore):
    """A PostgreSQL database, opened for reading. The caller has begun the first transaction."""

    batches_parts = True
    refuses_nul = True
    _BODY = "convert_to({}::text, 'UTF8')"

    def __init__(
        self, connection: PostgresConnection, url: StoreUrl, layout: PostgresLayout
    ) -> None:
        self._layout = layout
        self._uuids = uuids_of(layout.tables)
        self._blobs = layout.with_text_ids().blobs.sql.replace("%", "%%")
        database = PostgresDatabase(connection, layout.tables)
        self._database: PostgresDatabase
        super().__init__(database, url, tables_of(layout, database))

    def _saver(self) -> str:
        if self._layout.of_server:
            return "LangGraph's Agent Server"
        query = MARKS.format(checkpoints=self._layout.checkpoints.sql.replace("%", "%%"))
        saver = _saver(self._layout, {mark for (mark,) in self._database.rows(query, {})})
        schema = {"schema": self._layout.checkpoints.schema}
        tables = self._database.attempt(ALIKE, schema) or ()
        return with_extras(saver, self._layout.unknown, (name for (name,) in tables))

    @property
    def _only_read(self) -> str:
        return self._layout.only_read

    def notes(self) -> Sequence[str]:
        return [*only_read_note(self._layout.only_read), *self._database.notes()]

    def _number(self, cell: Any) -> int:
        # Servers whose integers have 64 bits, such as CockroachDB, sum them up as numeric.
        return int(cell) if isinstance(cell, Decimal) else super()._number(cell)

    def _newest(self, limit: int | None) -> Iterable[Sequence[Any]]:
        if limit is None or limit > _FEW or self._layout.shallow:
            return super()._newest(limit)
        newest = WALKED if self._are_threads_long() else SCANNED
        # Checkpoints and namespaces are counted only for the threads that are returned.
        only = (
            "c.thread_id = ANY(ARRAY(SELECT thread_id FROM"
            f" ({newest.format(checkpoints=self._tables.checkpoints.source)}) t"
            f' ORDER BY last_id DESC, thread_id COLLATE "C" LIMIT {limit:d}))'
        )
        return self._database.rows(*self._newest_first(only, {}))

    def _heads(self, is_root: str) -> str:
        if self._layout.shallow or not self._are_threads_long():
            return super()._heads(is_root)
        return WALKED_HEADS.format(checkpoints=self._tables.checkpoints.source)

    def _are_threads_long(self) -> bool:
        if self._uuids:
            return False  # jumping needs an index of the ids as text
        table = self._layout.checkpoints
        names = {"schema": table.schema, "table": table.own_name or table.name}
        found = self._database.rows(ROWS_PER_THREAD, names)
        return bool(found) and (found[0][0] or 0) >= _LONG

    def _grouped(self, where: str, made: str = "") -> GroupedThreads:
        table = self._tables.checkpoints.source
        where = where_all(where, made)
        return GroupedThreads(GROUPED.format(checkpoints=table, where=where), {})

    def _select_checkpoints(self, asked: CheckpointQuery) -> RowQuery:
        columns = ["c.parent_checkpoint_id"]
        columns += ["c.checkpoint::text" if asked.body else "NULL"]
        columns += ["c.metadata::text" if asked.metadata else "NULL"]
        join, bound = "", dict[str, object]()
        if asked.body:
            columns += ["kept.missing", "kept.channels", "kept.types"]
            columns += ["kept.sizes", "kept.wanted", "kept.blobs"]
            wanted, bound = "true", {"users": sorted(USERS)}
            if asked.values is not True:
                among, names = self._database.among("b.channel", "names", asked.values or ())
                wanted, bound = f"{CONTROL} OR {among}", bound | names
            join = BLOBS.format(
                **self._blob_terms,
                wanted=wanted,
                marked=MARKED,
                short=f"octet_length(b.blob) <= {MOST_BYTES}",
            )
        at_once = STATES_AT_ONCE if asked.values else BODIES_AT_ONCE
        return RowQuery(
            table=self._tables.checkpoints,
            columns=", ".join(columns),
            order="c.checkpoint_id DESC",
            join=join,
            values=bound,
            at_once=at_once if asked.body else KEYS_AT_ONCE,
            has_bodies=asked.body or asked.metadata,
        )

    def _read_checkpoints(self, rows: Keyed, asked: CheckpointQuery) -> Iterator[Checkpoint]:
        for key, (parent, text, meta, *rest) in rows:
            missing, *blobs = rest or (None,)
            yield Checkpoint(
                key,
                parent,
                json_bytes(text) if asked.body else None,
                json_bytes(meta) if asked.metadata else None,
                _blobs(*blobs) if asked.body else None,
                missing=frozenset(missing or ()),
            )

    @property
    def _id_terms(self) -> dict[str, str]:
        """What a query that compares ids is formatted with: their columns and types."""
        terms = {}
        for term, column in zip(("thread", "id"), KEYS, strict=True):
            is_stored = column in self._uuids
            terms[term] = uuid_of(column) if is_stored else column
            terms[f"{term}_type"] = UUID if is_stored else "text"
        return terms

    @property
    def _blob_terms(self) -> dict[str, str]:
        """What a query for the blobs of checkpoints is formatted with."""
        return {
            **self._id_terms,
            "blobs": self._blobs,
            "filled": FILLED,
            "versions": _VERSIONS,
            "same_version": "" if self._layout.shallow else "AND b.version = v.version",
        }

    def outlines_at(self, keys: Sequence[CheckpointKey]) -> Iterator[Outline]:
        shapes = SHAPES.format(**self._blob_terms)
        text = f"SELECT array_agg(n) FROM {self._keys(self._tables.checkpoints)} {shapes}"
        for some in in_chunks(self._storable(keys), KEYS_AT_ONCE):
            found = self._database.rows(text, _bound(some))
            alike = [[some[n - 1] for n in numbers] for (numbers,) in found]
            groups = {group[0]: group for group in alike}
            for one in self._outlines(list(groups)):
                yield Outline(one, groups[one.key])

    def _outlines(self, keys: Sequence[CheckpointKey]) -> Iterator[Checkpoint]:
        query = RowQuery(
            table=self._tables.checkpoints,
            columns="c.parent_checkpoint_id, c.checkpoint::text, c.metadata::text, kept.channels",
            order="c.checkpoint_id DESC",
            join=FILLED_CHANNELS.format(**self._blob_terms),
            at_once=BODIES_AT_ONCE,
            has_bodies=True,
        )
        for key, (parent, text, meta, channels) in self._at(query, keys):
            blobs = dict.fromkeys(channels or (), STORED)
            yield Checkpoint(key, parent, json_bytes(text), json_bytes(meta), blobs)

    def _at(self, query: RowQuery, keys: Sequence[CheckpointKey]) -> Keyed:
        text = f"SELECT n, {query.columns} FROM {self._keys(query.table)} {query.join} {query.rest}"
        for some in in_chunks(self._storable(keys), BODIES_AT_ONCE):
            values = {**query.values, **_bound(some)}
            # Values may be large: a cursor reads fewer of them at a time.
            is_state = query.at_once == STATES_AT_ONCE
            read = self._database.stream if is_state else self._database.rows
            for n, *row in read(text, values):
                yield some[n - 1], row

    def _keys(self, table: SqlTable) -> str:
        """The rows of a table with the keys that `_bound` gives."""
        terms = self._id_terms
        return f"{OF_KEYS.format(**terms)} {table.source} c ON {AT_KEY.format(**terms)}"

    def _storable(self, keys: Sequence[CheckpointKey]) -> list[CheckpointKey]:
        """Those of the keys that the server can store."""
        stored = [key for key in keys if self._database.storable("".join(key))]
        for column in self._uuids:
            stored = [key for key in stored if is_uuid(getattr(key, column))]
        return stored

    def _fetch(
        self, query: str, values: Mapping[str, object], at_once: int, number: int | None
    ) -> Iterable[Sequence[Any]]:
        """The rows: with one query for a few checkpoints, otherwise with a cursor."""
        if number is not None and number <= min(at_once, _FEW):
            return self._database.rows(query, values)
        return self._stream(query, values, at_once)

    def _stored_rows(self, table: SqlTable, thread_id: str) -> Iterator[Sequence[Any]]:
        query = f"SELECT max({table.size}) FROM {table.sql} c WHERE {self._thread_is}"
        values = self._of(thread_id)
        ((longest,),) = self._database.rows(query, values)
        if longest is None:
            return iter(())
        # Bodies are stored compressed, so they may be longer.
        at_once = _BYTES_AT_ONCE // (_COMPRESSED * (self._number(longest) + 1))
        columns = ", ".join(table.columns.values())
        query = f"SELECT {columns} FROM {table.sql} c WHERE {self._thread_is}"
        return self._stream(query, values, max(1, min(BODIES_AT_ONCE, at_once)))

    def faults(self) -> Iterator[Fault]:
        from ckpt_backends.postgres.health import schema_faults

        yield from schema_faults(self._database, self._layout)
        yield from super().faults()

    def sources(self, key: CheckpointKey) -> list[str]:
        literal, layout = self._database.literal, self._layout
        places = {"thread_id": key.thread_id, "checkpoint_ns": key.checkpoint_ns}
        where = " AND ".join(f"{name} = {literal(value)}" for name, value in places.items())
        exactly = f"{where} AND checkpoint_id = {literal(key.checkpoint_id)}"
        row = where if layout.shallow else exactly
        versions = "(channel, version)" if not layout.shallow else "channel"
        keys = "key, value" if not layout.shallow else "key"
        return [
            f"SELECT * FROM {layout.checkpoints.sql} WHERE {row};",
            f"SELECT * FROM {layout.blobs.sql} WHERE {where} AND {versions} IN (SELECT {keys}"
            f" FROM {layout.checkpoints.sql}, jsonb_each_text(checkpoint->'channel_versions')"
            f" WHERE {row});",
            f"SELECT * FROM {layout.writes.sql} WHERE {exactly};",
        ]


def tables_of(layout: PostgresLayout, database: PostgresDatabase) -> SqlTables:
    """The tables of the layout, for reading and changing."""
    return tables_with_blobs(
        database,
        layout.with_text_ids(),
        size="pg_column_size(c.{})",
        length="coalesce(octet_length(c.{}), 0)",
        view=SHALLOW,
        layout=layout.name,
        names=tuple(table.place for table in layout.tables),
        can_add=not layout.shallow and not layout.unknown,
        own_id="(checkpoint ->> 'id')" if layout.shallow else "checkpoint_id",
    )


def _bound(keys: Sequence[CheckpointKey]) -> dict[str, object]:
    """The parameters of `OF_KEYS`."""
    threads, spaces, ids = map(list, zip(*keys, strict=True))
    return {"threads": threads, "spaces": spaces, "ids": ids}


def _blobs(
    channels: list[str] | None,
    types: list[str],
    sizes: list[int],
    wanted: list[bool],
    blobs: list[bytes | None],
) -> dict[str, Blob]:
    return {
        channel: Blob(tag or "", size, typed(tag or "", size, blob) if read else None)
        for channel, tag, size, read, blob in zip(
            channels or (), types or (), sizes or (), wanted or (), blobs or (), strict=True
        )
    }


def _saver(layout: PostgresLayout, marks: Collection[str]) -> str:
    """The saver, or all that wrote the store, guessed from the columns and some checkpoints."""
    package, found = "langgraph-checkpoint-postgres", []
    if "js" in marks:
        found.append("LangGraph.js (@langchain/langgraph-checkpoint-postgres)")
    if layout.shallow:
        found += [f"{package}, ShallowPostgresSaver"] if marks != {"js"} else []
    elif {"inline", "apart"} <= {*marks}:
        found.append(f"{package} before 2.0.23, and 2.0.23 or later")
    elif "inline" in marks:
        found.append(f"{package} 2.0.23 or later")
    elif "apart" in marks or not found:
        later, before = f"{package} 2.0.12 or later", f"{package} before 2.0.12, or LangGraph.js"
        found.append(later if layout.task_path else before)
    return " and ".join(found)


def open_store(url: StoreUrl) -> Store:
    """Open for reading. Raises `StoreUnavailable` or `UnknownLayout`."""
    with opening(connect(url), url) as connection:
        tables, schemas = find_tables(connection)
        if found := of_application(tables, schemas):
            saver, own = found
            database = PostgresDatabase(connection, own)
            return saver.open(database, database.columns, url, own[0].schema)
        layout = detect(tables, schemas, url.params.get("layout"), str(url))
        return PostgresStore(connection, url, layout)
