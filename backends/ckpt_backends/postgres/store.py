"""Reads LangGraph's PostgreSQL layouts.

A body is JSONB and contains at most small values. The other values are in `checkpoint_blobs`, by
channel and version. All checkpoints with the same version of a channel share the same value.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from operator import attrgetter
from typing import Any

from ckpt_backends.codec.values import MOST_BYTES, typed
from ckpt_backends.model import (
    USERS,
    Blob,
    Checkpoint,
    CheckpointKey,
    Fault,
    Outline,
    ThreadSize,
    in_chunks,
)
from ckpt_backends.postgres import queries as sql
from ckpt_backends.postgres.connect import PostgresConnection, connect
from ckpt_backends.postgres.database import PostgresDatabase, find_tables, of_application
from ckpt_backends.postgres.layout import (
    KEYS,
    UUID,
    PostgresLayout,
    detect,
    is_uuid,
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
    tables_with_blobs,
    with_extras,
)
from ckpt_backends.url import StoreUrl

_FEW = 500
"""Up to this many rows are fetched with one query; more are read with a cursor."""
_LONG = 30
"""If threads have at least this many checkpoints on average, the query `WALKED` is used."""
_parts = attrgetter("thread_id", "checkpoint_ns", "checkpoint_id")


_BYTES_AT_ONCE, _COMPRESSED = 16 << 20, 8
"""Approximate bytes of stored rows in memory, and how much longer than stored they may be."""


@checked(*STORE, "faults", "outlines_at")
class PostgresStore(SqlStore):
    """A PostgreSQL database, opened for reading. The caller has begun the first transaction."""

    batches_parts = True
    _BODY = "convert_to({}::text, 'UTF8')"

    def __init__(
        self, connection: PostgresConnection, url: StoreUrl, layout: PostgresLayout
    ) -> None:
        self._layout = layout
        self._uuids = uuids_of(layout.tables)
        self._blobs = layout.with_text_ids().blobs.sql.replace("%", "%%")
        database = PostgresDatabase(connection, url, layout.tables)
        self._database: PostgresDatabase
        super().__init__(database, url, tables_of(layout, database))

    def _saver(self) -> str:
        if self._layout.of_server:
            return "LangGraph's Agent Server"
        query = sql.MARKS.format(checkpoints=self._layout.checkpoints.sql.replace("%", "%%"))
        saver = _saver(self._layout, {mark for (mark,) in self._database.rows(query, {})})
        schema = {"schema": self._layout.checkpoints.schema}
        tables = self._database.attempt(sql.ALIKE, schema) or ()
        return with_extras(saver, self._layout.unknown, (name for (name,) in tables))

    @property
    def _only_read(self) -> str:
        return self._layout.only_read

    def notes(self) -> Sequence[str]:
        unknown = self._layout.unknown
        notes = [f"columns of an unknown saver: {', '.join(unknown)}"] if unknown else []
        if self._layout.of_server:
            notes = [f"{self._layout.only_read}, so ckpt only reads them"]
        return [*notes, *self._database.notes()]

    def _number(self, cell: Any) -> int:
        # Servers whose integers have 64 bits, such as CockroachDB, sum them up as numeric.
        return int(cell) if isinstance(cell, Decimal) else super()._number(cell)

    def _newest(self, limit: int | None) -> Iterator[Sequence[Any]]:
        table = self._tables.checkpoints.source
        if limit is not None and limit <= _FEW and not self._layout.shallow:
            newest = sql.WALKED if self._are_threads_long() else sql.SCANNED
            threads = newest.format(checkpoints=table)
            query = sql.NEWEST.format(checkpoints=table, threads=threads)
            return iter(self._database.rows(query, {"limit": limit}))
        end, values = ("", {}) if limit is None else ("LIMIT %(limit)s", {"limit": limit})
        query = f"{self._grouped('').query} {sql.NEWEST_FIRST} {end}"
        return self._stream(query, values)

    def _heads(self, is_root: str) -> str:
        if self._layout.shallow or not self._are_threads_long():
            return super()._heads(is_root)
        return sql.WALKED_HEADS.format(checkpoints=self._tables.checkpoints.source)

    def _are_threads_long(self) -> bool:
        if self._uuids:
            return False  # jumping needs an index of the ids as text
        table = self._layout.checkpoints
        names = {"schema": table.schema, "table": table.name}
        found = self._database.rows(sql.ROWS_PER_THREAD, names)
        return bool(found) and (found[0][0] or 0) >= _LONG

    def _grouped(self, where: str) -> GroupedThreads:
        table = self._tables.checkpoints.source
        where = f"WHERE {where}" if where else ""
        return GroupedThreads(sql.GROUPED.format(checkpoints=table, where=where), {})

    def sizes(self, thread_ids: Sequence[str]) -> list[ThreadSize]:
        tables = {table.name: table.source for table in self._tables.all}
        is_stored = is_uuid if "thread_id" in self._uuids else self._database.storable
        threads = sorted(filter(is_stored, {*thread_ids}))
        query = sql.SIZES.format(**tables, **self._id_terms)
        found = {
            thread_id: ThreadSize(*size)
            for thread_id, *size in self._database.rows(query, {"threads": threads})
        }
        return [found.get(one, ThreadSize(0, 0, 0)) for one in thread_ids]

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
                wanted, bound = f"{sql.CONTROL} OR {among}", bound | names
            join = sql.BLOBS.format(
                **self._blob_terms,
                wanted=wanted,
                marked=sql.MARKED,
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
            "filled": sql.FILLED,
            "same_version": "" if self._layout.shallow else "AND b.version = v.version",
        }

    def outlines_at(self, keys: Sequence[CheckpointKey]) -> Iterator[Outline]:
        shapes = sql.SHAPES.format(**self._blob_terms)
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
            join=sql.FILLED_CHANNELS.format(**self._blob_terms),
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
        return f"{sql.KEYS.format(**terms)} {table.source} c ON {sql.AT_KEY.format(**terms)}"

    def _storable(self, keys: Sequence[CheckpointKey]) -> list[CheckpointKey]:
        """Those of the keys that the server can store."""
        stored = [key for key in keys if self._database.storable("".join(_parts(key)))]
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
        yield from self._database.faults(self._tables.names)

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
        view=sql.SHALLOW,
        layout=layout.name,
        names=tuple(f"{table.schema}.{table.name}" for table in layout.tables),
        can_add=not layout.shallow and not layout.unknown,
        own_id="(checkpoint ->> 'id')" if layout.shallow else "checkpoint_id",
    )


def _bound(keys: Sequence[CheckpointKey]) -> dict[str, object]:
    """The parameters of `sql.KEYS`."""
    threads, spaces, ids = map(list, zip(*map(_parts, keys), strict=True))
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
        tables, schemas = find_tables(connection, url)
        if found := of_application(tables, schemas):
            saver, own = found
            database = PostgresDatabase(connection, url, own)
            return saver.open(database, database.columns, url, own[0].schema)
        layout = detect(tables, schemas, url.params.get("layout"), str(url))
        return PostgresStore(connection, url, layout)
