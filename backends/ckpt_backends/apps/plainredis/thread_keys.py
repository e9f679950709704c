"""Finds all keys of a thread of langgraph-checkpoint-plainredis, and converts them to rows.

A hash of writes becomes one row for each write. All threads share the registry, so a thread has one
row for each of its fields there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ckpt_backends.apps.plainredis.contents import PlainContents, PlainThreadKeys
from ckpt_backends.apps.plainredis.parts import BLOBS, THREADS, TIMELINE, WRITES
from ckpt_backends.apps.plainredis.timelines import timeline_of
from ckpt_backends.changes.rows import Cell, Row, not_of
from ckpt_backends.errors import Refused
from ckpt_backends.model import CheckpointKey
from ckpt_backends.redis.engine.archived_keys import namespace_of, parted, rest_of, row_name
from ckpt_backends.redis.engine.connection import Command, in_chunks
from ckpt_backends.redis.engine.key_rows import cells_of, expiries_of
from ckpt_backends.redis.engine.keyspace import (
    CHECKPOINT,
    HASH,
    STRING,
    ZSET,
    CheckpointEntry,
    CheckpointKeys,
    KeysByCheckpoint,
    raw,
    text,
)
from ckpt_backends.redis.engine.layout import KeyFinder
from ckpt_backends.redis.engine.row_cells import MEMBER

_BY_FIELD = frozenset({WRITES, THREADS})
"""Kinds for which a row is one field of a hash."""
_Item = tuple[str, bytes, bytes]
"""Kind, key, and the field for kinds in `_BY_FIELD`; otherwise `b""`."""


@dataclass(slots=True)
class PlainKeysByCheckpoint(KeysByCheckpoint):
    """The keys of a thread."""

    thread_id: str = ""
    found: PlainThreadKeys = field(default_factory=PlainThreadKeys)

    @property
    def places(self) -> list[CheckpointEntry]:
        """The checkpoints, in undefined order."""
        return list(self.found.places.values())

    @property
    def writes_of_heads(self) -> dict[bytes, int]:
        """By key of the writes of a namespace's newest checkpoint, the number of its writes."""
        return {
            name: one.writes.count(name)
            for one in self.heads.values()
            for name in one.names[WRITES]
        }


