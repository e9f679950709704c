"""Changes the three-table layout on any engine.

Each change is one transaction. A thread is changed by one transaction at a time.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from ckpt_backends.apps.three_table.layout import (
    CREATED,
    HASH,
    MODIFIED,
    NEEDED,
    VALUE,
    CheckpointRow,
    Values,
    detect,
    like,
    own_hash,
)
from ckpt_backends.apps.three_table.store import ThreeTableStore
from ckpt_backends.changes import gone, moved
from ckpt_backends.errors import StoreChanged, Unsupported
from ckpt_backends.model import CheckpointKey, Kind, Record
from ckpt_backends.protocol import WritableStore
from ckpt_backends.records import (
    CopyTarget,
    Heads,
    NamespaceState,
    Rows,
    ThreadState,
    Where,
    check_numbers,
)
from ckpt_backends.rows import Restored, Row
from ckpt_backends.sql.database import WritableDatabase
from ckpt_backends.sql.tables import BLOBS, CHECKPOINTS, WRITES, not_changed, why_only_read
from ckpt_backends.sql.write import RowChanges, WritableSqlStore
from ckpt_backends.url import StoreUrl

_APART = timedelta(seconds=1)
"""A new checkpoint gets a time at least this much after the newest: some stores keep seconds."""


def open_writable_tables(
    database: WritableDatabase,
    tables: Mapping[str, Set[str]],
    url: StoreUrl,
    schema: str | None = None,
) -> WritableStore:
    """Open a database with these tables and columns for changing. Raises `UnknownLayout`."""
    found, unknown = detect(database, tables, str(url), schema)
    if unknown:
        raise not_changed(str(url), why_only_read(unknown, ()))
    return WritableThreeTableStore(database, url, found)


class WritableThreeTableStore(WritableSqlStore):
    """Three tables of this layout, opened for changing."""

    @contextmanager
    def _transaction(self, thread_ids: Sequence[str], *, exclusive: bool = False) -> Iterator[Rows]:
        locked = () if exclusive else thread_ids
        store = ThreeTableStore(self._database, self._url, self._tables, ())
        with self._database.transaction(locked, exclusive=exclusive):
            yield ThreeTableRows(self._database, self._rows, store)

    def restore(self, rows: Iterable[Row]) -> Restored:
        with self._database.transaction(exclusive=True):
            return self._rows.restore(rows, _KEYS)


class ThreeTableRows(Rows):
    """Rows of the three tables, with the state of each thread as it was at first."""

    tables: Mapping[Kind, str] = {
        Kind.WRITE: WRITES,
        Kind.VALUE: BLOBS,
        Kind.CHECKPOINT: CHECKPOINTS,
    }

    def __init__(
        self, database: WritableDatabase, rows: RowChanges, store: ThreeTableStore
    ) -> None:
        self._database = database
        self._rows = rows
        self._store = store
        self._known: dict[str, Values] = {}
        self._added: list[CheckpointKey] = []

    def _values(self, thread_id: str) -> Values:
        if thread_id not in self._known:
            self._known[thread_id] = self._store.read_keys(thread_id)
        return self._known[thread_id]

    def heads(self, thread_ids: Sequence[str]) -> Heads:
        return {one: _heads(self._values(one)) for one in thread_ids}

    def states(self, thread_ids: Sequence[str]) -> Mapping[str, ThreadState]:
        found = {}
        for one, size in zip(thread_ids, self._store.sizes(thread_ids), strict=True):
            thread = self._store.thread(one)
            rows = {Kind.WRITE: size.writes, Kind.VALUE: size.blobs}
            rows[Kind.CHECKPOINT] = size.checkpoints
            found[one] = ThreadState(None if thread is None else thread.last_at, rows)
        return found

    def count(self, kind: Kind, where: Where) -> int:  # noqa: ARG002 - only checkpoints are counted
        return sum(place is not None for _, place in self._places(where))

    def add(self, records: Iterable[Record]) -> None:
        """Add checkpoints with the values that they name, or missing values of others."""
        values: list[Record] = []
        for record in records:
            if record.kind is Kind.WRITE:
                raise _no_writes()
            thread_id = record.key.thread_id
            if self._values(thread_id).index.shared:
                raise Unsupported(
                    f"thread '{thread_id}' stores the values of its newest checkpoint only",
                    hint="a new checkpoint would overwrite the values of the others",
                )
            if record.kind is Kind.VALUE:
                values.append(record)
            else:
                self._add(self._values(thread_id), record, values)
                self._added.append(record.key)
        if not self._added:
            for value in values:
                self._put_back(self._values(value.key.thread_id), value)

    def copy(self, kind: Kind, where: Where, target: CopyTarget) -> int:
        """Copy checkpoints with their values, or writes, to another thread."""
        if target.checkpoint_id is not None:
            raise _no_writes()
        new, number = {"thread_id": target.thread_id}, 0
        for key, place in self._places(where):
            if place is None:
                continue
            values = {"thread_id": key.thread_id, HASH: place.stored_hash}
            by_id = {**values, "checkpoint_id": key.checkpoint_id}
            if kind is Kind.CHECKPOINT:
                number += self._rows.copy(CHECKPOINTS, new, by_id)
                self._rows.copy(BLOBS, new, values)
            elif where.tasks is None:
                number += self._rows.copy(WRITES, new, by_id)
            else:
                for task_id, idx in where.tasks:
                    task = {**by_id, "task_id": task_id, "idx": idx}
                    number += self._rows.copy(WRITES, new, task)
        return number

    def remove(self, kind: Kind, where: Where) -> int:
        if kind is Kind.VALUE and where.versions is not None:
            (thread_id,) = where.thread_ids
            values = self._values(thread_id)
            return sum(
                self._remove_value(values, thread_id, str(where.channel), one)
                for one in where.versions
            )
        if where.checkpoint_ids is None:
            threads = list(filter(self._database.storable, where.thread_ids))
            return self._rows.remove(self.tables[kind], {"thread_id": threads}) if threads else 0
        return sum(self._remove(kind, key, place) for key, place in self._places(where))

    def _remove(self, kind: Kind, key: CheckpointKey, place: CheckpointRow | None) -> int:
        by_id = {"thread_id": key.thread_id, "checkpoint_id": key.checkpoint_id}
        if place is None:
            # Orphaned writes have no checkpoint.
            return self._rows.remove(WRITES, by_id) if kind is Kind.WRITE else 0
        index = self._values(key.thread_id).index
        of_hash = {"thread_id": key.thread_id, HASH: place.stored_hash}
        several = len(index.by_id[key.checkpoint_id]) > 1
        number = self._rows.remove(self.tables[kind], {**by_id, **of_hash} if several else by_id)
        if kind is Kind.CHECKPOINT and place.hash not in index.shared:
            self._rows.remove(BLOBS, of_hash)
        return number

    def _places(self, where: Where) -> Iterator[tuple[CheckpointKey, CheckpointRow | None]]:
        (thread_id,) = where.thread_ids
        places, ns = self._values(thread_id).index.places, str(where.checkpoint_ns)
        for own in where.checkpoint_ids or ():
            yield CheckpointKey(thread_id, ns, own), places.get((ns, own))

    def confirm(self, before: Heads, added: Mapping[tuple[str, str], int]) -> None:
        self._store.forget()
        after = {one: _heads(self._store.read_keys(one)) for one in before}
        check_numbers(before, after, added)
        for key in self._added:
            places = self._values(key.thread_id).index.places.values()
            head = after[key.thread_id][key.checkpoint_ns].head
            if head != key.checkpoint_id and not _newer(key, places):
                raise moved(key.thread_id)

    def _add(self, values: Values, one: Record, blobs: Sequence[Record]) -> None:
        """Add a checkpoint with the values that its body names: new ones, and copies of others."""
        assert one.parent is not None  # noqa: S101
        key, index = one.key, values.index
        parent = index.places.get((key.checkpoint_ns, one.parent))
        if parent is None:
            raise gone(CheckpointKey(key.thread_id, key.checkpoint_ns, one.parent))
        newest = max(index.places.values(), key=lambda place: place.order)
        now = datetime.now(UTC).replace(microsecond=0)
        time = now if newest.at is None else max(now, newest.at + _APART)
        if newer := _newer(key, index.places.values()):
            # Equal times are ordered by id.
            time = min(newer, key=lambda place: place.order).at or time
        at = like(newest.stored_at, time)
        told = own_hash(key, one.parent)
        hashed: object = told if isinstance(parent.stored_hash, str) else bytes.fromhex(told)
        ids = {"checkpoint_id": key.checkpoint_id, "parent_checkpoint_id": one.parent}
        self._rows.add(CHECKPOINTS, {**_common(key, hashed, at), **ids})
        new = {(blob.channel, blob.version): blob for blob in blobs}
        named = values.named(parent)
        for channel, version in json.loads(one.value.data)["channel_versions"].items():
            if (channel, version) in new:
                self._insert_value(key, hashed, channel, new[channel, version], at)
            elif channel not in named:
                raise gone(parent.key)
            elif not values.is_pieced(parent, channel):
                self._copy_value(index.by_hash[version], channel, key, hashed, at)

    def _insert_value(
        self, key: CheckpointKey, hashed: object, channel: str, blob: Record, at: object
    ) -> None:
        cells = {"channel": channel, "version": 0, "type": blob.value.type, VALUE: blob.value.data}
        self._rows.add(BLOBS, {**_common(key, hashed, at), **cells})

    def _copy_value(
        self, source: CheckpointRow, channel: str, key: CheckpointKey, hashed: object, at: object
    ) -> None:
        """Copy a channel's value byte for byte from one hash to another hash."""
        new = _common(key, hashed, at)
        where = {"thread_id": key.thread_id, HASH: source.stored_hash, "channel": channel}
        if not self._rows.copy(BLOBS, new, where):
            raise gone(source.key)

    def _put_back(self, values: Values, blob: Record) -> None:
        """Store a missing value again under the hash of its checkpoint."""
        place = values.index.by_hash.get(blob.version)
        if place is None:
            raise StoreChanged(
                f"a checkpoint of thread '{blob.key.thread_id}' was removed meanwhile; nothing was"
                " written",
                hint="run the command again",
            )
        if values.is_pieced(place, blob.channel):
            raise Unsupported(
                f"channel '{blob.channel}' stores only new items, so its value cannot be replaced",
                hint="the saver would take a whole value for new items",
            )
        self._insert_value(place.key, place.stored_hash, blob.channel, blob, place.stored_at)

    def _remove_value(self, values: Values, thread_id: str, channel: str, version: str) -> int:
        place = values.index.by_hash.get(version)
        hashed: object = values.orphaned.get(version) if place is None else place.stored_hash
        if hashed is None:
            return 0
        where = {"thread_id": thread_id, HASH: hashed, "channel": channel}
        return self._rows.remove(BLOBS, where)


