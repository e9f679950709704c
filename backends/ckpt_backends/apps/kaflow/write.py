"""Writes documents as KaFlow's MongoDBCheckpointer stores them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from bson.raw_bson import RawBSONDocument
from pymongo.client_session import ClientSession

from ckpt_backends.model import Checkpoint, TypedBytes, time_of
from ckpt_backends.mongodb.engine.write import Document, MongoChanges, metadata_document

_NEXT = timedelta(milliseconds=2)
"""A new checkpoint gets a time at least this much after the newest one.

KaFlow's head is the checkpoint with the newest time, and MongoDB stores milliseconds.
"""


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

    def _heads(self, thread_id: str, session: ClientSession | None) -> dict[str, str]:
        newest = self._newest(thread_id, session)
        return {} if newest is None else {"": newest["checkpoint_id"]}


def _time_of_new(checkpoint_id: str, newest: Document) -> datetime:
    """Return the time of a new checkpoint: after the head's, or before it if it is an older one."""
    now, last = datetime.now(UTC), newest.get("created_at")
    if not isinstance(last, datetime):
        return now
    if checkpoint_id > str(newest.get("checkpoint_id", "")):
        return max(now, last + _NEXT)
    return min(time_of(checkpoint_id) or now, last - _NEXT)
