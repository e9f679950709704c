"""Writes documents as KaFlow's MongoDBCheckpointer stores them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from bson.raw_bson import RawBSONDocument

from ckpt_backends.base import BaseWritableStore
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import Kind, Record, TypedBytes, time_of
from ckpt_backends.mongodb.engine.records import CHECKPOINTS
from ckpt_backends.mongodb.engine.write import Document, MongoChanges, metadata_document

_NEXT = timedelta(milliseconds=2)
"""A new checkpoint gets a time at least this much after the newest one.

KaFlow's head is the checkpoint with the newest time, and MongoDB stores milliseconds.
"""


class WritableKaflowStore(MongoChanges):
    """KaFlow's collection, opened for changing."""

    def document_of(self, record: Record, like: Document | None) -> tuple[str, Document]:
        if record.kind is not Kind.CHECKPOINT or like is None:
            raise Unsupported("KaFlow stores checkpoints only")
        at = _time_of_new(record.key.checkpoint_id, like)
        return CHECKPOINTS, {
            "thread_id": like.get("thread_id", record.key.thread_id),
            "checkpoint_id": record.key.checkpoint_id,
            "parent_checkpoint_id": record.parent,
            "checkpoint_data": record.value.data,
            **self.metadata_fields(record.metadata, like),
            "username": like.get("username"),
            "created_at": at,
            "updated_at": at,
        }

    receive = BaseWritableStore.receive

    def metadata_fields(self, given: TypedBytes, like: Document) -> Document:  # noqa: ARG002
        made = metadata_document(given, "") if given.type != "bson" else RawBSONDocument(given.data)
        return {"metadata": made}


def _time_of_new(checkpoint_id: str, newest: Document) -> datetime:
    """Return the time of a new checkpoint: after the head's, or before it if it is an older one."""
    now, last = datetime.now(UTC), newest.get("created_at")
    if not isinstance(last, datetime):
        return now
    if checkpoint_id > str(newest.get("checkpoint_id", "")):
        return max(now, last + _NEXT)
    return min(time_of(checkpoint_id) or now, last - _NEXT)
