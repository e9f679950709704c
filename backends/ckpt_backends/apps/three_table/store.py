"""Reads the three-table layout on any engine.

All keys of a thread are read at once, because they are few and small: `checkpoints` has no body.
Values are read for one checkpoint at a time, writes in the order in which they were stored.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property
from itertools import chain
from typing import Any, Unpack

from ckpt_backends.apps.three_table.declaration import BACKEND
from ckpt_backends.apps.three_table.layout import (
    HASH,
    LATEST,
    NAME,
    VALUE,
    BlobPart,
    ChannelParts,
    CheckpointRow,
    Queries,
    ThreadRows,
    Values,
    blob_of,
    body_of,
    cell_of,
    data,
    detect,
    digest,
    fork_of,
    hash_text,
    index_of,
    is_ours,
    moment,
    number,
    place_of,
    space_of,
    write_of,
)
from ckpt_backends.codec import decode
from ckpt_backends.codec.lossless import are_new_messages
from ckpt_backends.codec.values import MOST_BYTES
from ckpt_backends.model import (
    Blob,
    BlobKey,
    Capability,
    Checkpoint,
    CheckpointKey,
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
from ckpt_backends.rows import Row, check_columns, sql_key
from ckpt_backends.servers import STORE, checked
from ckpt_backends.sql.database import Database, text
from ckpt_backends.sql.store import TableStore
from ckpt_backends.sql.tables import (
    BLOBS,
    CHECKPOINTS,
    WRITES,
    SqlTable,
    SqlTables,
    check_wanted,
    only_read_note,
    why_only_read,
)
from ckpt_backends.url import StoreUrl

_AT_ONCE = 200
_COMPARED = 1 << 20
"""Longer pairs of values are not decoded to find out how a thread is stored."""


def open_tables(
    database: Database, tables: Mapping[str, Set[str]], url: StoreUrl, schema: str | None = None
) -> Store:
    """Open a database with these tables and columns for reading. Raises `UnknownLayout`."""
    store = ThreeTableStore(database, url, *detect(database, tables, str(url), schema))
    if (wanted := url.params.get("layout")) is not None:
        check_wanted(wanted, store.layout_name(), str(url))
    return store


@checked(*STORE, "faults")
class ThreeTableStore(TableStore):
    """Three tables of this layout, opened for reading."""

    _text = staticmethod(text)

    def __init__(
        self, database: Database, url: StoreUrl, tables: SqlTables, unknown: tuple[str, ...]
    ) -> None:
        super().__init__(database, url, tables)
        assert tables.blobs is not None  # noqa: S101 - the layout has values apart
        self._queries = Queries(database, tables, tables.blobs)
        self._unknown = unknown
        self._known: tuple[str, Values] | None = None

    def _number(self, cell: Any) -> int:
        return int(cell)

    def _saver(self) -> str:
        return "a private saver of an application: three tables, node names as task ids"

    @property
    def _only_read(self) -> str:
        return why_only_read(self._unknown, ())

    def describe(self) -> StoreInfo:
        return super().describe()._replace(layout=self.layout_name())

    @property
    def capabilities(self) -> Capability:
        can = BACKEND.layouts[self.layout_name()]
        return self._database.limited(can & ~Capability.ADDING if self._unknown else can)

    def layout_name(self) -> str:
        return LATEST if self._kinds == {LATEST} else NAME

    @cached_property
    def _kinds(self) -> set[str]:
        """The layouts that occur in the root namespaces of all threads."""
        sample = self._rows(self._queries.any_hash(), {})
        if not sample:
            return {NAME}
        hashed: object = digest("")
        if not isinstance(sample[0][0], str):
            hashed = bytes.fromhex(digest(""))
        values = {"hash": self._database.bound(hashed)}
        return {
            kind
            for kind, own in ((NAME, True), (LATEST, False))
            if self._rows(self._queries.some_place(hashed, own=own), values)
        } or {NAME}

    def notes(self) -> Sequence[str]:
        found = list(self._database.notes())
        if LATEST in self._kinds:
            which = "its threads keep" if self._kinds == {LATEST} else "some of its threads keep"
            found.append(f"{which} the values of the newest checkpoint only")
        found += only_read_note(self._only_read)
        return found

    def threads(self, *, limit: int | None = None) -> Iterator[Thread]:
        query = self._queries.threads(one=False, limit=limit is not None)
        if limit is None:
            yield from self._with_heads(self._database.stream(query, {}))
        else:
            yield from self._with_heads(iter(self._rows(query, {"limit": limit})))

    def thread(self, thread_id: str) -> Thread | None:
        if not self._database.storable(thread_id):
            return None
        query = self._queries.threads(one=True, limit=False)
        found = self._with_heads(iter(self._rows(query, self._of(thread_id))))
        return next(found, None)

    def _with_heads(self, rows: Iterator[tuple[Any, ...]]) -> Iterator[Thread]:
        for some in in_chunks(rows, _AT_ONCE):
            ids = [text(row[0]) for row in some]
            among, values = self._database.among("thread_id", "t", ids)
            values["root"] = self._database.bound("")
            found = self._rows(self._queries.heads(among), values)
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

    def checkpoint_sizes(self, thread_id: str) -> Iterator[tuple[CheckpointKey, ThreadSize]]:
        for place in self._index(thread_id).places.values():
            yield place.key, ThreadSize(1, 0, 0)
        for write in self.writes(thread_id):
            yield write.key, ThreadSize(0, 1, write.size)

    def usage(self, thread_id: str | None = None) -> Iterator[Usage]:
        asked = [thread_id] if thread_id is not None else []
        every = self._stream(self._queries.used_threads(), {}) if thread_id is None else ()
        for one in (*filter(self._database.storable, asked), *(text(row[0]) for row in every)):
            yield from super().usage(one)

    def _lengths(
        self, thread_id: str
    ) -> Iterator[tuple[tuple[str, str, str, str | None, str], int]]:
        found = self.read_keys(thread_id)
        for place in found.index.places.values():
            ns = place.key.checkpoint_ns
            yield (CHECKPOINTS, "metadata", ns, None, ""), 0
            for part in chain.from_iterable(found.own(place).values()):
                yield (BLOBS, VALUE, ns, part.channel, part.type), part.size
        for part in found.orphans():
            yield (BLOBS, VALUE, "", part.channel, part.type), part.size
        for row in self._stream(self._queries.write_keys("NULL"), self._of(thread_id)):
            ns = space_of(found.index, text(row[0]), hash_text(row[1]))
            yield (WRITES, VALUE, ns, text(row[5]), text(row[6])), int(row[7])

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
        every: dict[str, list[Sequence[Any]]] = {}
        if values is False and len(chosen) > 1:
            only = ""
            for row in self._stream(self._queries.write_keys(value), self._of(thread_id)):
                every.setdefault(text(row[0]), []).append(row)
        for ns, name in chosen:
            rows: Iterable[Sequence[Any]] = every.get(name, ())
            if only:
                query = self._queries.write_keys(value, only)
                rows = self._stream(
                    query, {**self._of(thread_id), "id": self._database.bound(name)}
                )
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

    def _stored_rows(self, table: SqlTable, thread_id: str) -> Iterator[Sequence[Any]]:
        for row in super()._stored_rows(table, thread_id):
            yield [cell_of(cell) for cell in row]

    def own_rows(self, thread_id: str, rows: Iterable[Row]) -> Iterator[Row]:
        columns = {one.name: one.columns for one in self._tables.all}
        for row in super().own_rows(thread_id, rows):
            check_columns(row, columns, {HASH})
            yield row

    def row_key(self, row: Row) -> Hashable:
        return sql_key(row), row.cells[HASH]

    def sources(self, key: CheckpointKey) -> list[str]:
        literal, queries = self._database.literal, self._queries
        thread = f"thread_id = {literal(key.thread_id)}"
        exactly = f"{thread} AND checkpoint_id = {literal(key.checkpoint_id)}"
        row = f"{exactly} AND checkpoint_ns = {literal(key.checkpoint_ns)}"
        return [
            f"SELECT * FROM {queries.checkpoints} WHERE {row};",
            f"SELECT * FROM {queries.blobs} WHERE {thread} AND {HASH} ="
            f" (SELECT {HASH} FROM {queries.checkpoints} WHERE {row});",
            f"SELECT * FROM {queries.writes} WHERE {exactly};",
        ]

    def suspect_threads(self) -> Iterator[str]:
        found: set[str] = set()
        for query in self._queries.suspects():
            found.update(text(thread_id) for (thread_id,) in self._stream(query, {}))
        yield from found

    def refresh(self) -> None:
        self.forget()
        super().refresh()

    def read_keys(self, thread_id: str) -> Values:
        """The index of a thread's values. The index of the last thread is cached."""
        if self._known is None or self._known[0] != thread_id:
            self._known = thread_id, self._read_keys(thread_id)
        return self._known[1]

    def forget(self) -> None:
        """Forget what was read, so it is read again."""
        self._known = None
        self.__dict__.pop("_kinds", None)

    def _index(self, thread_id: str) -> ThreadRows:
        return self.read_keys(thread_id).index

    def _read_keys(self, thread_id: str) -> Values:
        if not self._database.storable(thread_id):
            return Values(ThreadRows(), (), {})
        bound = self._of(thread_id)
        index = index_of(
            place_of(thread_id, row) for row in self._rows(self._queries.places(), bound)
        )
        parts = [
            BlobPart(hash_text(raw), raw, text(channel), number(version), text(tag), int(size))
            for raw, channel, version, tag, size in self._rows(self._queries.parts(), bound)
        ]
        written = self._written(thread_id, index)
        found = Values(index, parts, written)
        if found.is_incremental:
            return found
        self._known = thread_id, found
        added = {
            name for name, before, after in found.pairs() if self._adds(thread_id, before, after)
        }
        return Values(index, parts, written, added) if added else found

    def _adds(self, thread_id: str, before: BlobPart, after: BlobPart) -> bool:
        """Whether the parent's and the child's part are messages, and the child's are all new."""
        if before.size + after.size > _COMPARED:
            return False
        fetched = self._fetch(thread_id, [ChannelParts("", (before, after))])
        one, other = (
            decode(TypedBytes(part.type, fetched.get(part, b""))) for part in (before, after)
        )
        return are_new_messages(one, other)

    def _fetch(self, thread_id: str, named: Iterable[ChannelParts]) -> dict[BlobPart, bytes]:
        """The stored bytes of all parts of some values."""
        parts = {
            (part.hash, part.channel, part.version): part for one in named for part in one.parts
        }
        if not parts:
            return {}
        raw = {part.hash: part.stored_hash for part in parts.values()}
        hashes = {f"h{n}": raw[one] for n, one in enumerate(sorted({one for one, _, _ in parts}))}
        found: dict[BlobPart, bytes] = {}
        among, names = self._database.among("channel", "c", sorted({name for _, name, _ in parts}))
        for start in range(0, len(hashes), _AT_ONCE):
            some = dict(list(hashes.items())[start : start + _AT_ONCE])
            query = self._queries.values(some, among, MOST_BYTES)
            cells = {name: self._database.bound(value) for name, value in some.items()}
            bound = {**self._of(thread_id), **names, **cells}
            for stored, channel, version, value in self._rows(query, bound):
                part = parts.get((hash_text(stored), text(channel), number(version)))
                if part is not None:
                    found[part] = data(value)
        return found

    def _written(self, thread_id: str, index: ThreadRows) -> dict[tuple[str, str], set[str]]:
        """By (namespace, checkpoint id), the channels that were written to."""
        found: dict[tuple[str, str], set[str]] = {}
        rows = self._rows(self._queries.written(), self._of(thread_id))
        for checkpoint_id, raw, channel in rows:
            name = text(checkpoint_id)
            place = space_of(index, name, hash_text(raw)), name
            found.setdefault(place, set()).add(text(channel))
        return found

    def _rows(self, query: str, values: Mapping[str, object]) -> list[tuple[Any, ...]]:
        return self._database.rows(query, values)
