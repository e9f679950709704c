"""Documents of threads that are on their way into a store.

Their `thread_id` is no text but a document, so no saver finds them under any thread:
`{ckpt_copy: ObjectId of the run, of: id of the thread}`. Only a saver that lists all checkpoints of
all threads at once returns them, too. The other fields are final. A run that is killed leaves them;
the next run for the same thread removes them, and any run those that are older than an hour.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from bson import ObjectId

from ckpt_backends.mongodb.engine.connect import BY_BYTES, MongoConnection
from ckpt_backends.mongodb.engine.fields import storable_of
from ckpt_backends.mongodb.engine.layout import MongoLayout

_STAGED, _THREAD = "ckpt_copy", "of"
_LIFE = timedelta(hours=1)


def staged_id(run: ObjectId, thread_id: str) -> dict[str, Any]:
    """The `thread_id` of documents on their way."""
    return {_STAGED: run, _THREAD: thread_id}


def is_staged(thread_id: object) -> bool:
    """Whether a stored `thread_id` is that of documents on their way."""
    return isinstance(thread_id, Mapping) and _STAGED in thread_id


def remove_staged(
    connection: MongoConnection, layout: MongoLayout, thread_ids: Collection[str]
) -> None:
    """Remove what broken runs left of these threads, and of all others if it is old."""
    old = ObjectId.from_datetime(datetime.now(UTC) - _LIFE)
    path = f"thread_id.{_STAGED}"
    left = [{f"thread_id.{_THREAD}": {"$in": storable_of(thread_ids)}}, {path: {"$lt": old}}]
    # The type lets the server find them in the index.
    match = {"thread_id": {"$type": "object"}, path: {"$exists": True}, "$or": left}
    for name in layout.collections.values():
        connection.raw(name).delete_many(match, collation=BY_BYTES)
