"""Changes LangGraph's SQLite layout, with one write transaction for each change.

`BEGIN IMMEDIATE` takes SQLite's write lock, so the checked rows cannot change before the writes.
Columns are always named, because their order differs between savers.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence, Set

from ckpt_backends.base import BaseWritableStore
from ckpt_backends.changes.change import Change, CopyOfCheckpoint, gone, moved
from ckpt_backends.changes.removal import Removal, Removed
from ckpt_backends.changes.rows import Restored, Row
from ckpt_backends.errors import UnknownLayout
from ckpt_backends.model import Checkpoint, CheckpointKey, Write
from ckpt_backends.sqlite.binding import TEXT, bind
from ckpt_backends.sqlite.file import FileWriter
from ckpt_backends.sqlite.layout import detect
from ckpt_backends.sqlite.removing import remove_threads
from ckpt_backends.sqlite.restoring import restore_rows
from ckpt_backends.url import StoreUrl

_KEY = f"thread_id = {TEXT} AND checkpoint_ns = {TEXT} AND checkpoint_id = {TEXT}"


class WritableSqliteStore(FileWriter, BaseWritableStore):
    """A SQLite file, opened for changing."""

    def __init__(
        self, connection: sqlite3.Connection, url: StoreUrl, tables: Mapping[str, Set[str]]
    ) -> None:
        super().__init__(connection, url)
        self._layout = detect(tables, str(url), url.params.get("layout"))
        if self._layout.unknown:
            raise UnknownLayout(
                f"cannot write to '{url}': it was written by an unknown saver, maybe a newer one",
                hint=f"unknown columns: {', '.join(self._layout.unknown)}",
            )

    def apply(self, change: Change) -> None:
        with self._errors(), self._transaction() as connection:
            _check(connection, change)
            _remove(connection, change)
            self._has_removed |= bool(change.removed)
            for one in change.checkpoints:
                _insert_checkpoint(connection, one)
            for copy in change.copies:
                self._copy(connection, copy, change.thread_id)
            for write in change.writes:
                _insert_write(connection, write)
            for writes in change.copies_of_writes:
                target = [writes.target.thread_id, writes.target.checkpoint_ns]
                for task in writes.tasks:
                    self._copy_write(
                        connection, writes.source, [*target, writes.target.checkpoint_id], task
                    )

    def remove(self, removals: Sequence[Removal]) -> list[Removed]:
        with self._errors(), self._transaction() as connection:
            self._has_removed = True
            return remove_threads(connection, removals)

    def restore(self, rows: Iterable[Row]) -> Restored:
        with self._errors(), self._transaction() as connection:
            return restore_rows(connection, rows)

    def vacuum(self) -> None:
        with self._errors():
            self._has_removed = True
            self._alive().execute("VACUUM")

    def _copy(self, connection: sqlite3.Connection, copy: CopyOfCheckpoint, thread: str) -> None:
        metadata = None if copy.metadata is None else copy.metadata.data
        body = None if copy.body is None else copy.body.data
        done = connection.execute(
            "INSERT INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id,"
            " parent_checkpoint_id, type, checkpoint, metadata)"
            f" SELECT {TEXT}, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type,"
            f" coalesce(?, checkpoint), coalesce(?, metadata) FROM checkpoints WHERE {_KEY}",
            [bind(thread), body, metadata, *_bound(copy.source)],
        )
        _expect(done.rowcount == 1, copy.source)
        target = [thread, copy.source.checkpoint_ns, copy.source.checkpoint_id]
        for task in [None] if copy.writes is None else copy.writes:
            self._copy_write(connection, copy.source, target, task)

    def _copy_write(
        self,
        connection: sqlite3.Connection,
        source: CheckpointKey,
        target: list[str],
        task: tuple[str, int] | None,
    ) -> None:
        """Copy one write of a checkpoint to another one; all writes if `task` is None."""
        path = ", task_path" if self._layout.task_path else ""
        one = "" if task is None else f" AND task_id = {TEXT} AND idx = ?"
        bound = [] if task is None else [bind(task[0]), task[1]]
        done = connection.execute(
            f"INSERT INTO writes (thread_id, checkpoint_ns, checkpoint_id, task_id{path}, idx,"
            f" channel, type, value) SELECT {TEXT}, {TEXT}, {TEXT}, task_id{path}, idx, channel,"
            f" type, value FROM writes WHERE {_KEY}{one}",
            [*map(bind, target), *_bound(source), *bound],
        )
        _expect(task is None or done.rowcount == 1, source)


def _check(connection: sqlite3.Connection, change: Change) -> None:
    """Raise `StoreChanged` if the thread changed since the change was planned."""
    rows = connection.execute(
        "SELECT checkpoint_ns, max(checkpoint_id) FROM checkpoints"
        f" WHERE thread_id = {TEXT} GROUP BY checkpoint_ns",
        [bind(change.thread_id)],
    )
    if dict(rows.fetchall()) != dict(change.heads):
        raise moved(change)
    for key, expected in (change.removed or {}).items():
        ((found,),) = connection.execute(
            f"SELECT count(*) FROM writes WHERE {_KEY}", _bound(key)
        ).fetchall()
        if found != expected:
            raise moved(change)


def _remove(connection: sqlite3.Connection, change: Change) -> None:
    for key in change.removed or {}:
        connection.execute(f"DELETE FROM writes WHERE {_KEY}", _bound(key))
        done = connection.execute(f"DELETE FROM checkpoints WHERE {_KEY}", _bound(key))
        _expect(done.rowcount == 1, key)


def _insert_checkpoint(connection: sqlite3.Connection, one: Checkpoint) -> None:
    assert one.body is not None  # noqa: S101
    assert one.metadata is not None  # noqa: S101
    parent = one.parent_checkpoint_id
    connection.execute(
        "INSERT INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id,"
        f" type, checkpoint, metadata) VALUES ({TEXT}, {TEXT}, {TEXT}, {TEXT}, ?, ?, ?)",
        [
            *_bound(one.key),
            None if parent is None else bind(parent),
            one.body.type,
            one.body.data,
            one.metadata.data,
        ],
    )


def _insert_write(connection: sqlite3.Connection, write: Write) -> None:
    assert write.value is not None  # noqa: S101
    connection.execute(
        "INSERT INTO writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, type,"
        f" value) VALUES ({TEXT}, {TEXT}, {TEXT}, ?, ?, {TEXT}, ?, ?)",
        [
            *_bound(write.key),
            write.task_id,
            write.idx,
            bind(write.channel),
            write.value.type,
            write.value.data,
        ],
    )


def _bound(key: CheckpointKey) -> list[bytes]:
    return [bind(key.thread_id), bind(key.checkpoint_ns), bind(key.checkpoint_id)]


def _expect(holds: bool, key: CheckpointKey) -> None:
    if not holds:
        raise gone(key)
