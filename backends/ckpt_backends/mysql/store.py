"""Reads LangGraph's layouts on MySQL and MariaDB.

A body is JSON and contains at most small values. The other values are in `checkpoint_blobs`, by
channel and version. All checkpoints with the same version of a channel share the same value.

Keys are listed first; then rows are read, some at a time. The official saver lets the server join
rows with `GROUP_CONCAT`, which cuts results longer than `group_concat_max_len` (1 MiB). ckpt does
not.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Unpack

from ckpt_backends.codec.values import MOST_BYTES, typed, unread
from ckpt_backends.model import (
    Blob,
    Checkpoint,
    CheckpointKey,
    Fault,
    Outline,
    Thread,
    ThreadBounds,
    TypedBytes,
    Write,
    in_batches,
    in_chunks,
    is_reserved,
    is_wanted,
)
from ckpt_backends.mysql.connect import MySQLConnection, connect
from ckpt_backends.mysql.database import (
    SHALLOW_ID,
    MySQLDatabase,
    MySQLLayout,
    exact,
    find_layout,
    find_tables,
    literal,
    storable,
)
from ckpt_backends.protocol import CheckpointQuery, ReadOptions, Store
from ckpt_backends.servers import STORE, checked, opening
from ckpt_backends.sql.store import Keyed, SqlStore
from ckpt_backends.sql.tables import (
    STATES_AT_ONCE,
    STORED,
    GroupedThreads,
    RowQuery,
    SqlTable,
    SqlTables,
    json_bytes,
    only_read_note,
    recognised,
    tables_with_blobs,
    where_all,
    with_extras,
)
from ckpt_backends.url import StoreUrl

# Reads rows by their keys: up to `AT_ONCE` rows with one query, and fewer if they are large.


AT_ONCE = 200
"""Keys in one query."""
_BYTES_AT_ONCE = 16 << 20
"""Approximate maximum of bytes per query. At least one row is read."""
Place = tuple[Any, ...]
"""The values of a row's key columns."""


class Fetcher:
    """Reads rows by their keys. A key must be unique in the collation of its columns."""

    def __init__(self, database: MySQLDatabase) -> None:
        self._database = database

    def rows(
        self,
        table: str,
        key: Sequence[str],
        columns: Sequence[str],
        places: Iterable[Place],
        rest: str = "",
        values: Mapping[str, object] = MappingProxyType({}),
        *,
        by_bytes: bool = False,
    ) -> Iterator[tuple[Any, ...]]:
        """The rows with these keys.

        `rest` is the end of the query: further conditions and the order. `values` are the
        parameters of `columns` and `rest`. Keys are equal as the collation of their columns says,
        and a row comes once for each key that it is equal to; with `by_bytes`, which takes twice
        as long, only for its own.
        """
        for some in in_chunks(dict.fromkeys(places), AT_ONCE):
            asked, same, bound = self._asked(key, some, by_bytes=by_bytes)
            yield from self._database.rows(
                f"SELECT STRAIGHT_JOIN {', '.join(columns)}"
                f" FROM ({asked}) k JOIN {table} c ON {same} WHERE TRUE {rest}",
                {**bound, **values},
            )

    def _asked(
        self, key: Sequence[str], places: Sequence[Place], *, by_bytes: bool
    ) -> tuple[str, str, dict[str, object]]:
        """A query for keys, the condition for their rows in a join, and the parameters of both.

        With OR between the keys, MariaDB needs up to ten times as long to find the rows.
        """
        named: list[str] = []
        listed: list[str] = []
        same: list[str] = []
        for n, (column, cell) in enumerate(zip(key, places[0], strict=True)):
            name, is_text = f"k{{row}}_{n}", isinstance(cell, str)
            mark = self._database.mark(name)
            # The first row gives a column its collation; a conversion of each cell is slow.
            given = self._database.collated(column, name) if is_text else mark
            named.append(f"{given} AS k{n}")
            listed.append(self._database.comparable(column, name) if is_text else mark)
            same.append(f"c.{column} = k.k{n}")
            if is_text and by_bytes:
                # The comparison by the index takes `abc` for `ABC`.
                named.append(f"{exact(mark)} AS x{n}")
                listed.append(exact(mark))
                same.append(f"{exact(f'c.{column}')} = k.x{n}")
        first, others = (f"SELECT {', '.join(cells)}" for cells in (named, listed))
        bound = {
            f"k{row}_{n}": cell for row, place in enumerate(places) for n, cell in enumerate(place)
        }
        rows = [first.format(row=0), *(others.format(row=n) for n in range(1, len(places)))]
        return " UNION ALL ".join(rows), " AND ".join(same), bound

    def each(
        self,
        table: str,
        key: Sequence[str],
        columns: Sequence[str],
        places: Sequence[tuple[int, Place]],
    ) -> Iterator[tuple[Any, ...]]:
        """The rows with these keys, in the order of the keys.

        `places` has for each row its size in bytes and its key.
        """
        named = [*(f"c.{name}" for name in key), *columns]
        for some in in_batches(places, itemgetter(0), _BYTES_AT_ONCE, AT_ONCE):
            chunk = [place for _, place in some]
            found = {
                row[: len(key)]: row[len(key) :] for row in self.rows(table, key, named, chunk)
            }
            for place in chunk:
                yield found[place]


