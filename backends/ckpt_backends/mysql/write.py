"""Changes LangGraph's layout on MySQL and MariaDB, with one transaction for each change.

A named lock prevents two changes of the same thread at the same time. Savers do not take that lock,
so just before the commit the transaction checks that no saver has added a checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from ckpt_backends import shell
from ckpt_backends.base import BaseWritableStore
from ckpt_backends.changes.change import Change, CopyOfCheckpoint, gone, moved
from ckpt_backends.changes.removal import Removal, Removed
from ckpt_backends.changes.rows import Restored, Row
from ckpt_backends.errors import StoreUnavailable, UnknownLayout, Unsupported
from ckpt_backends.model import CheckpointKey
from ckpt_backends.mysql import sql_write as sql
from ckpt_backends.mysql.changing import lock, transaction
from ckpt_backends.mysql.connect import MySQLConnection, explained
from ckpt_backends.mysql.layout import HASH, MySQLLayout, bound
from ckpt_backends.mysql.removing import remove_threads
from ckpt_backends.mysql.restoring import restore_rows
from ckpt_backends.mysql.sql import exact
from ckpt_backends.servers.answer_types import CHANGES, checked
from ckpt_backends.sql.blob_tables import cells_of_checkpoint, cells_of_value
from ckpt_backends.url import StoreUrl


@checked(*CHANGES)
class WritableMySQLStore(BaseWritableStore):
    """A MySQL or MariaDB database, opened for changing."""

    def __init__(self, connection: MySQLConnection, url: StoreUrl, layout: MySQLLayout) -> None:
        self._url = url
        self._open: MySQLConnection | None = connection
        self._layout = layout
        if layout.unknown:
            raise UnknownLayout(
                f"'{url}' was written by a saver that ckpt does not know, so ckpt only reads it",
                hint=f"unknown: {', '.join(map(shell.word, layout.unknown))}",
            )
        if not layout.hashed:
            raise Unsupported(
                f"'{url}' was written by a saver older than 2.0.10, so ckpt only reads it",
                hint="run setup() of langgraph-checkpoint-mysql 3.0 once",
            )
        is_computed = layout.checkpoints.columns[HASH].generated
        self._mark = bound("%(thread)s", layout.checkpoints.columns["thread_id"])
        self._names = {
            "checkpoints": layout.checkpoints.sql,
            "blobs": layout.blobs.sql,
            "writes": layout.writes.sql,
            "ns": layout.ns,
            "hash": "" if is_computed else f", {HASH}",
            "hash_value": "" if is_computed else ", %(ns_key)s",
            "thread": f"c.thread_id = {self._mark} AND {exact('c.thread_id')} = %(exact)s",
            "type": ", type" if "type" in layout.checkpoints.columns else "",
            "path": ", task_path" if layout.task_path else "",
        }

    def apply(self, change: Change) -> None:
        if self._layout.shallow:
            raise Unsupported(f"'{self._url}' keeps no history, so no checkpoint can be added")
        with self._lock(change.thread_id), self._transaction():
            heads = self._heads(change.thread_id)
            if {ns: head for ns, (head, _) in heads.items()} != dict(change.heads):
                raise moved(change)
            if change.checkpoints or change.copies:
                self._refuse_rival(change.thread_id)
            self._remove(change)
            for one in change.checkpoints:
                self._run(sql.ADD_CHECKPOINT, **self._at(one.key), **cells_of_checkpoint(one))
            for blob in change.blobs:
                place = CheckpointKey(change.thread_id, blob.checkpoint_ns, "")
                named = {"channel": blob.channel, "version": blob.version}
                self._run(sql.ADD_BLOB, **self._at(place), **named, **cells_of_value(blob.value))
            if change.copies:
                self._copy(change.thread_id, change.copies)
            for write in change.writes:
                task = {"task": write.task_id, "idx": write.idx, "channel": write.channel}
                self._run(
                    sql.ADD_WRITE, **self._at(write.key), **task, **cells_of_value(write.value)
                )
            for copy in change.copies_of_writes:
                self._copy_writes(copy.source, copy.target, copy.tasks)
            number = sum(count for _, count in heads.values())
            number += len(change.checkpoints) + len(change.copies) - len(change.removed or {})
            if sum(count for _, count in self._heads(change.thread_id).values()) != number:
                raise moved(change)

    def remove(self, removals: Sequence[Removal]) -> list[Removed]:
        with self._transaction() as connection:
            connection.alone(sql.REPEATABLE)
            return remove_threads(connection, self._layout, removals)

    def restore(self, rows: Iterable[Row]) -> Restored:
        with self._transaction() as connection:
            return restore_rows(connection, self._layout, self._without_rival(rows))

    def vacuum(self) -> None:
        with explained(self._url):
            for table in self._layout.tables:
                for _, _, kind, text in self._connection.alone(f"OPTIMIZE TABLE {table.sql}"):
                    if str(kind).lower() == "error":
                        raise StoreUnavailable(f"cannot vacuum '{self._url}': {text}")

    def _without_rival(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The same rows. Raises `Unsupported` if the saver would mix them with another thread."""
        known: set[str] = set()
        for row in rows:
            thread_id = str(row.cells.get("thread_id"))
            if thread_id not in known:
                known.add(thread_id)
                self._refuse_rival(thread_id)
            yield row

    def _refuse_rival(self, thread_id: str) -> None:
        """Raise `Unsupported` if another thread's id is equal in the collation.

        The saver would mix up the new rows with those of that thread.
        """
        query = sql.RIVAL.format(**self._names, mark=self._mark)
        for (other,) in self._connection.rows(query, self._at(CheckpointKey(thread_id, "", ""))):
            raise Unsupported(
                f"the saver cannot tell thread '{thread_id}' from '{other.decode()}'",
                hint=f"both ids are equal in the collation {self._layout.merging or 'in use'}",
            )

    def _heads(self, thread_id: str) -> dict[str, tuple[str, int]]:
        """By namespace, the id of the newest checkpoint and the number of checkpoints."""
        query = sql.HEADS.format(**self._names)
        rows = self._connection.rows(query, self._at(CheckpointKey(thread_id, "", "")))
        return {ns.decode(): (head, number) for ns, head, number in rows}

    def _remove(self, change: Change) -> None:
        for key, writes in (change.removed or {}).items():
            if self._run(sql.REMOVE_WRITES, **self._at(key)) != writes:
                raise moved(change)
            if self._run(sql.REMOVE_CHECKPOINT, **self._at(key)) != 1:
                raise gone(key)
        for ns, channel, version in change.removed_blobs:
            place = self._at(CheckpointKey(change.thread_id, ns, ""))
            self._run(sql.REMOVE_BLOB, **place, channel=channel, version=version)
        if change.removed and not self._heads(change.thread_id):
            # The last checkpoint of the thread was removed, so remove all its values.
            self._run(sql.REMOVE_BLOBS, **self._at(CheckpointKey(change.thread_id, "", "")))

    def _copy(self, thread_id: str, copies: Sequence[CopyOfCheckpoint]) -> None:
        """Copy checkpoints of another thread with the values that they name and their writes.

        All checkpoints must be of the same thread.
        """
        named: dict[tuple[str, str], set[str]] = {}
        for one in copies:
            source = self._at(one.source)
            given = {
                name: value.data.decode()
                for name, value in (("body", one.body), ("metadata", one.metadata))
                if value is not None
            }
            query = sql.COPY_CHECKPOINT.format(
                **self._names,
                body="%(body)s" if one.body else "checkpoint",
                metadata="%(metadata)s" if one.metadata else "metadata",
            )
            if self._connection.change(query, {**source, **given, "new": thread_id}) != 1:
                raise gone(one.source)
            for channel, version in self._versions(CheckpointKey(thread_id, *_place(one.source))):
                named.setdefault((one.source.checkpoint_ns, channel), set()).add(version)
            target = CheckpointKey(thread_id, *_place(one.source))
            self._copy_writes(one.source, target, one.writes)
        thread = copies[0].source.thread_id
        for (ns, channel), versions in named.items():
            place = self._at(CheckpointKey(thread, ns, ""))
            wanted = {"channel": channel, "versions": tuple(sorted(versions))}
            self._run(sql.COPY_BLOBS, **place, **wanted, new=thread_id)

    def _versions(self, key: CheckpointKey) -> Iterator[tuple[str, str]]:
        """The values that a checkpoint names, each as (channel, version)."""
        query = sql.BODY.format(**self._names)
        for (text,) in self._connection.rows(query, self._at(key)):
            body = json.loads(text)
            versions = body.get("channel_versions") if isinstance(body, dict) else None
            if isinstance(versions, Mapping):
                yield from ((channel, str(version)) for channel, version in versions.items())

    def _copy_writes(
        self,
        source: CheckpointKey,
        target: CheckpointKey,
        tasks: Sequence[tuple[str, int]] | None,
    ) -> None:
        """Copy writes of a checkpoint to another one; all writes if `tasks` is None."""
        place = {**self._at(source), "new": target.thread_id, "new_id": target.checkpoint_id}
        if tasks is None:
            self._run(sql.COPY_WRITES, **place)
            return
        for task, idx in tasks:
            if self._run(sql.COPY_WRITES + sql.ONE_WRITE, **place, task=task, idx=idx) != 1:
                raise gone(source)

    def _at(self, key: CheckpointKey) -> dict[str, Any]:
        """The query parameters for a checkpoint."""
        return {
            "thread": key.thread_id,
            "exact": key.thread_id.encode(),
            "ns": key.checkpoint_ns,
            "ns_key": self._layout.ns_key(key.checkpoint_ns),
            "id": key.checkpoint_id,
        }

    def _run(self, query: str, **values: object) -> int:
        return self._connection.change(query.format(**self._names), values)

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    @property
    def _connection(self) -> MySQLConnection:
        if self._open is None:
            raise StoreUnavailable(f"'{self._url}' is closed")
        return self._open

    def _lock(self, thread_id: str) -> AbstractContextManager[None]:
        return lock(self._connection, self._url, thread_id)

    def _transaction(self) -> AbstractContextManager[MySQLConnection]:
        return transaction(self._connection, self._url)


def _place(key: CheckpointKey) -> tuple[str, str]:
    return key.checkpoint_ns, key.checkpoint_id