class PlainKeyFinder(KeyFinder[PlainContents]):
    """Finds the keys of threads in this layout."""

    types: Mapping[str, str] = {
        BLOBS: STRING,
        WRITES: HASH,
        TIMELINE: ZSET,
        THREADS: HASH,
        CHECKPOINT: STRING,
    }

    _raised = 0

    def find(self, thread_ids: Sequence[str]) -> Iterator[PlainKeysByCheckpoint]:
        found = self.layout.find(thread_ids)
        for one in thread_ids:
            owners = self.layout.owners_of([write.name for write in found[one].writes])
            groups = self._groups(one, found[one], owners)
            yield PlainKeysByCheckpoint(groups, {}, thread_id=one, found=found[one])

    def _keys_of(self, key: CheckpointKey, *, is_there: bool) -> CheckpointKeys:
        checkpoint = self.layout.checkpoint_name(key)
        names = {WRITES: [self.layout.writes_name(key)], CHECKPOINT: [checkpoint]}
        return CheckpointKeys(key, names, is_there)

    def rows(self, thread_id: str) -> Iterator[Row]:
        """One row for each key or field, in the same form as `key_rows.rows_of`."""
        (keys,) = self.find([thread_id])
        for some in in_chunks(list(self._items(keys)), self._lengths):
            items = [item for item, _ in some]
            answers = self.connection.ask_all(map(_read, items))
            expiries = expiries_of(self.connection, [name for _, name, _ in items])
            for (kind, name, own), answer, expiry in zip(items, answers, expiries, strict=True):
                if answer:
                    about = {"key": text(name), "type": self.types[kind], "expires_at": expiry}
                    yield Row(kind, {**about, **self._cells(kind, own, answer)})

    def _items(self, keys: PlainKeysByCheckpoint) -> Iterator[_Item]:
        # First, because `parts` tells other keys apart by them.
        for one in keys.found.timelines:
            yield TIMELINE, one.name, b""
            yield THREADS, self.layout.threads, one.name
        yield from ((BLOBS, one.name, b"") for one in keys.found.blob_places)
        names = sorted({name for one in keys.groups.values() for name in one.names[WRITES]})
        found = self.connection.ask_all(("HKEYS", name) for name in names)
        for name, own in zip(names, found, strict=True):
            yield from ((WRITES, name, one) for one in sorted(own or ()))
        # In the order of storing, so that each head comes last.
        for place in sorted(keys.places, key=lambda one: (not one.key.checkpoint_ns, one.rank)):
            yield CHECKPOINT, place.name, b""

    def _lengths(self, items: Sequence[_Item]) -> Iterator[Any]:
        return self.connection.ask_all(
            ("HSTRLEN", name, own) if own else ("MEMORY USAGE", name) for _, name, own in items
        )

    def stored(self, rows: Sequence[Row]) -> Iterator[dict[str, Cell] | None]:
        items = [(row.table, raw(str(row.cells["key"])), own_field(row)) for row in rows]
        answers = self.connection.ask_all(map(_read, items))
        for row, (kind, name, own), answer in zip(rows, items, answers, strict=True):
            if answer:
                yield self._cells(kind, own, answer)
            elif row.table in _BY_FIELD:
                yield None
            else:
                # A key of another type exists: return contents that differ from the row.
                yield {} if self.connection.ask("EXISTS", name) else None

    def _cells(self, kind: str, own: bytes, answer: Any) -> dict[str, Cell]:
        if kind in _BY_FIELD:
            return {MEMBER + text(own): bytes(answer)}
        return cells_of(self.types[kind], answer) or {}

    def row_key(self, row: Row) -> Hashable:
        return row.table, row.cells["key"], own_field(row)

    def own_rows(self, thread_id: str, rows: Iterable[Row]) -> Iterator[Row]:
        start = f"{self.layout.prefix}:{{}}:{thread_id}:".format
        spaces: set[str] = set()
        values: list[str] = []
        for row in rows:
            name = row_name(row, self.types, {THREADS})
            if row.table == THREADS:
                self._check_entry(thread_id, row, name)
            elif row.table == TIMELINE:
                spaces.add(namespace_of(row, rest_of(row, name, start("idx"))))
            elif row.table == BLOBS:
                values.append(rest_of(row, name, start("blob")))
            else:
                ns, _ = parted(row, name, start("wr" if row.table == WRITES else "cp"))
                spaces.add(ns)
            yield row
        for rest in values:
            if not any(rest.startswith(f"{ns}:") for ns in _beginnings(rest) & spaces):
                raise Refused(
                    f"it has a value that belongs to no checkpoint of thread '{thread_id}'"
                )

    def _check_entry(self, thread_id: str, row: Row, name: str) -> None:
        """Check an entry of the registry, which all threads share."""
        ((own, told),) = ((one, cell) for one, cell in row.cells.items() if one.startswith(MEMBER))
        found = timeline_of(raw(own.removeprefix(MEMBER)), told if isinstance(told, bytes) else b"")
        if raw(name) != self.layout.threads or found is None or found.thread_id != thread_id:
            raise not_of(row.table, None if found is None else found.thread_id, thread_id)
        if found.name != self.layout.timeline(thread_id, found.checkpoint_ns).name:
            raise Refused(f"a row of '{row.table}' names the key of another thread")
        namespace_of(row, found.checkpoint_ns)

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
        last = int(self.connection.ask("GET", self.layout.seq) or 0) + self._raised
        missing = math.ceil(max(scores)) - last
        if missing > 0:
            self._raised += missing
            # INCRBY is safe even if savers use the counter at the same time.
            yield ("INCRBY", self.layout.seq, missing)

    def numbers(self, names: Iterable[bytes]) -> Iterator[int]:
        """The current number of writes in each of these keys."""
        answers = self.connection.ask_all(("HKEYS", name) for name in names)
        return (len(one or ()) for one in answers)

    def remaining(self, thread_id: str) -> set[tuple[str, str]]:
        """The current checkpoints of a thread, as (namespace, checkpoint id)."""
        return set(self.layout.places([thread_id])[thread_id])


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


def _beginnings(rest: str) -> set[str]:
    """The namespaces that NS:CHANNEL:VERSION may begin with."""
    return {rest[: found.start()] for found in re.finditer(":", rest)}