GROUPED = f"""
    SELECT {exact("thread_id")} AS thread, MAX(CASE WHEN ns = %(root)s THEN last_id END) AS head,
           MIN(first_id) AS first_id, MAX(last_id) AS newest, SUM(n) AS n, COUNT(*) AS spaces
    FROM (SELECT {{thread}} AS thread_id, c.{{ns}} AS ns, MIN(c.checkpoint_id) AS first_id,
                 MAX(c.checkpoint_id) AS last_id, COUNT(*) AS n
          FROM {{checkpoints}} c {{where}} GROUP BY {{thread}}, c.{{ns}}) per_namespace
    GROUP BY thread_id
"""
"""Some threads, or all threads. By `c.thread_id` it groups in the order of the index, which is
about thirty times faster than by bytes, as it must if some ids are equal in the collation. The
index contains all columns that are read, because it includes the primary key."""

NEWEST = f"""
    SELECT thread_id FROM (SELECT c.thread_id, MAX(c.checkpoint_id) AS last_id
                           FROM {{checkpoints}} c GROUP BY c.thread_id, c.{{ns}}) per_namespace
    GROUP BY thread_id ORDER BY MAX(last_id) DESC, {exact("thread_id")} LIMIT %(limit)s
"""
"""The ids of the threads with the newest checkpoints, if no ids are equal in the collation. The
server jumps in the index from namespace to namespace."""

MERGED = """
    SELECT MIN(CAST(thread_id AS BINARY)) AS one, MAX(CAST(thread_id AS BINARY)) AS other
    FROM {checkpoints} GROUP BY thread_id HAVING one <> other LIMIT 1
"""
"""Two different thread ids that are equal in the collation, if any. Reads only the index."""
SHALLOW = f"""(
    SELECT thread_id, checkpoint_ns, checkpoint_ns_hash, {SHALLOW_ID} AS checkpoint_id,
           NULL AS parent_checkpoint_id, checkpoint, metadata FROM {{checkpoints}} c)"""
"""The rows of the shallow layout with the columns of the full layout."""

IS_INLINE = """
    SELECT DISTINCT JSON_CONTAINS_PATH(checkpoint, 'one', '$.channel_values')
    FROM ((SELECT checkpoint FROM {checkpoints} ORDER BY thread_id LIMIT 50)
          UNION ALL (SELECT checkpoint FROM {checkpoints} ORDER BY thread_id DESC LIMIT 50)) c
"""
"""Whether some bodies contain small values, as newer releases store it."""


