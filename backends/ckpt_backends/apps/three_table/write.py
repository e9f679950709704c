"""Changes the three-table layout on any engine.

Each change is one transaction. A thread is changed by one transaction at a time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta

from ckpt_backends import shell
from ckpt_backends.apps.three_table.cells import like
from ckpt_backends.apps.three_table.database import WritableDatabase
from ckpt_backends.apps.three_table.index import CheckpointRow, Values
from ckpt_backends.apps.three_table.layout import (
    CREATED,
    HASH,
    MODIFIED,
    NEEDED,
    SURROGATE,
    VALUE,
    ThreeTables,
    detect,
)
from ckpt_backends.apps.three_table.read import ThreeTableStore, own_hash
from ckpt_backends.base import BaseWritableStore
from ckpt_backends.changes.change import Change, CopyOfCheckpoint, NewBlob, gone, moved
from ckpt_backends.changes.removal import GONE, MOVED, Inside, Removal, Removed
from ckpt_backends.changes.rows import Restored, Row, conflict
from ckpt_backends.errors import StoreChanged, UnknownLayout, Unsupported
from ckpt_backends.model import Checkpoint, CheckpointKey
from ckpt_backends.protocol import WritableStore
from ckpt_backends.servers.answer_types import CHANGES, checked
from ckpt_backends.sql.blob_tables import BLOBS, CHECKPOINTS, WRITES
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

    def apply(self, change: Change) -> None:
        with self._transaction(change.thread_id):
            values = self._store.read_keys(change.thread_id)
            heads = {ns: one.key.checkpoint_id for ns, one in values.index.heads().items()}
            if heads != dict(change.heads):
                raise moved(change)
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
            self._check(change, len(values.index.places))

    def remove(self, removals: Sequence[Removal]) -> list[Removed]:
        with self._transaction(None):
            return [self._remove(one) for one in removals]

    def restore(self, rows: Iterable[Row]) -> Restored:
        added = there = 0
        with self._transaction(None):
            for row in rows:
                if self._restore(row):
                    added += 1
                else:
                    there += 1
        return Restored(added, there)

    def finish_removal(self) -> str:
        return self._database.finish_removal()

    def vacuum(self) -> None:
        self._database.vacuum([self._tables.names[name] for name in _TABLES])

    def close(self) -> None:
        self._database.close()

    def _transaction(self, thread_id: str | None) -> AbstractContextManager[None]:
        self._store.forget()
        return self._database.transaction(thread_id)

    def _check(self, change: Change, before: int) -> None:
        """Raise `StoreChanged` unless the thread now has the state that the change intended."""
        self._store.forget()
        index = self._store.read_keys(change.thread_id).index
        after = before + len(change.checkpoints) + len(change.copies) - len(change.removed or {})
        heads = index.heads()
        is_newest = all(heads[one.key.checkpoint_ns].key == one.key for one in change.checkpoints)
        if len(index.places) != after or not is_newest:
            raise moved(change)

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
        at = like(newest.stored_at, now if newest.at is None else max(now, newest.at + _APART))
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
        self._insert(CHECKPOINTS, cells)
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
        self._insert(BLOBS, cells)

    def _copy_value(
        self, source: CheckpointRow, channel: str, key: CheckpointKey, hashed: object, at: object
    ) -> None:
        """Copy a channel's value byte for byte from one hash to another hash."""
        new = {"thread_id": key.thread_id, HASH: hashed, CREATED: at, MODIFIED: at}
        where = f"{self._same('thread_id', 'of')} AND {self._hash('from', source.stored_hash)}"
        where += f" AND {self._same('channel', 'channel')}"
        bound = {"of": key.thread_id, "from": source.stored_hash, "channel": channel}
        if not self._copy_rows(BLOBS, new, where, bound):
            raise gone(source.key)

    def _copy(self, copy: CopyOfCheckpoint, thread_id: str) -> None:
        """Copy a checkpoint with its values and its writes to another thread."""
        source = copy.source
        place = self._store.read_keys(source.thread_id).index.places.get(
            (source.checkpoint_ns, source.checkpoint_id)
        )
        if place is None:
            raise gone(source)
        thread = self._same("thread_id", "of")
        by_id = f"{thread} AND {self._same('checkpoint_id', 'id')}"
        bound = {"of": source.thread_id, "id": source.checkpoint_id, "from": place.stored_hash}
        new: dict[str, object] = {"thread_id": thread_id}
        hashed = self._hash("from", place.stored_hash)
        self._copy_rows(CHECKPOINTS, new, f"{by_id} AND {hashed}", bound)
        self._copy_rows(WRITES, new, f"{by_id} AND {hashed}", bound)
        where = f"{thread} AND {hashed}"
        self._copy_rows(BLOBS, new, where, {"of": source.thread_id, "from": place.stored_hash})

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
        where, bound = self._at(values, place)
        if self._delete(WRITES, where, bound) != writes:
            raise moved(change)
        self._delete(CHECKPOINTS, where, bound)
        if place.hash not in values.index.shared:
            self._delete_hash(key.thread_id, place.stored_hash)

    def _remove_value(self, values: Values, thread_id: str, channel: str, version: str) -> int:
        place = values.index.by_hash.get(version)
        hashed: object = values.orphaned.get(version) if place is None else place.stored_hash
        if hashed is None:
            return 0
        where = f"{self._same('thread_id', 'of')} AND {self._hash('from', hashed)}"
        where += f" AND {self._same('channel', 'channel')}"
        bound = {"of": thread_id, "from": hashed, "channel": channel}
        return self._delete(BLOBS, where, bound)

    def _delete_hash(self, thread_id: str, hashed: object) -> int:
        where = f"{self._same('thread_id', 'of')} AND {self._hash('from', hashed)}"
        return self._delete(BLOBS, where, {"of": thread_id, "from": hashed})

    def _remove(self, removal: Removal) -> Removed:
        name = removal.thread_id
        if not self._database.storable(name):
            return Removed(name, skipped=GONE if removal.checkpoints else "")
        thread, size = self._store.thread(name), self._store.size(name)
        if removal.checkpoints and thread is None:
            return Removed(name, skipped=GONE)
        state = None if thread is None else thread.last_at, size.checkpoints, size.writes
        if state != (removal.last_at, removal.checkpoints, removal.writes):
            return Removed(name, skipped=MOVED)
        if removal.inside is not None:
            return Removed(name, self._remove_inside(name, removal.inside))
        where = self._same("thread_id", "of")
        rows = {table: self._delete(table, where, {"of": name}) for table in _TABLES}
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
                if place is not None:
                    where, bound = self._at(values, place)
                else:  # Orphaned writes: they have no checkpoint.
                    where = (
                        f"{self._same('thread_id', 'of')} AND {self._same('checkpoint_id', 'id')}"
                    )
                    bound = {"of": thread_id, "id": checkpoint_id}
                for table in (WRITES, CHECKPOINTS):
                    rows[table] += self._delete(table, where, bound)
        self._store.forget()
        return rows

    def _at(self, values: Values, place: CheckpointRow) -> tuple[str, dict[str, object]]:
        """The condition that selects a checkpoint's rows, and its parameters.

        It includes the hash if several checkpoints of the thread have the same id.
        """
        where = f"{self._same('thread_id', 'of')} AND {self._same('checkpoint_id', 'id')}"
        bound: dict[str, object] = {"of": place.key.thread_id, "id": place.key.checkpoint_id}
        if len(values.index.by_id[place.key.checkpoint_id]) > 1:
            return f"{where} AND {self._hash('from', place.stored_hash)}", {
                **bound,
                "from": place.stored_hash,
            }
        return where, bound

    def _restore(self, row: Row) -> bool:
        """Add a row unless it exists. Returns whether it was added.

        Raises `StoreChanged` if it exists with different contents, and `Unsupported` if the table
        lacks one of its columns.
        """
        columns = self._tables.columns.get(row.table, frozenset())
        missing = row.cells.keys() - columns
        if missing:
            raise Unsupported(f"table '{row.table}' has no column '{min(missing)}' here")
        table, database = self._tables.names[row.table], self._database
        cells = {f"v{n}": cell for n, cell in enumerate(row.cells.values())}
        names = dict(zip(row.cells, cells, strict=True))
        bound = {name: self._bind(cell) for name, cell in cells.items()}

        def found(wanted: Iterable[str]) -> bool:
            same = " AND ".join(
                database.is_given(row.table, column, names[column], row.cells[column])
                for column in wanted
            )
            return bool(database.rows(f"SELECT 1 FROM {table} WHERE {same} LIMIT 1", bound))

        if found(row.cells):
            return False
        if found(sorted(_KEYS[row.table] & row.cells.keys())):
            raise conflict(row.table)
        listed = ", ".join(map(database.quoted, row.cells))
        marks = ", ".join(
            database.given(row.table, column, names[column], cell)
            for column, cell in row.cells.items()
        )
        database.change(f"INSERT INTO {table} ({listed}) VALUES ({marks})", bound)
        return True

    def _insert(self, table: str, cells: Mapping[str, object]) -> None:
        """Add a row; cells without a column are left out."""
        kept = {name: cell for name, cell in cells.items() if self._tables.has(table, name)}
        marks = ", ".join(self._mark(name, cell) for name, cell in kept.items())
        listed = ", ".join(map(self._database.quoted, kept))
        query = f"INSERT INTO {self._tables.names[table]} ({listed}) VALUES ({marks})"
        self._database.change(query, {name: self._bind(cell) for name, cell in kept.items()})

    def _copy_rows(
        self, table: str, new: Mapping[str, object], where: str, bound: Mapping[str, object]
    ) -> int:
        """Copy rows with some cells changed. Returns the number of copied rows."""
        columns = sorted(self._tables.columns[table] - {SURROGATE})
        quoted = self._database.quoted
        selected = ", ".join(
            self._mark(f"new_{name}", new[name]) if name in new else quoted(name)
            for name in columns
        )
        name = self._tables.names[table]
        listed = ", ".join(map(quoted, columns))
        given = {f"new_{name}": cell for name, cell in new.items() if name in columns}
        values = {name: self._bind(cell) for name, cell in {**bound, **given}.items()}
        query = f"INSERT INTO {name} ({listed}) SELECT {selected} FROM {name} WHERE {where}"
        return self._database.change(query, values)

    def _delete(self, table: str, where: str, bound: Mapping[str, object]) -> int:
        query = f"DELETE FROM {self._tables.names[table]} WHERE {where}"
        values = {name: self._bind(cell) for name, cell in bound.items()}
        return self._database.change(query, values)

    def _same(self, column: str, name: str) -> str:
        return self._database.same(column, name)

    def _hash(self, name: str, stored: object) -> str:
        """The condition that a row has a hash; `stored` is the hash as stored."""
        return f"{HASH} = {self._mark(name, stored)}"

    def _mark(self, name: str, cell: object) -> str:
        return self._database.text(name) if isinstance(cell, str) else self._database.mark(name)

    def _bind(self, cell: object) -> object:
        return self._database.bound(cell) if isinstance(cell, str) else cell


_KEYS = {
    CHECKPOINTS: frozenset({"thread_id", "checkpoint_id", HASH}),
    BLOBS: NEEDED[BLOBS] - {"type", VALUE},
    WRITES: NEEDED[WRITES] - {"type", VALUE, "channel"},
}
"""By table, the columns that identify a row."""
