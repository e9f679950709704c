"""Reads the layout of KaFlow's MongoDBCheckpointer (yangkun19921001/kaflow-py).

It has one collection with the fields `thread_id`, `checkpoint_id`, `parent_checkpoint_id`,
`checkpoint_data` (a pickle of the checkpoint, which ckpt parses without unpickling it), `metadata`
(a plain document), `username`, `created_at` and `updated_at`.

* KaFlow stores no writes, so interrupts and results of tasks are unknown.
* KaFlow stores no namespaces, so checkpoints of subgraphs are mixed with those of the root graph.
* The head is the checkpoint with the newest `created_at`.
* From the second run on, the first checkpoint of a run has no parent, because KaFlow's `get_tuple`
  returns the caller's config. ckpt takes the checkpoint before it in time as its parent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Unpack

from ckpt_backends.apps.kaflow.declaration import BACKEND
from ckpt_backends.model import (
    Checkpoint,
    CheckpointKey,
    Fault,
    Thread,
    ThreadBounds,
    TypedBytes,
    Write,
)
from ckpt_backends.mongodb.engine.layout import (
    CollectionKind,
    CollectionSample,
    IndexKey,
    SaverFormat,
    Stage,
    metadata_of,
    missing_index,
    storable_of,
    text,
)
from ckpt_backends.mongodb.engine.records import CHECKPOINTS
from ckpt_backends.mongodb.engine.store import MongoCheckpoints
from ckpt_backends.protocol import CheckpointOptions, CheckpointQuery, WriteOptions
from ckpt_backends.rows import Row

# Recognises the collection of KaFlow's MongoDBCheckpointer by its field `checkpoint_data`.


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
        store="ckpt_backends.apps.kaflow.store:KaflowStore",
        writable="ckpt_backends.apps.kaflow.write:WritableKaflowStore",
        threads=threads,
        thread_of=thread_of,
        newest_first=NEWEST_FIRST,
        key=("thread_id", "checkpoint_id"),
        columns={"checkpoint_data": "pickle", "metadata": "bson"},
        has_writes=False,
    ),
)


_NO_WRITES = "KaFlow stores no writes: questions, errors and results of tasks are unknown"


_INDEXES: Sequence[IndexKey] = (
    {"thread_id": 1, "checkpoint_id": -1},
    {"created_at": -1},
    {"username": 1, "created_at": -1},
)
"""The saver creates them whenever it is opened."""


class KaflowStore(MongoCheckpoints):
    """KaFlow's collection, opened for reading."""

    def _saver(self) -> str:
        return "KaFlow, MongoDBCheckpointer"

    def notes(self) -> Sequence[str]:
        return [*super().notes(), _NO_WRITES]

    def _within(self, bounds: ThreadBounds) -> list[Stage]:
        times = {"$gte": bounds.since, "$lte": bounds.until}
        newest = {name: at for name, at in times.items() if at is not None}
        wanted: dict[str, Any] = {"last.at": newest} if newest else {}
        if bounds.users is not None:
            wanted["user"] = {"$in": storable_of(bounds.users)}
        return [{"$match": wanted}] if wanted else []

    def faults(self) -> Iterator[Fault]:
        yield from super().faults()
        for key in _INDEXES:
            yield from missing_index(self._connection, self._layout.checkpoints, key)

    def rows(self, thread_id: str) -> Iterator[Row]:
        match = self._of(thread_id)
        if match is None:
            return
        oldest_first = dict.fromkeys(NEWEST_FIRST, 1)
        stages = [{"$match": match}, {"$sort": oldest_first}]
        for document in self._connection.aggregate(self._layout.checkpoints, stages, raw=True):
            yield Row(CHECKPOINTS, {"bson": bytes(document.raw)})

    def namespaces(self, thread_id: str) -> list[str]:
        return [] if self.thread(thread_id) is None else [""]

    def checkpoints(
        self, thread_id: str, **options: Unpack[CheckpointOptions]
    ) -> Iterator[Checkpoint]:
        asked = CheckpointQuery(**options)
        match = self._of(thread_id)
        if match is None or asked.checkpoint_ns:
            return
        before = self._before(match)
        if asked.checkpoint_ids is not None:
            match = {**match, "checkpoint_id": {"$in": storable_of(asked.checkpoint_ids)}}
        fields = dict.fromkeys(("checkpoint_id", "parent_checkpoint_id"), 1)
        fields |= {"checkpoint_data": 1} if asked.body else {}
        fields |= {"metadata": 1} if asked.metadata else {}
        stages = [{"$match": match}, {"$sort": NEWEST_FIRST}, {"$project": {"_id": 0, **fields}}]
        for row in self._connection.aggregate(self._layout.checkpoints, stages, raw=asked.metadata):
            checkpoint_id, parent = text(row.get("checkpoint_id")), row.get("parent_checkpoint_id")
            yield Checkpoint(
                CheckpointKey(thread_id, "", checkpoint_id),
                text(parent) if parent else before.get(checkpoint_id),
                _body(row.get("checkpoint_data")) if asked.body else None,
                metadata_of(row.get("metadata")) if asked.metadata else None,
                begins_run=not parent,
            )

    def _before(self, match: dict[str, Any]) -> dict[str, str]:
        """By checkpoint id, the id of the checkpoint that was stored before it."""
        stages = [
            {"$match": match},
            {"$project": {"_id": 0, "checkpoint_id": 1, "created_at": 1}},
            {"$sort": NEWEST_FIRST},
        ]
        rows = self._rows(self._layout.checkpoints, stages)
        return dict(pairwise(text(row.get("checkpoint_id")) for row in rows))

    def writes(self, thread_id: str, **options: Unpack[WriteOptions]) -> Iterator[Write]:  # noqa: ARG002
        """None: the saver stores no writes."""
        return iter(())


def _body(value: object) -> TypedBytes:
    if isinstance(value, bytes):
        return TypedBytes("pickle", bytes(value))
    return TypedBytes("pickle", b"", problem="expected a pickle, found no bytes")