# Reads the channel values of checkpoints from `checkpoint_blobs`.


SMALL = 1024
"""Values of at most this many bytes are read together with their keys."""


@dataclass(frozen=True, slots=True)
class _Named:
    """The channel values that a body names."""

    places: Mapping[str, Place]
    """By channel, the key of its value."""
    is_old: bool
    """Whether the body has a checkpoint format before 4."""
    is_marked: bool = False
    """Whether its saver stores a mark for channels without a value, as until 2.0.16 and in the
    shallow layout. Later savers store small values in the body instead."""
    seen: object = None
    """The body's `versions_seen`."""

    def triggers(self) -> Iterator[tuple[str, Place]]:
        """The channels that may make a node run, with the keys of their values."""
        seen = self.seen if isinstance(self.seen, dict) else {}
        read = {name for one in seen.values() if isinstance(one, dict) for name in one}
        for channel, place in self.places.items():
            if channel in read or is_reserved(channel):
                yield channel, place


def read_blobs(
    fetcher: Fetcher,
    layout: MySQLLayout,
    checkpoints: Sequence[Checkpoint],
    values: bool | Collection[str],
) -> Iterator[Checkpoint]:
    """The checkpoints with the blobs that they name.

    `values` is the parameter of `Store.checkpoints`.
    """
    named = [_named(one, layout) for one in checkpoints]
    key = _key(layout)
    places = {place: None for one in named for place in one.places.values()}
    small = f"CASE WHEN OCTET_LENGTH(c.`blob`) <= {SMALL} THEN c.`blob` END"
    columns = [*(f"c.{name}" for name in key), "c.type", "OCTET_LENGTH(c.`blob`)", small]
    stored = {
        tuple(row): Blob(tag or "", size or 0, TypedBytes(tag or "", blob or b""))
        for *row, tag, size, blob in fetcher.rows(layout.blobs.sql, key, columns, places)
    }
    found = {place: blob for place, blob in stored.items() if blob.type != "empty"}
    wanted = {
        place: None
        for one in named
        for channel, place in one.places.items()
        if place in found and is_wanted(channel, found[place], values, is_old=one.is_old)
    }
    large = [
        (found[place].size, place) for place in wanted if SMALL < found[place].size <= MOST_BYTES
    ]
    fetched = fetcher.each(layout.blobs.sql, key, ["c.`blob`"], large)
    read = {place: blob for (_, place), (blob,) in zip(large, fetched, strict=True)}
    for checkpoint, one in zip(checkpoints, named, strict=True):
        yield checkpoint._replace(
            blobs={
                channel: _blob(found[place], read.get(place), is_read=place in wanted)
                for channel, place in one.places.items()
                if place in found
            },
            missing=frozenset(
                channel
                for channel, place in one.places.items()
                if one.is_marked and place not in stored
            ),
        )


def name_blobs(
    fetcher: Fetcher, layout: MySQLLayout, checkpoints: Sequence[Checkpoint]
) -> Iterator[Checkpoint]:
    """The checkpoints with the names of the blobs that an `Outline` needs."""
    named = [dict(_named(one, layout).triggers()) for one in checkpoints]
    key = _key(layout)
    places = {place: None for one in named for place in one.values()}
    columns = [*(f"c.{name}" for name in key), "c.type"]
    found = {
        tuple(row)
        for *row, tag in fetcher.rows(layout.blobs.sql, key, columns, places)
        if tag != "empty"
    }
    for checkpoint, one in zip(checkpoints, named, strict=True):
        blobs = {channel: STORED for channel, place in one.items() if place in found}
        yield checkpoint._replace(blobs=blobs)


def _key(layout: MySQLLayout) -> tuple[str, ...]:
    """The columns with which a value is found."""
    return ("thread_id", layout.ns, "channel", *([] if layout.shallow else ["version"]))


