"""Finds all keys of a thread of langgraph-checkpoint-plainredis, and converts them to rows.

A hash of writes becomes one row for each write. All threads share the registry, so a thread has one
row for each of its fields there.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ckpt_backends.apps.plainredis.layout import BlobEntry, NamespaceEntries, Plain, PlainThreadKeys
from ckpt_backends.changes.rows import Cell, Row
from ckpt_backends.model import CheckpointKey
from ckpt_backends.redis.engine.connect import Command, RedisConnection, in_chunks
from ckpt_backends.redis.engine.keyspace import CheckpointEntry, raw, text
from ckpt_backends.redis.engine.thread_keys import (
    CHECKPOINT,
    HASH,
    MEMBER,
    STRING,
    ZSET,
    Owned,
    Owner,
    expiries_of,
)

BLOBS, WRITES, TIMELINE, THREADS = "checkpoint_blobs", "writes", "idx", "threads"
_BY_FIELD = frozenset({WRITES, THREADS})
"""Kinds for which a row is one field of a hash."""
_Item = tuple[str, bytes, bytes]
"""Kind, key, and the field for kinds in `_BY_FIELD`; otherwise `b""`."""


@dataclass(slots=True)
class PlainOwned(Owned):
    """The keys of a thread."""

    thread_id: str = ""
    places: list[CheckpointEntry] = field(default_factory=list)
    blob_places: list[BlobEntry] = field(default_factory=list)
    timelines: list[NamespaceEntries] = field(default_factory=list)

    @property
    def writes_of_heads(self) -> dict[bytes, int]:
        """By key of the writes of a namespace's newest checkpoint, the number of its writes."""
        return {
            name: one.writes.count(name)
            for one in self.heads.values()
            for name in one.names[WRITES]
        }


class PlainOwning:
    """Finds the keys of a thread in this layout."""

    def __init__(self, connection: RedisConnection, layout: Plain) -> None:
        self._connection = connection
        self._plain = layout
        self._raised = 0
        self.types: Mapping[str, str] = {
            BLOBS: STRING,
            WRITES: HASH,
            TIMELINE: ZSET,
            THREADS: HASH,
            CHECKPOINT: STRING,
        }

    def of(self, thread_ids: Sequence[str]) -> Iterator[PlainOwned]:
        found = self._plain.whole(thread_ids)
        for thread_id in thread_ids:
            yield self._owned_of(thread_id, found[thread_id])

    def _owned_of(self, thread_id: str, found: PlainThreadKeys) -> PlainOwned:
        owners = {at: self._owner_of(one.key, is_there=True) for at, one in found.places.items()}
        written = self._plain.written([one.name for one in found.writes])
        for (name, key), number in Counter((name, key) for name, key, _ in written).items():
            at = (key.checkpoint_ns, key.checkpoint_id)
            if at not in owners:
                owners[at] = self._owner_of(key, is_there=False)
            owners[at].writes.extend([name] * number)
        places = list(found.places.values())
        return PlainOwned(
            owners,
            {},
            thread_id=thread_id,
            places=places,
            blob_places=found.blob_places,
            timelines=found.timelines,
        )

    def _owner_of(self, key: CheckpointKey, *, is_there: bool) -> Owner:
        checkpoint = self._plain.checkpoint_name(key)
        names = {WRITES: [self._plain.writes_name(key)], CHECKPOINT: [checkpoint]}
        return Owner(key, names, is_there)

    def rows(self, owned: PlainOwned) -> Iterator[Row]:
        """One row for each key or field, in the same form as `owned.rows_of`."""
        for some in in_chunks(list(self._items(owned)), self._lengths):
            items = [item for item, _ in some]
            answers = self._connection.ask_all(map(_read, items))
            expiries = expiries_of(self._connection, [name for _, name, _ in items])
            for (kind, name, own), answer, expiry in zip(items, answers, expiries, strict=True):
                if answer:
                    about = {"key": text(name), "type": self.types[kind], "expires_at": expiry}
                    yield Row(kind, {**about, **_cells(kind, own, answer)})

    def _items(self, owned: PlainOwned) -> Iterator[_Item]:
        yield from ((BLOBS, one.name, b"") for one in owned.blob_places)
        names = sorted({name for one in owned.owners.values() for name in one.names[WRITES]})
        found = self._connection.ask_all(("HKEYS", name) for name in names)
        for name, own in zip(names, found, strict=True):
            yield from ((WRITES, name, one) for one in sorted(own or ()))
        for one in owned.timelines:
            yield TIMELINE, one.name, b""
            yield THREADS, self._plain.threads, one.name
        # In the order of storing, so that each head comes last.
        for place in sorted(owned.places, key=lambda one: (not one.key.checkpoint_ns, one.rank)):
            yield CHECKPOINT, place.name, b""

    def _lengths(self, items: Sequence[_Item]) -> Iterator[Any]:
        return self._connection.ask_all(
            ("HSTRLEN", name, own) if own else ("MEMORY USAGE", name) for _, name, own in items
        )

    def stored(self, rows: Sequence[Row]) -> Iterator[dict[str, Cell] | None]:
        items = [(row.table, raw(str(row.cells["key"])), own_field(row)) for row in rows]
        answers = self._connection.ask_all(map(_read, items))
        for row, (kind, name, own), answer in zip(rows, items, answers, strict=True):
            if answer:
                yield _cells(kind, own, answer)
            elif row.table in _BY_FIELD:
                yield None
            else:
                # A key of another type exists: return contents that differ from the row.
                yield {} if self._connection.ask("EXISTS", name) else None

    def also(self, rows: Sequence[Row]) -> Iterator[Command]:
        """Raise the counter, so that later checkpoints come after the restored ones."""
        scores = [
            float(cell)
            for row in rows
            if row.table == TIMELINE
            for name, cell in row.cells.items()
            if name.startswith(MEMBER) and isinstance(cell, str)
        ]
        if not scores:
            return
        last = int(self._connection.ask("GET", self._plain.seq) or 0) + self._raised
        missing = math.ceil(max(scores)) - last
        if missing > 0:
            self._raised += missing
            # INCRBY is safe even if savers use the counter at the same time.
            yield ("INCRBY", self._plain.seq, missing)

    def numbers(self, names: Iterable[bytes]) -> Iterator[int]:
        """The current number of writes in each of these keys."""
        answers = self._connection.ask_all(("HKEYS", name) for name in names)
        return (len(one or ()) for one in answers)

    def remaining(self, thread_id: str) -> set[tuple[str, str]]:
        """The current checkpoints of a thread, as (namespace, checkpoint id)."""
        return set(self._plain.places([thread_id])[thread_id])


def own_field(row: Row) -> bytes:
    """The field that a row contains; `b""` if it contains a whole key."""
    if row.table not in _BY_FIELD:
        return b""
    name = next(one for one in row.cells if one.startswith(MEMBER))
    return raw(name.removeprefix(MEMBER))


def _read(item: _Item) -> Command:
    kind, name, own = item
    if kind in _BY_FIELD:
        return ("HGET", name, own)
    return ("ZRANGE", name, 0, -1, "WITHSCORES") if kind == TIMELINE else ("GET", name)


def _cells(kind: str, own: bytes, answer: Any) -> dict[str, Cell]:
    if kind in _BY_FIELD:
        return {MEMBER + text(own): bytes(answer)}
    if kind == TIMELINE:
        pairs = zip(answer[::2], answer[1::2], strict=True)
        return {MEMBER + text(name): text(score) for name, score in pairs}
    return {"value": bytes(answer)}
