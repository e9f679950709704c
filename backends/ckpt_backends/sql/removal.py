"""Removes threads, or parts of threads, from the tables of a saver, inside a transaction.

A saver stores a checkpoint without checking that the values it names still exist. So no saver may
write to a thread between the check of the thread and its removal: `transaction(exclusive=True)` and
`lock_rows` of the engine prevent that. The tables are locked in the order of the saver's `put`, to
avoid deadlocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ckpt_backends.changes.removal import Inside, Removal, Removed
from ckpt_backends.checkpoint_ids import time_of
from ckpt_backends.chunks import in_chunks
from ckpt_backends.sql.database import WritableDatabase, text
from ckpt_backends.sql.queries import SqlTables
from ckpt_backends.sql.row_changes import RowChanges

_NONE = (0, "")
"""The state of a thread without rows in a table."""
_Place = tuple[str, Mapping[str, str], Sequence[str]]
"""A namespace, the rest of a condition, and the cells of which a row must have one."""


def remove_threads(
    database: WritableDatabase, rows: RowChanges, tables: SqlTables, removals: Sequence[Removal]
) -> list[Removed]:
    """Remove the planned rows of each thread that has not changed."""
    remover = _Remover(database, rows, tables)
    return [one for chunk in in_chunks(removals) for one in remover.remove(chunk)]


class _Remover:
    """Removes rows of threads from the tables of a saver."""

    def __init__(self, database: WritableDatabase, rows: RowChanges, tables: SqlTables) -> None:
        self._database = database
        self._rows = rows
        self._tables = tables
        self._checkpoints, self._writes = tables.checkpoints.name, tables.writes.name
        self._blobs = tables.blobs.name if tables.blobs else ""
        blobs = [self._blobs] if tables.blobs else []
        self._to_lock = (*blobs, self._checkpoints, self._writes)
        self._to_remove = (self._writes, *blobs, self._checkpoints)

    def remove(self, removals: Sequence[Removal]) -> Iterator[Removed]:
        """Remove some threads, or parts of them."""
        ids = [one.thread_id for one in removals if self._database.storable(one.thread_id)]
        states = {table: self._states(table, ids) for table in self._to_lock}
        whole = []
        for one in removals:
            found = {table: states[table].get(one.thread_id, _NONE) for table in self._to_remove}
            checkpoints, newest = found[self._checkpoints]
            writes, _ = found[self._writes]
            if reason := one.reason_to_skip(time_of(newest), checkpoints, writes):
                yield Removed(one.thread_id, skipped=reason)
            elif one.inside is not None:
                yield Removed(one.thread_id, self._remove_inside(one.thread_id, one.inside))
            else:
                counts = {table: number for table, (number, _) in found.items()}
                if any(counts.values()):
                    whole.append(one.thread_id)
                yield Removed(one.thread_id, counts)
        for table in self._to_remove if whole else ():
            self._rows.remove(table, {"thread_id": whole})

    def _states(self, table: str, thread_ids: list[str]) -> dict[str, tuple[int, str]]:
        """By thread, its number of rows and its newest checkpoint. Locks these rows."""
        if not thread_ids:
            return {}
        exact, is_head = self._database.exact, table == self._checkpoints
        newest = f"max({exact(self._tables.own_id)})" if is_head else "NULL"
        found = self._rows.select(
            table,
            f"{exact('thread_id')} AS thread, count(*), {newest}",
            {"thread_id": thread_ids},
            f"GROUP BY thread {self._database.lock_rows}",
        )
        return {text(thread): (number, text(last)) for thread, number, last in found}

    def _remove_inside(self, thread_id: str, inside: Inside) -> Mapping[str, int]:
        """Remove some checkpoints of a thread with their writes, and some values."""
        tables, storable = self._tables, self._database.storable
        removed = dict.fromkeys(self._to_remove, 0)
        versions: dict[tuple[str, str], list[str]] = {}
        for blob in inside.blobs:
            versions.setdefault((blob.checkpoint_ns, blob.channel), []).append(blob.version)
        by_ns: list[_Place] = [(ns, {}, ids) for ns, ids in inside.checkpoints.items()]
        by_channel: list[_Place] = [
            (ns, {"channel": channel}, some) for (ns, channel), some in versions.items()
        ]
        for table, column, places in (
            (self._writes, "checkpoint_id", by_ns),
            (self._blobs, "version", by_channel),
            (self._checkpoints, tables.own_id, by_ns),
        ):
            for ns, channel, wanted in places:
                if all(map(storable, (ns, *channel.values()))):
                    where = {"thread_id": thread_id, **tables.namespace(ns), **channel}
                    for chunk in in_chunks(filter(storable, wanted)):
                        removed[table] += self._rows.remove(table, {**where, column: chunk})
        return removed