def _blob(found: Blob, data: bytes | None, *, is_read: bool) -> Blob:
    if not is_read:
        return found._replace(value=None)
    if found.size <= SMALL:
        return found
    return found._replace(value=typed(found.type, found.size, data))


def _named(checkpoint: Checkpoint, layout: MySQLLayout) -> _Named:
    """The keys of the values that a checkpoint names; none if its body cannot be read."""
    body: Any = None
    if checkpoint.body is not None:
        try:
            body = json.loads(checkpoint.body.data)
        except (ValueError, RecursionError):
            body = None
    versions = body.get("channel_versions") if isinstance(body, dict) else None
    if not isinstance(versions, dict):
        return _Named({}, is_old=False)
    key = checkpoint.key
    ns = layout.ns_key(key.checkpoint_ns)
    places = {
        channel: (key.thread_id, ns, channel, *([] if layout.shallow else [str(version)]))
        for channel, version in versions.items()
        if isinstance(version, str | int | float) and storable(f"{channel}{version}")
    }
    is_old, is_marked = body.get("v") in {1, 2, 3}, "channel_values" not in body
    return _Named(places, is_old, is_marked, body.get("versions_seen"))


_FEW = 500
"""Up to this many threads are looked up by their ids; to list more, all are counted."""
_SMALL = 4096
"""Bodies and metadata of at most this many bytes are read together with a few keys."""
_SHALLOW_ID = "JSON_UNQUOTE(JSON_EXTRACT(checkpoint, '$.id'))"


