"""Reads the keys of a thread's rows, and the bytes of some values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ckpt_backends.apps.three_table import sql
from ckpt_backends.apps.three_table.cells import data, hash_text, moment, number, text
from ckpt_backends.apps.three_table.index import (
    ChannelParts,
    CheckpointRow,
    Part,
    ThreadRows,
    Values,
    index_of,
)
from ckpt_backends.apps.three_table.layout import ThreeTables
from ckpt_backends.base import BaseStore
from ckpt_backends.codec import decode
from ckpt_backends.codec.limits import MOST_BYTES
from ckpt_backends.codec.merged import are_new_messages
from ckpt_backends.model import CheckpointKey, TypedBytes
from ckpt_backends.sql.database import Database

_AT_ONCE = 200
_COMPARED = 1 << 20
"""Longer pairs of values are not decoded to find out how a thread is stored."""


class KeyedStore(BaseStore):
    """Three tables with the keys of the last thread that was read."""

    def __init__(self, database: Database, tables: ThreeTables, url: str) -> None:
        self._database = database
        self._tables = tables
        self._url = url
        self._queries = sql.Queries(database, tables)
        self._known: tuple[str, Values] | None = None

    def read_keys(self, thread_id: str) -> Values:
        """The index of a thread's values. The index of the last thread is cached."""
        if self._known is None or self._known[0] != thread_id:
            self._known = thread_id, self._read_keys(thread_id)
        return self._known[1]

    def forget(self) -> None:
        """Forget the cached keys, so they are read again."""
        self._known = None

    def _index(self, thread_id: str) -> ThreadRows:
        return self.read_keys(thread_id).index

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

    def _written(self, thread_id: str, index: ThreadRows) -> dict[tuple[str, str], set[str]]:
        """By (namespace, checkpoint id), the channels that were written to."""
        found: dict[tuple[str, str], set[str]] = {}
        rows = self._rows(self._queries.written(), **self._of(thread_id))
        for checkpoint_id, raw, channel in rows:
            name = text(checkpoint_id)
            place = space_of(index, name, hash_text(raw)), name
            found.setdefault(place, set()).add(text(channel))
        return found

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


def space_of(index: ThreadRows, checkpoint_id: str, hashed: str) -> str:
    """The namespace of a write: of the checkpoint with this id and hash, or else with this id."""
    named = index.by_id.get(checkpoint_id, ())
    for one in named:
        if one.hash == hashed:
            return one.key.checkpoint_ns
    return named[0].key.checkpoint_ns if named else ""
