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

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from ckpt_backends.model import (
    Capability,
    Checkpoint,
    CheckpointKey,
    StoreInfo,
    Thread,
    TypedBytes,
    Usage,
    Write,
)
from ckpt_backends.mongodb.engine import pipelines
from ckpt_backends.mongodb.read import (
    MongoBase,
    metadata_of,
    shell_query,
    storable_of,
    text,
)

NEWEST_FIRST = {"created_at": -1, "checkpoint_id": -1}
"""The saver's order. If times are equal (in milliseconds), the greater id is newer."""
_PICKLE = "pickle"
_NO_WRITES = "KaFlow stores no writes: questions, errors and results of tasks are unknown"


class KaflowStore(MongoBase):
    """KaFlow's collection, opened for reading."""

    _values = ("$checkpoint_data", "$metadata")

    def describe(self) -> StoreInfo:
        layout = self._layout
        can = Capability.HISTORY | Capability.INLINE_VALUES
        can |= Capability(0) if layout.unknown else Capability.ADDING
        return StoreInfo(
            layout=layout.name,
            url=str(self._url),
            engine=f"MongoDB {self._connection.version}",
            saver="KaFlow, MongoDBCheckpointer",
            capabilities=can,
            tables=(f"{layout.database}.{layout.checkpoints}",),
            size=self._size_of(layout.checkpoints),
            notes=tuple(self.notes()),
        )

    def notes(self) -> Sequence[str]:
        return [*super().notes(), _NO_WRITES]

    def threads(self, *, limit: int | None = None) -> Iterator[Thread]:
        stages = threads({}, limit)
        yield from map(thread_of, self._connection.aggregate(self._layout.checkpoints, stages))

    def thread(self, thread_id: str) -> Thread | None:
        match = self._of(thread_id)
        if match is None:
            return None
        rows = self._found(threads(pipelines.of_threads([match["thread_id"]]), None))
        return thread_of(rows[0]) if rows else None

    def usage(self, thread_id: str | None = None) -> Iterator[Usage]:
        match = {} if thread_id is None else self._of(thread_id)
        if match is None:
            return
        stages = [
            *([{"$match": match}] if match else []),
            {
                "$group": {
                    "_id": "$thread_id",
                    "number": {"$sum": 1},
                    "bodies": {"$sum": pipelines.length("$checkpoint_data")},
                    "metadata": {"$sum": pipelines.length("$metadata")},
                }
            },
            {"$sort": {"_id": 1}},
        ]
        name = self._layout.checkpoints
        for row in self._connection.aggregate(name, stages):
            thread, number = text(row["_id"]), int(row["number"])
            yield Usage(
                name, "checkpoint_data", thread, "", None, _PICKLE, number, int(row["bodies"])
            )
            yield Usage(name, "metadata", thread, "", None, "bson", number, int(row["metadata"]))

    def namespaces(self, thread_id: str) -> list[str]:
        match = self._of(thread_id)
        stages: list[pipelines.Stage] = [
            {"$match": match},
            {"$limit": 1},
            {"$project": {"_id": 1}},
        ]
        return [""] if match is not None and self._found(stages) else []

    def checkpoints(
        self,
        thread_id: str,
        *,
        checkpoint_ns: str | None = None,
        checkpoint_ids: Collection[str] | None = None,
        body: bool = False,
        metadata: bool = False,
        values: bool | Collection[str] = False,  # noqa: ARG002  (they are in the body)
    ) -> Iterator[Checkpoint]:
        match = self._of(thread_id)
        if match is None or checkpoint_ns:
            return
        before = self._before(match)
        if checkpoint_ids is not None:
            match = {**match, "checkpoint_id": {"$in": storable_of(checkpoint_ids)}}
        fields = dict.fromkeys(("checkpoint_id", "parent_checkpoint_id"), 1)
        fields |= {"checkpoint_data": 1} if body else {}
        fields |= {"metadata": 1} if metadata else {}
        for row in self._connection.aggregate(
            self._layout.checkpoints,
            [{"$match": match}, {"$sort": NEWEST_FIRST}, {"$project": {"_id": 0, **fields}}],
            raw=metadata,
        ):
            checkpoint_id, parent = text(row.get("checkpoint_id")), row.get("parent_checkpoint_id")
            yield Checkpoint(
                CheckpointKey(thread_id, "", checkpoint_id),
                text(parent) if parent else before.get(checkpoint_id),
                _body(row.get("checkpoint_data")) if body else None,
                metadata_of(row.get("metadata")) if metadata else None,
                begins_run=not parent,
            )

    def _before(self, match: dict[str, Any]) -> dict[str, str]:
        """By checkpoint id, the id of the checkpoint that was stored before it."""
        stages = [
            {"$match": match},
            {"$project": {"_id": 0, "checkpoint_id": 1, "created_at": 1}},
            {"$sort": NEWEST_FIRST},
        ]
        ids = [text(row.get("checkpoint_id")) for row in self._found(stages)]
        return dict(pairwise(ids))

    def writes(
        self,
        thread_id: str,  # noqa: ARG002  (the saver stores none)
        *,
        checkpoint_ns: str | None = None,  # noqa: ARG002
        checkpoint_ids: Collection[str] | None = None,  # noqa: ARG002
        channels: Collection[str] | None = None,  # noqa: ARG002
        values: bool | Collection[str] = False,  # noqa: ARG002
    ) -> Iterator[Write]:
        yield from ()

    def checkpoints_at(
        self, keys: Sequence[CheckpointKey], *, body: bool = False, metadata: bool = False
    ) -> Iterator[Checkpoint]:
        # One by one, because finding a parent may need the other checkpoints of the thread.
        for key in keys:
            yield from self.checkpoints(
                key.thread_id,
                checkpoint_ns=key.checkpoint_ns,
                checkpoint_ids=[key.checkpoint_id],
                body=body,
                metadata=metadata,
            )

    def writes_at(
        self,
        keys: Sequence[CheckpointKey],  # noqa: ARG002
        *,
        channels: Collection[str] | None = None,  # noqa: ARG002
        values: bool | Collection[str] = False,  # noqa: ARG002
    ) -> Iterator[Write]:
        yield from ()

    def sources(self, key: CheckpointKey) -> list[str]:
        found = {
            "thread_id": (self._of(key.thread_id) or {}).get("thread_id", key.thread_id),
            "checkpoint_id": key.checkpoint_id,
        }
        return [shell_query(self._layout.checkpoints, found)]

    def _found(self, stages: list[pipelines.Stage]) -> list[Any]:
        return self._rows(self._layout.checkpoints, stages)


def threads(match: Mapping[str, Any], limit: int | None) -> list[pipelines.Stage]:
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


def _body(value: object) -> TypedBytes:
    if isinstance(value, bytes):
        return TypedBytes(_PICKLE, bytes(value))
    return TypedBytes(_PICKLE, b"", problem="expected a pickle, found no bytes")