@checked(*STORE, "faults", "thread_faults", "outlines_at")
class MySQLStore(SqlStore):
    """A MySQL or MariaDB database, opened for reading."""

    batches_parts = True

    _BODY = "CAST(CAST({} AS CHAR) AS BINARY)"
    _MOST = SMALL

    def __init__(self, connection: MySQLConnection, url: StoreUrl, layout: MySQLLayout) -> None:
        self._merged: list[str] | None = None
        self._layout = layout
        database = MySQLDatabase(connection, {table.name: table for table in layout.tables})
        self._fetcher = Fetcher(database)
        self._database: MySQLDatabase
        super().__init__(database, url, tables_of(layout, database))

    def _saver(self) -> str:
        if not self._layout.shallow:
            query = IS_INLINE.format(checkpoints=self._tables.checkpoints.sql)
            found = {bool(inline) for (inline,) in self._database.rows(query, {})}
            if True in found:
                before = "before 2.0.17, and " if False in found else ""
                saver = f"langgraph-checkpoint-mysql {before}2.0.17 or later"
                return with_extras(saver, self._layout.unknown)
        return with_extras(self._layout.saver, self._layout.unknown)

    @property
    def _only_read(self) -> str:
        if self._layout.hashed:
            return self._layout.only_read
        return self._layout.only_read or (
            "it was written by a saver older than 2.0.10; setup() of langgraph-checkpoint-mysql 3.0"
            " brings its tables up to date"
        )

    def notes(self) -> Sequence[str]:
        found = only_read_note(self._only_read)
        return [*found, *self._merged_threads(), *self._database.notes()]

    def _merged_threads(self) -> list[str]:
        """A note if different thread ids are equal in the column's collation; otherwise empty.

        The saver mixes up such threads. Reads only the index of thread ids.
        """
        if self._merged is None:
            self._merged = []
            if self._layout.merging:
                query = MERGED.format(checkpoints=self._tables.checkpoints.sql)
                self._merged = [
                    f"the saver mixes the threads '{self._text(one)}' and '{self._text(other)}',"
                    f" because both ids are equal in the collation {self._layout.merging}; ckpt"
                    " shows them separately"
                    for one, other in self._database.rows(query, {})
                ]
        return self._merged

    def _newest(self, limit: int | None) -> Iterator[Sequence[Any]]:
        among, ids = "", dict[str, object]()
        if limit is not None and limit <= _FEW and not self._merged_threads():
            query = NEWEST.format(checkpoints=self._tables.checkpoints.source, ns=self._layout.ns)
            newest = [self._text(one) for (one,) in self._database.rows(query, {"limit": limit})]
            among, ids = self._database.among("c.thread_id", "only", newest)
            limit = None
        query, values = self._newest_first(among, ids)
        return self._stream(query if limit is None else f"{query} LIMIT {limit:d}", values)

    def _grouped(self, where: str, made: str = "") -> GroupedThreads:
        thread = exact("c.thread_id") if self._merged_threads() else "c.thread_id"
        where = where_all(where, made)
        table, ns = self._tables.checkpoints.source, self._layout.ns
        values: dict[str, object] = {"root": self._layout.ns_key("")}
        query = GROUPED.format(thread=thread, checkpoints=table, ns=ns, where=where)
        return GroupedThreads(query, values)

    def _heads(self, is_root: str) -> str:  # noqa: ARG002
        # With the index alone; there, the server jumps from thread to thread.
        query = super()._heads(f"c.{self._layout.ns} = %(ns_key)s")
        return f"{query}, {exact('c.thread_id')}" if self._merged_threads() else query

    def threads_within(self, bounds: ThreadBounds) -> Iterator[Thread]:
        if bounds.head_channels:
            # In one query, the server would read whole rows, or look at each thread many times.
            found = self._stream(*self._with_writes(bounds.head_channels))
            ids = frozenset(self._text(one) for (one,) in found)
            ids = ids if bounds.ids is None else ids & bounds.ids
            bounds = bounds._replace(ids=ids, head_channels=None)
        yield from super().threads_within(bounds)

    def _of_space(self, checkpoint_ns: str) -> tuple[str, dict[str, object]]:
        where, values = super()._of_space(checkpoint_ns)
        key = self._layout.ns_key(checkpoint_ns)
        return f"c.{self._layout.ns} = %(ns_key)s AND {where}", {**values, "ns_key": key}

    def _select_checkpoints(self, asked: CheckpointQuery) -> RowQuery:
        """The query for keys, parents, and the size of the columns to read later."""
        return RowQuery(
            table=self._tables.checkpoints,
            columns=f"c.parent_checkpoint_id, {self._size(asked)}, c.{self._layout.ns}",
            order="c.checkpoint_id DESC",
        )

    def _size(self, asked: CheckpointQuery) -> str:
        sizes = self._tables.checkpoints.sizes
        return " + ".join(sizes[name] for name in _columns(asked)) or "0"

    def checkpoints_at(
        self, keys: Sequence[CheckpointKey], **options: Unpack[ReadOptions]
    ) -> Iterator[Checkpoint]:
        asked = CheckpointQuery(**options)
        yield from self._read_checkpoints(self._listed_at(keys, asked), asked)

    def outlines_at(self, keys: Sequence[CheckpointKey]) -> Iterator[Outline]:
        asked = CheckpointQuery(body=True, metadata=True)
        for some in in_chunks(self._listed_at(keys, asked), AT_ONCE):
            read = list(self._with_bodies(some, asked))
            for one in name_blobs(self._fetcher, self._layout, read):
                yield Outline(one, (one.key,))

    def _listed_at(self, keys: Sequence[CheckpointKey], asked: CheckpointQuery) -> Keyed:
        """The checkpoints with these keys, for `_with_bodies`."""
        query, size = self._select_checkpoints(asked), self._size(asked)
        # The rows of a few keys are in memory at once, so small columns may be, too.
        small = (f", CASE WHEN {size} <= {_SMALL} THEN c.{name} END" for name in _columns(asked))
        return self._at(query._replace(columns=query.columns + "".join(small)), keys)

    def _read_checkpoints(self, rows: Keyed, asked: CheckpointQuery) -> Iterator[Checkpoint]:
        for some in in_chunks(rows, STATES_AT_ONCE if asked.body and asked.values else AT_ONCE):
            read = self._with_bodies(some, asked)
            if asked.body:
                yield from read_blobs(self._fetcher, self._layout, list(read), asked.values)
            else:
                yield from read

    def _with_bodies(
        self, listed: Sequence[tuple[CheckpointKey, Sequence[Any]]], asked: CheckpointQuery
    ) -> Iterator[Checkpoint]:
        """The listed checkpoints, with the bodies and metadata that are asked for."""
        names = _columns(asked)
        places, found = [], dict[CheckpointKey, Sequence[Any]]()
        for key, (_, size, ns, *cells) in listed:
            if cells and size <= _SMALL:
                found[key] = cells
            elif names and size <= MOST_BYTES:
                places.append((key.thread_id, ns, key.checkpoint_id))
        columns = ["thread_id", "checkpoint_ns", "checkpoint_id", *names]
        rows = self._fetcher.rows(self._tables.checkpoints.source, self._key, columns, places)
        for thread_id, ns, name, *cells in rows:
            found[CheckpointKey(thread_id, ns, name or "")] = cells
        for key, (parent, size, *_) in listed:
            too_long = unread("json", size) if size > MOST_BYTES else None
            read = {
                name: too_long or json_bytes(cell)
                for name, cell in zip(names, found.get(key, (None, None)), strict=False)
            }
            yield Checkpoint(key, parent, read.get("checkpoint"), read.get("metadata"))

    def _select_writes(
        self, channels: Collection[str] | None, values: bool | Collection[str]
    ) -> RowQuery:
        query = super()._select_writes(channels, values)
        return query._replace(columns=f"{query.columns}, c.{self._layout.ns}")

    def _read_writes(self, rows: Keyed, values: bool | Collection[str]) -> Iterator[Write]:  # noqa: ARG002
        for some in in_chunks(rows, AT_ONCE):
            writes = [(self._write(key, row), row[-1]) for key, row in some]
            large = [
                (one.size, (one.key.thread_id, ns, one.key.checkpoint_id, one.task_id, one.idx))
                for one, ns in writes
                if one.value is not None and SMALL < one.size <= MOST_BYTES
            ]
            key = (*self._key, "task_id", "idx")
            fetched = self._fetcher.each(self._tables.writes.sql, key, ["c.`blob`"], large)
            for one, _ in writes:
                if one.value is None or not SMALL < one.size <= MOST_BYTES:
                    yield one
                else:
                    yield one._replace(value=typed(one.value.type, one.size, next(fetched)[0]))

    @property
    def _key(self) -> tuple[str, str, str]:
        """The columns with which the rows of a checkpoint are found."""
        return "thread_id", self._layout.ns, "checkpoint_id"

    def _at(self, query: RowQuery, keys: Sequence[CheckpointKey]) -> Keyed:
        places = [
            (key.thread_id, self._layout.ns_key(key.checkpoint_ns), key.checkpoint_id)
            for key in dict.fromkeys(keys)
            if self._database.storable(key.thread_id + key.checkpoint_ns + key.checkpoint_id)
        ]
        columns = ["c.thread_id", "c.checkpoint_ns", "c.checkpoint_id", query.columns]
        only = f"AND {query.only}" if query.only else ""
        rest = f"{only} ORDER BY {query.order}"
        asked = set(keys)
        for thread_id, ns, checkpoint_id, *row in self._fetcher.rows(
            query.table.source, self._key, columns, places, rest, query.values, by_bytes=True
        ):
            if (key := CheckpointKey(thread_id, ns, checkpoint_id)) in asked:
                yield key, row

    def _stored_rows(self, table: SqlTable, thread_id: str) -> Iterator[Sequence[Any]]:
        named = ("channel", "version", "checkpoint_id", "task_id", "idx")
        unused = {"channel"} if "task_id" in table.columns else set()
        key = [name for name in named if name in table.columns.keys() - unused]
        key = ["thread_id", self._layout.ns, *key]
        listed = ", ".join(f"c.{column}" for column in key)
        query = f"SELECT {table.size}, {listed} FROM {table.sql} c WHERE {self._thread_is}"
        found = self._database.rows(query, self._of(thread_id))
        places = [(size, tuple(place)) for size, *place in found]
        return self._fetcher.each(table.sql, key, list(table.columns.values()), places)

    def _text(self, cell: Any) -> str:
        return cell.decode("utf-8", "replace") if isinstance(cell, bytes) else super()._text(cell)

    def _number(self, cell: Any) -> int:
        return int(cell)

    def faults(self) -> Iterator[Fault]:
        from ckpt_backends.mysql.health import limit_faults, schema_faults

        yield from schema_faults(self._database, self._layout)
        yield from limit_faults(self._database, self._layout)
        yield from super().faults()

    def thread_faults(self, thread_id: str) -> Iterator[Fault]:
        from ckpt_backends.mysql.health import hash_faults

        yield from hash_faults(self._database, self._layout, thread_id)

    def suspect_threads(self) -> Iterator[str]:
        from ckpt_backends.mysql.health import unmatched_queries

        found = {*super().suspect_threads()}
        for query in unmatched_queries(self._database, self._layout):
            found.update(self._text(thread_id) for (thread_id,) in self._stream(query, {}))
        yield from found

    def sources(self, key: CheckpointKey) -> list[str]:
        layout = self._layout
        thread, ns = literal(key.thread_id), literal(key.checkpoint_ns)
        of_ns = f"UNHEX(MD5({ns}))" if layout.hashed else ns
        where = (
            f"c.thread_id = {thread} AND BINARY c.thread_id = {thread} AND c.{layout.ns} = {of_ns}"
        )
        exactly = f"{where} AND c.checkpoint_id = {literal(key.checkpoint_id)}"
        row = where if layout.shallow else exactly
        join = "b.thread_id = c.thread_id AND b.checkpoint_ns = c.checkpoint_ns AND "
        version = "JSON_EXTRACT(c.checkpoint, CONCAT('$.channel_versions.\"', b.channel, '\"'))"
        join += (
            f"{version} IS NOT NULL" if layout.shallow else f"b.version = JSON_UNQUOTE({version})"
        )
        return [
            f"SELECT * FROM {layout.checkpoints.sql} c WHERE {row};",
            f"SELECT b.* FROM {layout.checkpoints.sql} c JOIN {layout.blobs.sql} b ON {join}"
            f" WHERE {row};",
            f"SELECT * FROM {layout.writes.sql} c WHERE {exactly};",
        ]

    def refresh(self) -> None:
        super().refresh()
        self._merged = None


