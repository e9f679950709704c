"""Changes LangGraph's PostgreSQL layout, with one transaction for each change.

An advisory lock prevents two changes of the same thread at the same time. Savers do not take that
lock, so just before the commit the transaction checks that no saver has added a checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ckpt_backends import shell
from ckpt_backends.base import BaseWritableStore
from ckpt_backends.changes.change import Change, CopyOfCheckpoint, gone, moved
from ckpt_backends.changes.removal import Removal, Removed
from ckpt_backends.changes.rows import Restored, Row
from ckpt_backends.errors import UnknownLayout, Unsupported
from ckpt_backends.model import CheckpointKey
from ckpt_backends.postgres import sql as read
from ckpt_backends.postgres import sql_write as sql
from ckpt_backends.postgres.changing import lock_number
from ckpt_backends.postgres.connect import PostgresConnection, explained
from ckpt_backends.postgres.database import DatabaseWriter
from ckpt_backends.postgres.layout import PostgresLayout
from ckpt_backends.postgres.removing import remove_threads
from ckpt_backends.postgres.restoring import restore_rows
from ckpt_backends.servers.answer_types import CHANGES, checked
from ckpt_backends.sql.blob_tables import (
    BLOBS,
    CHECKPOINTS,
    WRITES,
    cells_of_checkpoint,
    cells_of_value,
)
from ckpt_backends.url import StoreUrl


@checked(*CHANGES)
class WritablePostgresStore(DatabaseWriter, BaseWritableStore):
    """A PostgreSQL database, opened for changing."""

    def __init__(
        self, connection: PostgresConnection, url: StoreUrl, layout: PostgresLayout
    ) -> None:
        super().__init__(connection, url)
        if layout.unknown:
            raise UnknownLayout(
                f"'{url}' was written by a saver that ckpt does not know, so ckpt only reads it",
                hint=f"unknown columns: {', '.join(map(shell.word, layout.unknown))}",
            )
        self._layout = layout
        rows = layout.checkpoints.sql
        names = {
            "checkpoints": rows,
            "blobs": layout.blobs.sql,
            "writes": layout.writes.sql,
            "heads": read.SHALLOW.format(checkpoints=rows) if layout.shallow else rows,
            "own_id": "c.checkpoint ->> 'id'" if layout.shallow else "c.checkpoint_id",
            "tables": f"{layout.blobs.sql}, {rows}, {layout.writes.sql}",
        }
        self._names = {
            # In a query with parameters, `%` must be written as `%%`.
            **{name: text.replace("%", "%%") for name, text in names.items()},
            "type": ", type" if "type" in layout.checkpoints.columns else "",
            "path": ", task_path" if layout.task_path else "",
        }

    def apply(self, change: Change) -> None:
        if self._layout.shallow:
            raise Unsupported(f"'{self._url}' keeps no history, so no checkpoint can be added")
        with self._transaction() as connection:
            connection.change(sql.LOCK, {"number": lock_number(change.thread_id)})
            heads = self._heads(change.thread_id)
            if {ns: head for ns, (head, _) in heads.items()} != dict(change.heads):
                raise moved(change)
            self._remove(change)
            for one in change.checkpoints:
                self._run(sql.ADD_CHECKPOINT, **_at(one.key), **cells_of_checkpoint(one))
            for blob in change.blobs:
                self._run(
                    sql.ADD_BLOB,
                    thread=change.thread_id,
                    ns=blob.checkpoint_ns,
                    channel=blob.channel,
                    version=blob.version,
                    **cells_of_value(blob.value),
                )
            if change.copies:
                self._copy(change.thread_id, change.copies)
            for write in change.writes:
                task = {"task": write.task_id, "idx": write.idx, "channel": write.channel}
                self._run(sql.ADD_WRITE, **_at(write.key), **task, **cells_of_value(write.value))
            for copy in change.copies_of_writes:
                places = [(copy.source, copy.target, *task) for task in copy.tasks]
                self._copy_writes(copy.source.thread_id, copy.target.thread_id, places)
            number = sum(count for _, count in heads.values())
            number += len(change.checkpoints) + len(change.copies) - len(change.removed or {})
            if sum(count for _, count in self._heads(change.thread_id).values()) != number:
                raise moved(change)

    def remove(self, removals: Sequence[Removal]) -> list[Removed]:
        with self._transaction() as connection:
            return remove_threads(connection, self._names, removals)

    def restore(self, rows: Iterable[Row]) -> Restored:
        tables = {
            BLOBS: self._layout.blobs,
            WRITES: self._layout.writes,
            CHECKPOINTS: self._layout.checkpoints,
        }
        with self._transaction() as connection:
            return restore_rows(connection, tables, rows)

    def vacuum(self) -> None:
        with explained(self._url):
            for table in self._layout.tables:
                self._connection.alone(f"VACUUM (ANALYZE) {table.sql}")

    def _heads(self, thread_id: str) -> dict[str, tuple[str, int]]:
        """By namespace, the id of the newest checkpoint and the number of checkpoints."""
        rows = self._connection.rows(sql.HEADS.format(**self._names), {"thread": thread_id})
        return {ns: (head, number) for ns, head, number in rows}

    def _remove(self, change: Change) -> None:
        for key, writes in (change.removed or {}).items():
            if self._run(sql.REMOVE_WRITES, **_at(key)) != writes:
                raise moved(change)
            _expect(self._run(sql.REMOVE_CHECKPOINT, **_at(key)) == 1, key)
        for ns, channel, version in change.removed_blobs:
            where = {"ns": ns, "channel": channel, "version": version}
            self._run(sql.REMOVE_BLOB, thread=change.thread_id, **where)
        if change.removed:
            self._run(sql.REMOVE_BLOBS_OF_NOBODY, thread=change.thread_id)

    def _copy(self, thread_id: str, copies: Sequence[CopyOfCheckpoint]) -> None:
        """Copy checkpoints of another thread with the values that they name and their writes.

        All checkpoints must be of the same thread.
        """
        source = copies[0].source
        bound = {
            "thread": source.thread_id,
            "new": thread_id,
            "ns": [one.source.checkpoint_ns for one in copies],
            "id": [one.source.checkpoint_id for one in copies],
        }
        metadata = [None if one.metadata is None else one.metadata.data.decode() for one in copies]
        body = [None if one.body is None else one.body.data.decode() for one in copies]
        number = self._run(sql.COPY_CHECKPOINTS, **bound, metadata=metadata, body=body)
        _expect(number == len(copies), source)
        self._run(sql.COPY_BLOBS, **bound)
        whole = [one.source for one in copies if one.writes is None]
        bound["ns"] = [key.checkpoint_ns for key in whole]
        bound["id"] = [key.checkpoint_id for key in whole]
        self._run(sql.COPY_WRITES, **bound)
        some = [
            (one.source, one.source, *task)
            for one in copies
            if one.writes is not None
            for task in one.writes
        ]
        self._copy_writes(source.thread_id, thread_id, some)

    def _copy_writes(
        self,
        thread_id: str,
        new_id: str,
        places: Sequence[tuple[CheckpointKey, CheckpointKey, str, int]],
    ) -> None:
        """Copy single writes, each given as (source, target, task id, idx)."""
        number = self._run(
            sql.COPY_SOME_WRITES,
            thread=thread_id,
            new=new_id,
            ns=[source.checkpoint_ns for source, *_ in places],
            id=[source.checkpoint_id for source, *_ in places],
            new_id=[target.checkpoint_id for _, target, *_ in places],
            task=[task for *_, task, _ in places],
            idx=[idx for *_, idx in places],
        )
        _expect(number == len(places), places[0][0] if places else None)

    def _run(self, query: str, **bound: object) -> int:
        return self._connection.change(query.format(**self._names), bound)


def _at(key: CheckpointKey) -> dict[str, str]:
    return {"thread": key.thread_id, "ns": key.checkpoint_ns, "id": key.checkpoint_id}


def _expect(holds: bool, key: CheckpointKey | None) -> None:
    if not holds and key is not None:
        raise gone(key)