def _heads(values: Values) -> dict[str, NamespaceState]:
    """By namespace, the checkpoints of a thread."""
    number = Counter(ns for ns, _ in values.index.places)
    heads = values.index.heads()
    return {ns: NamespaceState(one.key.checkpoint_id, number[ns]) for ns, one in heads.items()}


def _common(key: CheckpointKey, hashed: object, at: object) -> dict[str, object]:
    """The cells that a checkpoint and its values have alike; without a column, one is left out."""
    place = {"thread_id": key.thread_id, "checkpoint_ns": key.checkpoint_ns, HASH: hashed}
    return {**place, CREATED: at, MODIFIED: at}


def _no_writes() -> Unsupported:
    return Unsupported("this layout cannot store writes of the caller")


_KEYS = {
    CHECKPOINTS: frozenset({"thread_id", "checkpoint_id", HASH}),
    BLOBS: NEEDED[BLOBS] - {"type", VALUE},
    WRITES: NEEDED[WRITES] - {"type", VALUE, "channel"},
}
"""By table, the columns that identify a row."""


def _newer(key: CheckpointKey, places: Iterable[CheckpointRow]) -> list[CheckpointRow]:
    """Return the checkpoints of a namespace that come after one, by their ids."""

    def rank(one: CheckpointKey) -> tuple[int, str]:
        return len(one.checkpoint_id), one.checkpoint_id

    return [
        one
        for one in places
        if one.key.checkpoint_ns == key.checkpoint_ns and rank(one.key) > rank(key)
    ]
