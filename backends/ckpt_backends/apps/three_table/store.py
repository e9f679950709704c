"""Reads the three-table layout on any engine.

All keys of a thread are read at once, because they are few and small: `checkpoints` has no body.
Values are read for one checkpoint at a time, writes in the order in which they were stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import groupby
from typing import Any, Unpack

from ckpt_backends.apps.three_table.declaration import BACKEND
from ckpt_backends.apps.three_table.layout import (
    HASH,
    LATEST,
    NAME,
    VALUE,
    ChannelParts,
    CheckpointRow,
    KeyedStore,
    blob_of,
    body_of,
    cell_of,
    detect,
    digest,
    fork_of,
    hash_text,
    is_ours,
    moment,
    space_of,
    write_of,
)
from ckpt_backends.codec.values import MOST_BYTES
from ckpt_backends.model import (
    Blob,
    BlobKey,
    Capability,
    Checkpoint,
    CheckpointKey,
    Fault,
    HiddenRows,
    StoreInfo,
    Thread,
    ThreadSize,
    TypedBytes,
    Usage,
    Write,
    in_chunks,
    is_read,
)
from ckpt_backends.protocol import (
    CheckpointOptions,
    CheckpointQuery,
    Store,
    WriteOptions,
    WriteQuery,
)
from ckpt_backends.rows import Row, check_columns, own_rows, sql_key
from ckpt_backends.servers import STORE, checked
from ckpt_backends.sql.database import Database, text
from ckpt_backends.sql.tables import BLOBS, CHECKPOINTS, WRITES, check_wanted, why_only_read
from ckpt_backends.url import StoreUrl

_AT_ONCE = 200


def open_tables(
    database: Database, tables: Mapping[str, Set[str]], url: StoreUrl, schema: str | None = None
) -> Store:
    """Open a database with these tables and columns for reading. Raises `UnknownLayout`."""
    found = detect(tables, database.quoted, str(url), schema)
    store = ThreeTableStore(database, found, str(url))
    if (wanted := url.params.get("layout")) is not None:
        check_wanted(wanted, store.layout_name(), str(url))
    return store


@checked(*STORE, "faults")
class ThreeTableStore(KeyedStore):
    """Three tables of this layout, opened for reading."""

    sums_sizes = True

    def describe(self) -> StoreInfo:
        kinds = self._kinds()
        space = self._database.space(self._tables.stored)
        layout = _layout_of(kinds)
        can = BACKEND.layouts[layout]
        if self._tables.unknown:
            can &= ~Capability.ADDING
        return StoreInfo(
            layout=layout,
            url=self._url,
            engine=self._database.engine(),
            saver="a private saver of an application: three tables, node names as task ids",
            capabilities=self._database.limited(can),
            tables=tuple(self._tables.stored),
            size=space.size,
            free=space.free,
            log=space.log,
            notes=tuple(self._notes(kinds)),
            only_read=why_only_read(self._tables.unknown, ()),
        )

    def layout_name(self) -> str:
        return _layout_of(self._kinds())

    def _kinds(self) -> set[str]:
        """The layouts that occur in the root namespaces of all threads."""
        sample = self._rows(self._queries.any_hash())
        if not sample:
            return {NAME}
        hashed: object = digest("")
        if not isinstance(sample[0][0], str):
            hashed = bytes.fromhex(digest(""))
        return {
            kind
            for kind, own in ((NAME, True), (LATEST, False))
            if self._rows(
                self._queries.some_place(hashed, own=own), hash=self._database.bound(hashed)
            )
        } or {NAME}

    def hidden_rows(self) -> Sequence[HiddenRows]:
        return self._database.hidden_rows()

    def notes(self) -> Sequence[str]:
        return self._notes(self._kinds())

    def _notes(self, kinds: Collection[str]) -> list[str]:
        found = list(self._database.notes())
        if LATEST in kinds:
            which = "its threads keep" if kinds == {LATEST} else "some of its threads keep"
            found.append(f"{which} the values of the newest checkpoint only")
        if self._tables.unknown:
            found.append(f"columns of an unknown saver: {', '.join(self._tables.unknown)}")
        return found

    def threads(self, *, limit: int | None = None) -> Iterator[Thread]:
        query = self._queries.threads(one=False, limit=limit is not None)
        if limit is None:
            yield from self._with_heads(self._database.stream(query, {}))
        else:
            yield from self._with_heads(iter(self._rows(query, limit=limit)))

    def thread(self, thread_id: str) -> Thread | None:
        if not self._database.storable(thread_id):
            return None
        query = self._queries.threads(one=True, limit=False)
        found = self._with_heads(iter(self._rows(query, **self._of(thread_id))))
        return next(found, None)

    def _with_heads(self, rows: Iterator[tuple[Any, ...]]) -> Iterator[Thread]:
        for some in in_chunks(rows, _AT_ONCE):
            names = {f"t{n}": self._database.bound(text(row[0])) for n, row in enumerate(some)}
            query = self._queries.heads(list(names))
            found = self._rows(query, root=self._database.bound(""), **names)
            heads = {text(thread): text(head) for thread, head in found}
            for thread, first, last, checkpoints, namespaces in some:
                name = text(thread)
                yield Thread(
                    name,
                    heads.get(name),
                    moment(first),
                    moment(last),
                    int(checkpoints),
                    int(namespaces),
                )

    def sizes(self, thread_ids: Sequence[str]) -> list[ThreadSize]:
        counts: list[dict[str, tuple[int, int]]] = [{}, {}, {}]
        queries = self._queries
        asked = [one for one in dict.fromkeys(thread_ids) if self._database.storable(one)]
        for start in range(0, len(asked), _AT_ONCE):
            names = {
                f"t{n}": self._database.bound(one) for n, one in enumerate(asked[start:][:_AT_ONCE])
            }
            for found, table in zip(
                counts, (queries.checkpoints, queries.writes, queries.blobs), strict=True
            ):
                rows = self._rows(queries.sizes(table, list(names)), **names)
                found |= {text(thread): (int(n), int(size or 0)) for thread, n, size in rows}
        none = (0, 0)
        return [
            ThreadSize(
                counts[0].get(one, none)[0],
                counts[1].get(one, none)[0],
                counts[1].get(one, none)[1] + counts[2].get(one, none)[1],
                counts[2].get(one, none)[0],
            )
            for one in thread_ids
        ]

    def checkpoint_sizes(self, thread_id: str) -> Iterator[tuple[CheckpointKey, ThreadSize]]:
        for place in self._index(thread_id).places.values():
            yield place.key, ThreadSize(1, 0, 0)
        for write in self.writes(thread_id):
            yield write.key, ThreadSize(0, 1, write.size)

    def usage(self, thread_id: str | None = None) -> Iterator[Usage]:
        if thread_id is None:
            every = (text(row[0]) for row in self._stream(self._queries.used_threads()))
            for one in every:
                yield from self._usage(one)
        elif self._database.storable(thread_id):
            yield from self._usage(thread_id)

    def _usage(self, thread_id: str) -> Iterator[Usage]:
        index = self._index(thread_id)
        for ns, rows in groupby(index.places, lambda key: key[0]):
            count = len(list(rows))
            yield Usage(CHECKPOINTS, "metadata", thread_id, ns, None, "", count, 0)
        spaces = {one.hash: one.key.checkpoint_ns for one in index.places.values()}
        by_id = {name: ns for ns, name in index.places}
        for table, name in ((self._queries.blobs, BLOBS), (self._queries.writes, WRITES)):
            used: Counter[tuple[str, str, str]] = Counter()
            sizes: Counter[tuple[str, str, str]] = Counter()
            query = self._queries.used(table)
            for raw, channel, tag, checkpoint_id, count, size in self._rows(
                query, **self._of(thread_id)
            ):
                ns = spaces.get(hash_text(raw), by_id.get(text(checkpoint_id), ""))
                key = ns, text(channel), text(tag)
                used[key] += int(count)
                sizes[key] += int(size or 0)
            for (ns, channel, tag), count in sorted(used.items()):
                size = sizes[ns, channel, tag]
                yield Usage(name, VALUE, thread_id, ns, channel, tag, count, size)

    def checkpoints(
        self, thread_id: str, **options: Unpack[CheckpointOptions]
    ) -> Iterator[Checkpoint]:
        asked = CheckpointQuery(**options)
        wanted = None if asked.checkpoint_ids is None else set(asked.checkpoint_ids)
        for (ns, name), place in self._index(thread_id).places.items():
            if asked.checkpoint_ns in {None, ns} and (wanted is None or name in wanted):
                yield self._checkpoint(place, asked)

    def _checkpoint(self, place: CheckpointRow, asked: CheckpointQuery) -> Checkpoint:
        """A checkpoint. Its body is made from the rows, in the form of LangGraph's bodies."""
        found = self.read_keys(place.key.thread_id) if asked.body else None
        named = {} if found is None else found.named(place)
        return Checkpoint(
            place.key,
            place.parent,
            None if found is None else body_of(place, named, is_stored=found.is_stored(place)),
            TypedBytes("json", b"{}" if not is_ours(place) else fork_of(place))
            if asked.metadata
            else None,
            None if found is None else self._blobs(place, named, asked.values),
            at=place.at,
        )

    def _blobs(
        self,
        place: CheckpointRow,
        named: Mapping[str, ChannelParts],
        values: bool | Collection[str],
    ) -> dict[str, Blob]:
        there = {name: one for name, one in named.items() if one.parts}
        read = {name: one for name, one in there.items() if is_read(name, values)}
        fetched = self._fetch(place.key.thread_id, read.values())
        return {
            name: blob_of(one, fetched if name in read else None) for name, one in there.items()
        }

    def writes(self, thread_id: str, **options: Unpack[WriteOptions]) -> Iterator[Write]:
        asked = WriteQuery(**options)
        wanted = None if asked.checkpoint_ids is None else set(asked.checkpoint_ids)
        if not self._database.storable(thread_id):
            return
        index = self._index(thread_id)
        chosen = sorted(
            (ns, name)
            for ns, name in self._written(thread_id, index)
            if asked.checkpoint_ns in {None, ns} and (wanted is None or name in wanted)
        )
        for write in self._read_writes(thread_id, chosen, asked.values):
            if asked.channels is None or write.channel in asked.channels:
                yield write

    def _read_writes(
        self, thread_id: str, chosen: Sequence[tuple[str, str]], values: bool | Collection[str]
    ) -> Iterator[Write]:
        """The writes of the `chosen` checkpoints, each a (namespace, checkpoint id)."""
        index = self._index(thread_id)
        value = "NULL" if values is False else self._queries.short(MOST_BYTES)
        only = f" AND {self._database.same('checkpoint_id', 'id')}"
        every: dict[str, list[tuple[Any, ...]]] = {}
        if values is False and len(chosen) > 1:
            only = ""
            for row in self._stream(self._queries.write_keys(value), **self._of(thread_id)):
                every.setdefault(text(row[0]), []).append(row)
        for ns, name in chosen:
            rows: Iterable[tuple[Any, ...]] = every.get(name, ())
            if only:
                query = self._queries.write_keys(value, only)
                rows = self._stream(query, **self._of(thread_id), id=self._database.bound(name))
            for row in rows:
                if space_of(index, name, hash_text(row[1])) == ns:
                    yield write_of(CheckpointKey(thread_id, ns, name), row, values)

    def blobs(self, thread_id: str) -> Iterator[tuple[BlobKey, int]]:
        found = self.read_keys(thread_id)
        for place in found.index.places.values():
            for name, parts in found.own(place).items():
                key = BlobKey(place.key.checkpoint_ns, name, place.hash)
                yield from ((key, part.size) for part in parts)
        for part in found.orphans():
            yield BlobKey("", part.channel, part.hash), part.size

    def rows(self, thread_id: str) -> Iterator[Row]:
        if not self._database.storable(thread_id):
            return
        for table in (BLOBS, WRITES, CHECKPOINTS):
            columns = sorted(self._tables.columns[table])
            listed = ", ".join(map(self._database.quoted, columns))
            query = (
                f"SELECT {listed} FROM {self._tables.names[table]} WHERE {self._queries.of_thread}"
            )
            for row in self._stream(query, **self._of(thread_id)):
                yield Row(table, dict(zip(columns, map(cell_of, row), strict=True)))

    def own_rows(self, thread_id: str, rows: Iterable[Row]) -> Iterator[Row]:
        for row in own_rows(thread_id, rows, self._tables.columns):
            check_columns(row, self._tables.columns, {HASH})
            yield row

    def row_key(self, row: Row) -> Hashable:
        return sql_key(row), row.cells[HASH]

    def faults(self) -> Iterator[Fault]:
        yield from self._database.faults(self._tables.stored)

    def damage(self, *, whole: bool) -> Iterator[Fault]:
        yield from self._database.damage(whole=whole)

    def sources(self, key: CheckpointKey) -> list[str]:
        literal, names = self._database.literal, self._tables.names
        thread = f"thread_id = {literal(key.thread_id)}"
        exactly = f"{thread} AND checkpoint_id = {literal(key.checkpoint_id)}"
        row = f"{exactly} AND checkpoint_ns = {literal(key.checkpoint_ns)}"
        return [
            f"SELECT * FROM {names[CHECKPOINTS]} WHERE {row};",
            f"SELECT * FROM {names[BLOBS]} WHERE {thread} AND {HASH} ="
            f" (SELECT {HASH} FROM {names[CHECKPOINTS]} WHERE {row});",
            f"SELECT * FROM {names[WRITES]} WHERE {exactly};",
        ]

    def suspect_threads(self) -> Iterator[str]:
        found: set[str] = set()
        for query in self._queries.suspects():
            found.update(text(thread_id) for (thread_id,) in self._stream(query))
        yield from found

    def refresh(self) -> None:
        self.forget()
        self._database.restart()

    def close(self) -> None:
        self._database.close()


def _layout_of(kinds: Collection[str]) -> str:
    return LATEST if kinds == {LATEST} else NAME