def tables_of(layout: MySQLLayout, database: MySQLDatabase) -> SqlTables:
    """The tables of the layout, for reading and changing."""
    return tables_with_blobs(
        database,
        layout,
        size="OCTET_LENGTH(c.{})",
        length="COALESCE(OCTET_LENGTH(c.`{}`), 0)",
        view=SHALLOW,
        layout=layout.name,
        names=tuple(table.name for table in layout.tables),
        can_add=layout.hashed and not layout.shallow and not layout.unknown,
        own_id=_SHALLOW_ID if layout.shallow else "checkpoint_id",
        namespace=lambda ns: {layout.ns: layout.ns_key(ns)},
    )


def _columns(asked: CheckpointQuery) -> list[str]:
    """The columns that are asked for."""
    return ["checkpoint"] * asked.body + ["metadata"] * asked.metadata


def open_store(url: StoreUrl) -> Store:
    """Open for reading. Raises `StoreUnavailable` or `UnknownLayout`."""
    with opening(connect(url), url) as connection:
        tables = find_tables(connection)
        columns = {name: set(one.columns) for name, one in tables.items()}
        if saver := recognised(columns):
            return saver.open(MySQLDatabase(connection, tables), columns, url)
        return MySQLStore(connection, url, find_layout(connection, tables))
