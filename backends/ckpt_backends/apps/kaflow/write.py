"""Writes documents as KaFlow's MongoDBCheckpointer stores them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from bson.raw_bson import RawBSONDocument
from pymongo.client_session import ClientSession

from ckpt_backends.changes.change import Change, moved
from ckpt_backends.changes.rows import Row
from ckpt_backends.checkpoint_ids import time_of
from ckpt_backends.erasing.stored import RowRewrite
from ckpt_backends.model import Checkpoint, TypedBytes
from ckpt_backends.mongodb.engine.driver_errors import explained_change
from ckpt_backends.mongodb.engine.write import Document, MongoChanges, metadata_document

_NEXT = timedelta(milliseconds=2)
"""A new checkpoint gets a time at least this much after the newest one.

KaFlow's head is the checkpoint with the newest time, and MongoDB stores milliseconds.
"""


_VALUES = ("checkpoint_data", "metadata")


class WritableKaflowStore(MongoChanges):
    """KaFlow's collection, opened for changing."""

    def _document(self, one: Checkpoint, newest: Document) -> Document:
        assert one.body is not None  # noqa: S101
        assert one.metadata is not None  # noqa: S101
        at = _time_of_new(one.key.checkpoint_id, newest)
        return {
            "thread_id": newest.get("thread_id", one.key.thread_id),
            "checkpoint_id": one.key.checkpoint_id,
            "parent_checkpoint_id": one.parent_checkpoint_id,
            "checkpoint_data": one.body.data,
            "metadata": self._metadata(one.metadata, newest.get("metadata")),
            "username": newest.get("username"),
            "created_at": at,
            "updated_at": at,
        }

    def _metadata(self, given: TypedBytes, like: object) -> Any:  # noqa: ARG002
        return RawBSONDocument(given.data) if given.type == "bson" else metadata_document(given, "")

    def replace_rows(self, thread_id: str, rewrites: Iterable[RowRewrite]) -> None:
        with explained_change(self._url):
            if not self._connection.has_transactions:
                self._replace(thread_id, rewrites, None)
                return
            with self._connection.transaction() as session:
                self._lock(thread_id, session)
                self._replace(thread_id, rewrites, session)

    def _replace(
        self, thread_id: str, rewrites: Iterable[RowRewrite], session: ClientSession | None
    ) -> None:
        for one in rewrites:
            old, new = (_document_of(row) for row in (one.stored, one.new))
            changed = {name: new[name] for name in _VALUES if new.get(name) != old.get(name)}
            as_read = {name: old[name] for name in changed}
            done = self._checkpoints.update_one(
                {"_id": old["_id"], **as_read}, {"$set": changed}, session=session
            )
            if done.matched_count != 1:
                raise moved(Change(thread_id, {}))

    def _heads(self, thread_id: str, session: ClientSession | None) -> dict[str, str]:
        newest = self._newest(thread_id, session)
        return {} if newest is None else {"": newest["checkpoint_id"]}


def _document_of(row: Row) -> RawBSONDocument:
    stored = row.cells["bson"]
    return RawBSONDocument(stored if isinstance(stored, bytes) else b"")


def _time_of_new(checkpoint_id: str, newest: Document) -> datetime:
    """Return the time of a new checkpoint: after the head's, or before it if it is an older one."""
    now, last = datetime.now(UTC), newest.get("created_at")
    if not isinstance(last, datetime):
        return now
    if checkpoint_id > str(newest.get("checkpoint_id", "")):
        return max(now, last + _NEXT)
    return min(time_of(checkpoint_id) or now, last - _NEXT)
