"""Changes the three-table layout on any engine.

Each change is one transaction. A thread is changed by one transaction at a time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import UTC, datetime, timedelta

from ckpt_backends import shell
from ckpt_backends.apps.three_table.layout import (
    CREATED,
    HASH,
    MODIFIED,
    NEEDED,
    VALUE,
    CheckpointRow,
    ThreeTables,
    Values,
    detect,
    like,
    own_hash,
)
from ckpt_backends.apps.three_table.store import ThreeTableStore
from ckpt_backends.base import BaseWritableStore
from ckpt_backends.changes import (
    GONE,
    Change,
    CopyOfCheckpoint,
    Inside,
    NewBlob,
    Remains,
    Removal,
    Removed,
    gone,
    moved,
)
from ckpt_backends.errors import StoreChanged, UnknownLayout, Unsupported
from ckpt_backends.model import Checkpoint, CheckpointKey, Progress, silent
from ckpt_backends.protocol import WritableStore
from ckpt_backends.rows import Restored, Row, RowEdit
from ckpt_backends.servers import CHANGES, checked
from ckpt_backends.sql.database import WritableDatabase
from ckpt_backends.sql.row_changes import RowChanges
from ckpt_backends.sql.tables import BLOBS, CHECKPOINTS, WRITES
from ckpt_backends.url import StoreUrl

_APART = timedelta(seconds=1)
"""A new checkpoint gets a time at least this much after the newest: some stores keep seconds."""
_TABLES = (WRITES, BLOBS, CHECKPOINTS)
"""In the order of removal: checkpoints last."""


def open_writable_tables(
    database: WritableDatabase,
    tables: Mapping[str, Set[str]],
    url: StoreUrl,
    schema: str | None = None,
) -> WritableStore:
    """Open a database with these tables and columns for changing. Raises `UnknownLayout`."""
    found = detect(tables, database.quoted, str(url), schema)
    if found.unknown:
        raise UnknownLayout(
            f"'{url}' was written by a saver that ckpt does not know, so ckpt only reads it",
            hint=f"unknown columns: {', '.join(map(shell.word, found.unknown))}",
        )
    return WritableThreeTableStore(database, found, str(url))


@checked(*CHANGES)
class WritableThreeTableStore(BaseWritableStore):
    """Three tables of this layout, opened for changing."""

    def __init__(self, database: WritableDatabase, tables: ThreeTables, url: str) -> None:
        self._database = database
        self._tables = tables
        self._url = url
        self._store = ThreeTableStore(database, tables, url)
        self._rows = RowChanges(database, tables.names, tables.columns)

    def apply(self, change: Change) -> None:
        self._store.forget()
        with self._database.transaction(change.thread_id):
            values = self._store.read_keys(change.thread_id)
            heads = {ns: one.key.checkpoint_id for ns, one in values.index.heads().items()}
            if heads != dict(change.heads):
                raise moved(change.thread_id)
            if values.index.shared and (change.checkpoints or change.blobs):
                raise Unsupported(
                    f"thread '{change.thread_id}' stores the values of its newest checkpoint only",
                    hint="a new checkpoint would overwrite the values of the others",
                )
            if change.writes or change.copies_of_writes:
                raise Unsupported("this layout cannot store writes of the caller")
            for key, writes in (change.removed or {}).items():
                self._remove_checkpoint(values, key, writes, change)
            for _, channel, version in change.removed_blobs:
                self._remove_value(values, change.thread_id, channel, version)
            for one in change.checkpoints:
                self._add(values, one, change.blobs)
            if not change.checkpoints:
                for blob in change.blobs:
                    self._put_back(values, change.thread_id, blob)
            for copy in change.copies:
                self._copy(copy, change.thread_id)
            self._check(change, values)

    def remove(self, removals: Sequence[Removal]) -> list[Removed]:
        self._store.forget()
        with self._database.transaction(exclusive=True):
            return [self._remove(one) for one in removals]

    def restore(self, rows: Iterable[Row]) -> Restored:
        with self._database.transaction(exclusive=True):
            return self._rows.restore(rows, _KEYS)

    def replace(self, thread_id: str, edits: Iterable[RowEdit]) -> None:
        with self._database.holding_changes(), self._database.transaction(thread_id):
            for one in edits:
                if not self._rows.replace(one.stored, one.new):
                    raise moved(thread_id)
        self._store.forget()

    def finish_removal(self) -> str:
        return self._database.finish_removal()

    def vacuum(self) -> None:
        self._database.vacuum([self._tables.names[name] for name in _TABLES])

    def erase_remains(self, *, rewrite: bool = False, progress: Progress = silent) -> Remains:
        from ckpt_backends.sql.write import erase_remains

        tables = [self._tables.names[name] for name in _TABLES]
        return erase_remains(self._database, tables, rewrite=rewrite, progress=progress)

    def close(self) -> None:
        self._database.close()

    def _check(self, change: Change, values: Values) -> None:
        """Raise `StoreChanged` unless the thread now has the state that the change intended."""
        self._store.forget()
        index = self._store.read_keys(change.thread_id).index
        before = values.index.places
        after = (
            len(before) + len(change.checkpoints) + len(change.copies) - len(change.removed or {})
        )
        heads = index.heads()
        is_newest = all(
            heads[one.key.checkpoint_ns].key == one.key or _newer(one.key, before.values())
            for one in change.checkpoints
        )
        if len(index.places) != after or not is_newest:
            raise moved(change.thread_id)

    def _add(self, values: Values, one: Checkpoint, blobs: Sequence[NewBlob]) -> None:
        """Add a checkpoint with the values that its body names: new ones, and copies of others."""
        assert one.body is not None  # noqa: S101
        assert one.parent_checkpoint_id is not None  # noqa: S101
        key, index = one.key, values.index
        parent = index.places.get((key.checkpoint_ns, one.parent_checkpoint_id))
        if parent is None:
            raise gone(CheckpointKey(key.thread_id, key.checkpoint_ns, one.parent_checkpoint_id))
        newest = max(index.places.values(), key=lambda place: place.order)
        now = datetime.now(UTC).replace(microsecond=0)
        time = now if newest.at is None else max(now, newest.at + _APART)
        if newer := _newer(key, index.places.values()):
            # Equal times are ordered by id.
            time = min(newer, key=lambda place: place.order).at or time
        at = like(newest.stored_at, time)
        told = own_hash(key, one.parent_checkpoint_id)
        hashed: object = told if isinstance(parent.stored_hash, str) else bytes.fromhex(told)
        cells: dict[str, object] = {
            "thread_id": key.thread_id,
            "checkpoint_id": key.checkpoint_id,
            "parent_checkpoint_id": one.parent_checkpoint_id,
            "checkpoint_ns": key.checkpoint_ns,
            HASH: hashed,
            CREATED: at,
            MODIFIED: at,
        }
        self._rows.add(CHECKPOINTS, cells)
        new = {(blob.channel, blob.version): blob for blob in blobs}
        named = values.named(parent)
        for channel, version in json.loads(one.body.data)["channel_versions"].items():
            if (channel, version) in new:
                self._insert_value(key, hashed, channel, new[channel, version], at)
            elif channel not in named:
                raise gone(parent.key)
            elif not values.is_pieced(parent, channel):
                self._copy_value(index.by_hash[version], channel, key, hashed, at)

    def _insert_value(
        self, key: CheckpointKey, hashed: object, channel: str, blob: NewBlob, at: object
    ) -> None:
        cells = {
            "thread_id": key.thread_id,
            HASH: hashed,
            "channel": channel,
            "version": 0,
            "type": blob.value.type,
            VALUE: blob.value.data,
            "checkpoint_ns": key.checkpoint_ns,
            CREATED: at,
            MODIFIED: at,
        }
        self._rows.add(BLOBS, cells)

    def _copy_value(
        self, source: CheckpointRow, channel: str, key: CheckpointKey, hashed: object, at: object
    ) -> None:
        """Copy a channel's value byte for byte from one hash to another hash."""
        new = {"thread_id": key.thread_id, HASH: hashed, CREATED: at, MODIFIED: at}
        where = {"thread_id": key.thread_id, HASH: source.stored_hash, "channel": channel}
        if not self._rows.copy(BLOBS, new, where):
            raise gone(source.key)

    def _copy(self, copy: CopyOfCheckpoint, thread_id: str) -> None:
        """Copy a checkpoint with its values and its writes to another thread."""
        source = copy.source
        place = self._store.read_keys(source.thread_id).index.places.get(
            (source.checkpoint_ns, source.checkpoint_id)
        )
        if place is None:
            raise gone(source)
        new = {"thread_id": thread_id}
        values = {"thread_id": source.thread_id, HASH: place.stored_hash}
        by_id = {**values, "checkpoint_id": source.checkpoint_id}
        self._rows.copy(CHECKPOINTS, new, by_id)
        self._rows.copy(WRITES, new, by_id)
        self._rows.copy(BLOBS, new, values)

    def _put_back(self, values: Values, thread_id: str, blob: NewBlob) -> None:
        """Store a missing value again under the hash of its checkpoint."""
        place = values.index.by_hash.get(blob.version)
        if place is None:
            raise StoreChanged(
                f"a checkpoint of thread '{thread_id}' was removed meanwhile; nothing was written",
                hint="run the command again",
            )
        if values.is_pieced(place, blob.channel):
            raise Unsupported(
                f"channel '{blob.channel}' stores only new items, so its value cannot be replaced",
                hint="the saver would take a whole value for new items",
            )
        self._insert_value(place.key, place.stored_hash, blob.channel, blob, place.stored_at)

    def _remove_checkpoint(
        self, values: Values, key: CheckpointKey, writes: int, change: Change
    ) -> None:
        place = values.index.places.get((key.checkpoint_ns, key.checkpoint_id))
        if place is None:
            raise gone(key)
        where = self._at(values, place)
        if self._rows.remove(WRITES, where) != writes:
            raise moved(change.thread_id)
        self._rows.remove(CHECKPOINTS, where)
        if place.hash not in values.index.shared:
            self._rows.remove(BLOBS, {"thread_id": key.thread_id, HASH: place.stored_hash})

    def _remove_value(self, values: Values, thread_id: str, channel: str, version: str) -> int:
        place = values.index.by_hash.get(version)
        hashed: object = values.orphaned.get(version) if place is None else place.stored_hash
        if hashed is None:
            return 0
        where = {"thread_id": thread_id, HASH: hashed, "channel": channel}
        return self._rows.remove(BLOBS, where)

    def _remove(self, removal: Removal) -> Removed:
        name = removal.thread_id
        if not self._database.storable(name):
            return Removed(name, skipped=GONE if removal.checkpoints else "")
        thread, size = self._store.thread(name), self._store.size(name)
        last_at = None if thread is None else thread.last_at
        if reason := removal.reason_to_skip(last_at, size.checkpoints, size.writes):
            return Removed(name, skipped=reason)
        if removal.inside is not None:
            return Removed(name, self._remove_inside(name, removal.inside))
        rows = {table: self._rows.remove(table, {"thread_id": name}) for table in _TABLES}
        self._store.forget()
        return Removed(name, rows)

    def _remove_inside(self, thread_id: str, inside: Inside) -> Mapping[str, int]:
        values = self._store.read_keys(thread_id)
        rows = dict.fromkeys(_TABLES, 0)
        for blob in inside.blobs:
            rows[BLOBS] += self._remove_value(values, thread_id, blob.channel, blob.version)
        for ns, ids in inside.checkpoints.items():
            for checkpoint_id in ids:
                place = values.index.places.get((ns, checkpoint_id))
                # Orphaned writes have no checkpoint.
                by_id = {"thread_id": thread_id, "checkpoint_id": checkpoint_id}
                where = by_id if place is None else self._at(values, place)
                for table in (WRITES, CHECKPOINTS):
                    rows[table] += self._rows.remove(table, where)
        self._store.forget()
        return rows

    def _at(self, values: Values, place: CheckpointRow) -> dict[str, object]:
        """The cells that select a checkpoint's rows.

        They include the hash if several checkpoints of the thread have the same id.
        """
        key = place.key
        where: dict[str, object] = {"thread_id": key.thread_id, "checkpoint_id": key.checkpoint_id}
        if len(values.index.by_id[key.checkpoint_id]) > 1:
            where[HASH] = place.stored_hash
        return where


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
