"""Reads the three-table layout on any engine.

All keys of a thread are read at once, because they are few and small: `checkpoints` has no body.
Values are read for one checkpoint at a time, writes in the order in which they were stored.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import groupby, islice
from typing import Any

from ckpt_backends.apps.three_table import sql
from ckpt_backends.apps.three_table.cells import data, digest, hash_text, moment, number, text
from ckpt_backends.apps.three_table.index import (
    ChannelParts,
    CheckpointRow,
    Part,
    ThreadRows,
    Values,
    index_of,
)
from ckpt_backends.apps.three_table.layout import HASH, LATEST, NAME, VALUE, ThreeTables, detect
from ckpt_backends.base import BaseStore
from ckpt_backends.changes.rows import Row, check_columns, own_rows, sql_key
from ckpt_backends.channel_names import is_read
from ckpt_backends.codec import decode
from ckpt_backends.codec.merged import are_new_messages, merged
from ckpt_backends.codec.value_limit import MOST_BYTES, unread
from ckpt_backends.errors import UnknownLayout
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
)
from ckpt_backends.protocol import Store
from ckpt_backends.servers.answer_types import STORE, checked
from ckpt_backends.sql.blob_tables import BLOBS, CHECKPOINTS, WRITES, typed
from ckpt_backends.sql.database import Database
from ckpt_backends.url import StoreUrl

NOT_STORED = "not stored: its thread keeps the values of the newest checkpoint only"
_CUT = "items that come before are not stored"
_AT_ONCE = 200
_COMPARED = 1 << 20
"""Longer pairs of values are not decoded to find out how a thread is stored."""


def open_tables(
    database: Database,
    tables: Mapping[str, Set[str]],
    url: StoreUrl,
    schema: str | None = None,
) -> Store:
    """Open a database with these tables and columns for reading. Raises `UnknownLayout`."""
    found = detect(tables, database.quoted, str(url), schema)
    store = ThreeTableStore(database, found, str(url))
    wanted = url.params.get("layout")
    if wanted is not None and wanted != (name := store.layout_name()):
        raise UnknownLayout(
            f"'{url}' does not hold the layout '{wanted}'",
            hint=f"it holds '{name}': remove `layout` from the URL",
        )
    return store


@checked(*STORE)
class ThreeTableStore(BaseStore):
    """Three tables of this layout, opened for reading."""

    sums_sizes = True

    def __init__(self, database: Database, tables: ThreeTables, url: str) -> None:
        self._database = database
        self._tables = tables
        self._url = url
        self._queries = sql.Queries(database, tables)
        self._known: tuple[str, Values] | None = None

    def describe(self) -> StoreInfo:
        kinds = self._kinds()
        space = self._database.space(self._tables.stored)
        can = Capability.HISTORY | Capability.WRITES | Capability.BARE
        can |= Capability.ENFORCED_READ_ONLY
        if kinds == {LATEST}:
            can |= Capability.LATEST_VALUES
        elif not self._tables.unknown:
            can |= Capability.ADDING
        return StoreInfo(
            layout=self.layout_name(),
            url=self._url,
            engine=self._database.engine(),
            saver="a private saver of an application: three tables, node names as task ids",
            capabilities=can,
            tables=tuple(self._tables.stored),
            size=space.size,
            free=space.free,
            log=space.log,
            notes=tuple(self._notes(kinds)),
        )

    def layout_name(self) -> str:
        return LATEST if self._kinds() == {LATEST} else NAME

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
            if self._rows(self._queries.some_place(hashed, own=own), hash=self._bind(hashed))
        } or {NAME}

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
        while some := list(islice(rows, _AT_ONCE)):
            names = {f"t{n}": self._bind(text(row[0])) for n, row in enumerate(some)}
            query = self._queries.heads(list(names))
            found = self._rows(query, root=self._bind(""), **names)
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

    def size(self, thread_id: str) -> ThreadSize:
        return self.sizes([thread_id])[0]

    def sizes(self, thread_ids: Sequence[str]) -> list[ThreadSize]:
        counts: list[dict[str, tuple[int, int]]] = [{}, {}, {}]
        queries = self._queries
        asked = [one for one in dict.fromkeys(thread_ids) if self._database.storable(one)]
        for start in range(0, len(asked), _AT_ONCE):
            names = {f"t{n}": self._bind(one) for n, one in enumerate(asked[start:][:_AT_ONCE])}
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

    def namespaces(self, thread_id: str) -> list[str]:
        return list(dict.fromkeys(ns for ns, _ in self._index(thread_id).places))

    def checkpoints(
        self,
        thread_id: str,
        *,
        checkpoint_ns: str | None = None,
        checkpoint_ids: Collection[str] | None = None,
        body: bool = False,
        metadata: bool = False,
        values: bool | Collection[str] = False,
    ) -> Iterator[Checkpoint]:
        wanted = None if checkpoint_ids is None else set(checkpoint_ids)
        for (ns, name), place in self._index(thread_id).places.items():
            if checkpoint_ns in {None, ns} and (wanted is None or name in wanted):
                yield self._checkpoint(place, body=body, metadata=metadata, values=values)

    def checkpoints_at(
        self, keys: Sequence[CheckpointKey], *, body: bool = False, metadata: bool = False
    ) -> Iterator[Checkpoint]:
        for thread_id, asked in _by_thread(keys):
            places = self._index(thread_id).places
            for key in asked:
                place = places.get((key.checkpoint_ns, key.checkpoint_id))
                if place is not None:
                    yield self._checkpoint(place, body=body, metadata=metadata, values=False)

    def _checkpoint(
        self, place: CheckpointRow, *, body: bool, metadata: bool, values: bool | Collection[str]
    ) -> Checkpoint:
        """A checkpoint. Its body is made from the rows, in the form of LangGraph's bodies."""
        found = self.read_keys(place.key.thread_id) if body else None
        named = {} if found is None else found.named(place)
        return Checkpoint(
            place.key,
            place.parent,
            None if found is None else _body(place, named, is_stored=found.is_stored(place)),
            TypedBytes("json", b"{}" if not is_ours(place) else fork_of(place))
            if metadata
            else None,
            None if found is None else self._blobs(place, named, values),
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
        return {name: _blob(one, fetched if name in read else None) for name, one in there.items()}

    def _fetch(self, thread_id: str, named: Iterable[ChannelParts]) -> dict[Part, bytes]:
        """The stored bytes of all parts of some values."""
        parts = {
            (part.hash, part.channel, part.version): part for one in named for part in one.parts
        }
        if not parts:
            return {}
        raw = {part.hash: part.stored_hash for part in parts.values()}
        channels = {f"c{n}": name for n, name in enumerate(sorted({name for _, name, _ in parts}))}
        hashes = {f"h{n}": raw[one] for n, one in enumerate(sorted({one for one, _, _ in parts}))}
        found: dict[Part, bytes] = {}
        names = {name: self._bind(channel) for name, channel in channels.items()}
        for start in range(0, len(hashes), _AT_ONCE):
            some = dict(list(hashes.items())[start : start + _AT_ONCE])
            query = self._queries.values(some, list(channels), MOST_BYTES)
            cells = {name: self._bind(value) for name, value in some.items()}
            for stored, channel, version, value in self._rows(
                query, **self._of(thread_id), **names, **cells
            ):
                part = parts.get((hash_text(stored), text(channel), number(version)))
                if part is not None:
                    found[part] = data(value)
        return found

    def writes(
        self,
        thread_id: str,
        *,
        checkpoint_ns: str | None = None,
        checkpoint_ids: Collection[str] | None = None,
        channels: Collection[str] | None = None,
        values: bool | Collection[str] = False,
    ) -> Iterator[Write]:
        wanted = None if checkpoint_ids is None else set(checkpoint_ids)
        if not self._database.storable(thread_id):
            return
        index = self._index(thread_id)
        chosen = sorted(
            (ns, name)
            for ns, name in self._written(thread_id, index)
            if checkpoint_ns in {None, ns} and (wanted is None or name in wanted)
        )
        for write in self._read_writes(thread_id, chosen, values):
            if channels is None or write.channel in channels:
                yield write

    def writes_at(
        self,
        keys: Sequence[CheckpointKey],
        *,
        channels: Collection[str] | None = None,
        values: bool | Collection[str] = False,
    ) -> Iterator[Write]:
        for thread_id, asked in _by_thread(keys):
            for key in asked:
                yield from self.writes(
                    thread_id,
                    checkpoint_ns=key.checkpoint_ns,
                    checkpoint_ids=[key.checkpoint_id],
                    channels=channels,
                    values=values,
                )

    def _written(self, thread_id: str, index: ThreadRows) -> dict[tuple[str, str], set[str]]:
        """By (namespace, checkpoint id), the channels that were written to."""
        found: dict[tuple[str, str], set[str]] = {}
        rows = self._rows(self._queries.written(), **self._of(thread_id))
        for checkpoint_id, raw, channel in rows:
            name = text(checkpoint_id)
            place = _space(index, name, hash_text(raw)), name
            found.setdefault(place, set()).add(text(channel))
        return found

    def _read_writes(
        self,
        thread_id: str,
        chosen: Sequence[tuple[str, str]],
        values: bool | Collection[str],
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
                rows = self._stream(query, **self._of(thread_id), id=self._bind(name))
            for row in rows:
                if _space(index, name, hash_text(row[1])) == ns:
                    yield _write(CheckpointKey(thread_id, ns, name), row, values)

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
                yield Row(table, dict(zip(columns, map(_cell, row), strict=True)))

    def own_rows(self, thread_id: str, rows: Iterable[Row]) -> Iterator[Row]:
        for row in own_rows(thread_id, rows, self._tables.columns):
            check_columns(row, self._tables.columns, {HASH})
            yield row

    def row_key(self, row: Row) -> Hashable:
        return sql_key(row), row.cells[HASH]

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

    def refresh(self) -> None:
        self.forget()
        self._database.restart()

    def forget(self) -> None:
        """Forget the cached keys, so they are read again."""
        self._known = None

    def close(self) -> None:
        self._database.close()

    def _index(self, thread_id: str) -> ThreadRows:
        return self.read_keys(thread_id).index

    def read_keys(self, thread_id: str) -> Values:
        """The index of a thread's values. The index of the last thread is cached."""
        if self._known is None or self._known[0] != thread_id:
            self._known = thread_id, self._read_keys(thread_id)
        return self._known[1]

    def _read_keys(self, thread_id: str) -> Values:
        if not self._database.storable(thread_id):
            return Values(ThreadRows(), (), {})
        bound = self._of(thread_id)
        index = index_of(
            place_of(thread_id, row) for row in self._rows(self._queries.places(), **bound)
        )
        parts = [
            Part(hash_text(raw), raw, text(channel), number(version), text(tag), int(size))
            for raw, channel, version, tag, size in self._rows(self._queries.parts(), **bound)
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

    def _adds(self, thread_id: str, before: Part, after: Part) -> bool:
        """Whether the parent's and the child's part are messages, and the child's are all new."""
        if before.size + after.size > _COMPARED:
            return False
        fetched = self._fetch(thread_id, [ChannelParts("", (before, after))])
        one, other = (
            decode(TypedBytes(part.type, fetched.get(part, b""))) for part in (before, after)
        )
        return are_new_messages(one, other)

    def _of(self, thread_id: str) -> dict[str, object]:
        return {"thread": self._bind(thread_id)}

    def _bind(self, value: object) -> object:
        return self._database.bound(value) if isinstance(value, str) else value

    def _rows(self, query: str, **values: object) -> list[tuple[Any, ...]]:
        return self._database.rows(query, values)

    def _stream(self, query: str, **values: object) -> Iterator[tuple[Any, ...]]:
        return self._database.stream(query, values)


def place_of(thread_id: str, row: Sequence[Any]) -> CheckpointRow:
    """A row of `checkpoints`."""
    checkpoint_id, parent, ns, raw, at = row
    key = CheckpointKey(thread_id, text(ns), text(checkpoint_id))
    above = text(parent) or None
    return CheckpointRow(key, above, hash_text(raw), raw, moment(at), at)


def own_hash(key: CheckpointKey, parent: str) -> str:
    """The hash for a checkpoint that `ckpt` adds. It is unique, and `is_ours` recognises it."""
    return digest("\0".join(("ckpt", key.thread_id, key.checkpoint_ns, key.checkpoint_id, parent)))


def is_ours(place: CheckpointRow) -> bool:
    """Whether `ckpt` added a checkpoint."""
    return place.parent is not None and place.hash == own_hash(place.key, place.parent)


def fork_of(place: CheckpointRow) -> bytes:
    """The metadata, as JSON, that is shown for a checkpoint that `ckpt` added."""
    told = {"source": "fork", "forked_by": "ckpt", "forked_from": place.parent}
    return json.dumps(told).encode()


def _body(
    place: CheckpointRow, named: Mapping[str, ChannelParts], *, is_stored: bool
) -> TypedBytes:
    if not is_stored:
        return TypedBytes("json", b"", problem=NOT_STORED)
    body = {
        "id": place.key.checkpoint_id,
        "ts": None if place.at is None else place.at.isoformat(),
        "channel_versions": {name: one.version for name, one in named.items()},
    }
    return TypedBytes("json", json.dumps(body).encode())


def _blob(one: ChannelParts, fetched: Mapping[Part, bytes] | None) -> Blob:
    """A value. One part is returned as stored; several parts have the type `merged`."""
    size = sum(part.size for part in one.parts)
    found = Blob(
        one.parts[0].type if len(one.parts) == 1 else "merged", size, inherited=one.is_inherited
    )
    if fetched is None:
        return found
    return replace(found, value=_value(one, found, fetched))


def _value(one: ChannelParts, found: Blob, fetched: Mapping[Part, bytes]) -> TypedBytes:
    if one.is_cut:
        return TypedBytes(found.type, b"", problem=_CUT)
    if found.size > MOST_BYTES:
        return unread(found.type, found.size)
    parts = [typed(part.type, part.size, fetched.get(part)) for part in one.parts]
    return parts[0] if len(parts) == 1 else merged(parts)


def _write(key: CheckpointKey, row: Sequence[Any], values: bool | Collection[str]) -> Write:
    _, _, task_id, path, idx, channel, tag, size, at, value = row
    name = text(channel)
    is_wanted = values if isinstance(values, bool) else name in values
    return Write(
        key,
        text(task_id),
        text(path),
        number(idx),
        name,
        int(size),
        typed(text(tag), int(size), data(value)) if is_wanted else None,
        node=text(task_id),
        at=moment(at),
    )


def _space(index: ThreadRows, checkpoint_id: str, hashed: str) -> str:
    """The namespace of a write: of the checkpoint with this id and hash, or else with this id."""
    named = index.by_id.get(checkpoint_id, ())
    for one in named:
        if one.hash == hashed:
            return one.key.checkpoint_ns
    return named[0].key.checkpoint_ns if named else ""


def _by_thread(keys: Sequence[CheckpointKey]) -> Iterator[tuple[str, list[CheckpointKey]]]:
    ordered = sorted(dict.fromkeys(keys))
    for thread_id, some in groupby(ordered, lambda key: key.thread_id):
        yield thread_id, list(some)


def _cell(value: Any) -> Any:
    """A cell for an archive. Types other than numbers, text and bytes become text."""
    if value is None or isinstance(value, int | float | str | bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    return value.isoformat(" ") if hasattr(value, "isoformat") else str(value)
