"""Recognises the collection of KaFlow's MongoDBCheckpointer by its field `checkpoint_data`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from ckpt_backends.apps.kaflow.declaration import BACKEND
from ckpt_backends.model import Thread
from ckpt_backends.mongodb.engine.fields import text
from ckpt_backends.mongodb.engine.layout import CollectionKind, CollectionSample, SaverFormat
from ckpt_backends.mongodb.engine.pipelines import Stage

NEWEST_FIRST = {"created_at": -1, "checkpoint_id": -1}
"""The saver's order. If times are equal (in milliseconds), the greater id is newer."""


def recognise(sample: CollectionSample) -> CollectionKind | None:
    """What a collection holds; None if it is not KaFlow's."""
    if not sample.fields:
        return _KAFLOW if ("username", "created_at") in sample.indexes.values() else None
    is_ours = {"thread_id", "checkpoint_id"} <= sample.fields.keys()
    return _KAFLOW if is_ours and "checkpoint_data" in sample.binary else None


def threads(match: Mapping[str, Any], limit: int | None) -> list[Stage]:
    """The stages that list threads, newest first. The server does not send any pickle."""
    last = {"at": "$created_at", "id": "$checkpoint_id"}
    return [
        *([{"$match": match}] if match else []),
        {
            "$group": {
                "_id": "$thread_id",
                "last": {"$max": last},
                "first": {"$min": "$created_at"},
                "number": {"$sum": 1},
                "user": {"$max": "$username"},
            }
        },
        {"$sort": {"last.at": -1, "_id": 1}},
        *([{"$limit": limit}] if limit is not None else []),
    ]


def thread_of(row: Any) -> Thread:
    """The thread from a document that `threads` returned."""
    user = row.get("user")
    return Thread(
        text(row["_id"]),
        text(row["last"].get("id")),
        _time(row.get("first")),
        _time(row["last"].get("at")),
        int(row["number"]),
        1,
        user if isinstance(user, str) else None,
    )


def _time(value: object) -> datetime | None:
    return value.astimezone(UTC) if isinstance(value, datetime) else None


_KAFLOW = CollectionKind(
    frozenset({"_id", "thread_id", "checkpoint_id", "parent_checkpoint_id", "checkpoint_data"})
    | {"metadata", "username", "created_at", "updated_at"},
    SaverFormat(
        layout="kaflow",
        can=BACKEND.layouts["kaflow"],
        store="ckpt_backends.apps.kaflow.read:KaflowStore",
        writable="ckpt_backends.apps.kaflow.write:WritableKaflowStore",
        threads=threads,
        thread_of=thread_of,
        newest_first=NEWEST_FIRST,
        key=("thread_id", "checkpoint_id"),
        body="checkpoint_data",
        has_writes=False,
    ),
)
