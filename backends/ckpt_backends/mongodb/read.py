"""Reads the layouts of `langgraph-checkpoint-mongodb` 0.1 to 0.5, and of LangGraph.js.

A checkpoint is one document, with all values in its field `checkpoint`. Each write is a separate
document. Since 0.1.4, the savers create a unique index on thread, namespace and checkpoint id.
Queries here use the index if it exists, but work without it and never create it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from heapq import merge
from itertools import groupby
from typing import Any, Unpack

from ckpt_backends.checkpoint_ids import ids_between
from ckpt_backends.model import Checkpoint, CheckpointKey, Expiry, Fault, TypedBytes, Usage, Write
from ckpt_backends.mongodb import pipelines
from ckpt_backends.mongodb.engine.connect import MongoConnection
from ckpt_backends.mongodb.engine.fields import later, metadata_of, storable, storable_of, text
from ckpt_backends.mongodb.engine.layout import CHECKPOINTS, WRITES, MongoLayout
from ckpt_backends.mongodb.engine.pipelines import Stage, length
from ckpt_backends.mongodb.engine.staging import is_staged
from ckpt_backends.mongodb.engine.store import MongoCheckpoints, key_in
from ckpt_backends.mongodb.faults import expiry_faults, index_faults, is_expiring
from ckpt_backends.mongodb.recognise import JAVASCRIPT
from ckpt_backends.mongodb.suspects import suspects
from ckpt_backends.read_options import CheckpointOptions, CheckpointQuery, WriteOptions, WriteQuery
from ckpt_backends.thread_bounds import ThreadBounds
from ckpt_backends.url import StoreUrl

_IDS_PER_QUERY = 20_000
"""Ids in one query. They take about 1 MB; MongoDB's limit for a query is 16 MB."""


class MongoStore(MongoCheckpoints):
    """A database of LangGraph's Python or JavaScript saver, opened for reading."""

    def __init__(self, connection: MongoConnection, url: StoreUrl, layout: MongoLayout) -> None:
        super().__init__(connection, url, layout)
        self.keys_expire = bool(layout.lifetimes)

    def _saver(self) -> str:
        kinds: set[str] = set()
        languages: set[str] = set()
        for order in (1, -1):
            stages: list[Stage] = [
                {"$sort": {"_id": order}},
                {"$limit": 1},
                {
                    "$project": {
                        "_id": 0,
                        "kind": {"$type": "$metadata.source"},
                        "whole": {"$type": "$metadata"},
                    }
                },
            ]
            for row in self._rows(self._layout.checkpoints, stages):
                kinds.add(row["kind"])
                languages.add(row["whole"])
        javascript = "LangGraph.js, @langchain/langgraph-checkpoint-mongodb"
        if languages >= {"object", "binData"}:  # LangGraph.js stores metadata as bytes
            return f"{javascript} and langgraph-checkpoint-mongodb, in one collection"
        if self._layout.name == JAVASCRIPT:
            return javascript
        # Before 0.2.2, the leaves of metadata are JSON in bytes.
        old, new = "binData" in kinds, "array" in kinds
        if old and new:
            return "langgraph-checkpoint-mongodb before and after 0.2.2; no release reads both"
        return f"langgraph-checkpoint-mongodb {'0.1 to 0.2.1' if old else '0.2.2 or later'}"

    def notes(self) -> Sequence[str]:
        found = list(super().notes())
        if self._layout.writes is None:
            found.append("no collection of writes found: add ?writes_collection=NAME to the URL")
        return found

    def usage(self, thread_id: str | None = None) -> Iterator[Usage]:
        match = {} if thread_id is None else self._of(thread_id)
        if match is None:
            return
        by_type, ns = {"type": "$type"}, {"ns": "$checkpoint_ns"}
        kind = "json" if self._layout.name == JAVASCRIPT else "bson"
        checkpoints, writes = self._layout.checkpoints, self._layout.writes
        parts = [
            self._usage(checkpoints, "checkpoint", match, {}, {**ns, **by_type}),
            self._usage(checkpoints, "metadata", match, {"type": {"$literal": kind}}, ns),
        ]
        if writes is not None:
            channel = {"channel": "$channel"}
            match = match if thread_id is None else self._own(match)
            parts.append(self._usage(writes, "value", match, {}, {**ns, **channel, **by_type}))
        yield from merge(*parts, key=lambda one: one.thread_id.encode(errors="surrogatepass"))

    def _usage(
        self,
        collection: str,
        column: str,
        match: dict[str, Any],
        by: dict[str, Any],
        also: dict[str, str],
    ) -> Iterator[Usage]:
        stages = pipelines.usage(match, f"${column}", by, also)
        for row in self._connection.aggregate(collection, stages):
            key = row["_id"]
            if is_staged(key.get("thread")):
                continue
            yield Usage(
                collection,
                column,
                text(key.get("thread")),
                text(key.get("ns")),
                text(key["channel"]) if "channel" in key else None,
                text(key.get("type")),
                int(row["number"]),
                int(row["bytes"]),
            )

    def _within(self, bounds: ThreadBounds) -> list[Stage]:
        since, until = ids_between(bounds.since, bounds.until)
        newest = ({"$gte": since} if since else {}) | ({"$lt": until} if until else {})
        return [{"$match": {"newest": newest}}] if newest else []

    def faults(self) -> Iterator[Fault]:
        yield from super().faults()
        yield from index_faults(self._connection, self._layout)

    def thread_faults(self, thread_id: str) -> Iterator[Fault]:
        yield from super().thread_faults(thread_id)
        match = self._of(thread_id)
        if match is not None and is_expiring(self._layout):
            yield from expiry_faults(self._connection, self._layout, thread_id, match)

    def suspect_threads(self) -> Iterator[str]:
        return suspects(self._connection, self._layout)

    def expiries(
        self, thread_id: str, checkpoint_ns: str, checkpoint_ids: Collection[str]
    ) -> Iterator[Expiry]:
        found: dict[str, dict[str, datetime | None]] = {}
        layout = self._layout
        for match in self._matches(thread_id, checkpoint_ns, checkpoint_ids):
            for table, name in layout.collections.items():
                stages = pipelines.first_times(match, layout.saver.time_field)
                for row in self._rows(name, stages) if self.keys_expire else ():
                    at = later(row["at"], layout.lifetimes.get(name))
                    found.setdefault(text(row["_id"]), {})[table] = at
        for own, times in found.items():
            if CHECKPOINTS in times:
                key = CheckpointKey(thread_id, checkpoint_ns, own)
                yield Expiry(key, times[CHECKPOINTS], times.get(WRITES))

    def namespaces(self, thread_id: str) -> list[str]:
        match = self._of(thread_id)
        if match is None:
            return []
        rows = self._rows(self._layout.checkpoints, pipelines.namespaces(match))
        return [text(row["_id"]) for row in rows]

    def checkpoints(
        self, thread_id: str, **options: Unpack[CheckpointOptions]
    ) -> Iterator[Checkpoint]:
        asked = CheckpointQuery(**options)
        fields = _fields(asked)
        for match in self._matches(thread_id, asked.checkpoint_ns, asked.checkpoint_ids):
            stages = [
                {"$match": match},
                {"$sort": {"checkpoint_ns": 1, "checkpoint_id": -1}},
                {"$project": fields},
            ]
            for row in self._connection.aggregate(
                self._layout.checkpoints, stages, raw=asked.metadata
            ):
                yield _checkpoint(key_in(thread_id, row), row, asked)

    def checkpoints_at(
        self,
        keys: Sequence[CheckpointKey],
        *,
        body: bool = False,
        metadata: bool = False,
        values: bool | Collection[str] = False,
    ) -> Iterator[Checkpoint]:
        asked = CheckpointQuery(body=body, metadata=metadata, values=values)
        stages: list[Stage] = [{"$project": _fields(asked)}]
        for key, row in self._at(keys, self._layout.checkpoints, stages, raw=metadata):
            yield _checkpoint(key, row, asked)

    def _at(
        self,
        keys: Sequence[CheckpointKey],
        collection: str,
        stages: Sequence[Stage],
        *,
        raw: bool = False,
    ) -> Iterator[tuple[CheckpointKey, Any]]:
        """Documents of the checkpoints with these keys, each document with its key."""
        stored = {
            (match["thread_id"], key.checkpoint_ns, key.checkpoint_id): key
            for key in keys
            if (match := self._of(key.thread_id)) is not None
        }
        stages = [{"$match": pipelines.of_checkpoints(stored)}, *stages]
        for row in self._connection.aggregate(collection, stages, raw=raw):
            found = (row.get("thread_id"), row.get("checkpoint_ns"), row.get("checkpoint_id"))
            # `of_checkpoints` may also match other combinations of thread, namespace and id.
            if (key := stored.get(found)) is not None:
                yield key, row

    def writes(self, thread_id: str, **options: Unpack[WriteOptions]) -> Iterator[Write]:
        asked = WriteQuery(**options)
        if self._layout.writes is None:
            return
        only: dict[str, Any] = {}
        if asked.channels is not None:
            only["channel"] = {"$in": storable_of(asked.channels)}
        # This order uses the index. The writes of each checkpoint are sorted below.
        order = {"checkpoint_id": 1, "task_id": -1, "idx": -1}
        of_thread = self._of(thread_id) if asked.checkpoint_ids is None else None
        if of_thread is not None:
            only |= self._others([of_thread["thread_id"]])
        for match in self._matches(
            thread_id, asked.checkpoint_ns, asked.checkpoint_ids, writes=True
        ):
            stages = [{"$match": {**match, **only}}, {"$sort": order}, _read_writes(asked.values)]
            rows = self._connection.aggregate(self._layout.writes, stages)
            for _, group in groupby(rows, key=lambda row: text(row.get("checkpoint_id"))):
                yield from sorted(
                    (_write(key_in(thread_id, row), row) for row in group), key=_order
                )

    def writes_at(
        self,
        keys: Sequence[CheckpointKey],
        *,
        channels: Collection[str] | None = None,
        values: bool | Collection[str] = False,
    ) -> Iterator[Write]:
        if self._layout.writes is None:
            return
        only = {} if channels is None else {"channel": {"$in": storable_of(channels)}}
        stages = [{"$match": only}, _read_writes(values)]
        found = (_write(key, row) for key, row in self._at(keys, self._layout.writes, stages))
        yield from sorted(found, key=_order)

    def _matches(
        self,
        thread_id: str,
        checkpoint_ns: str | None,
        checkpoint_ids: Collection[str] | None,
        *,
        writes: bool = False,
    ) -> Iterator[dict[str, Any]]:
        """Conditions for several queries that together return the result in the right order.

        Each condition for writes has one namespace, and their ids are in ascending order.
        """
        match = self._of(thread_id)
        ids = None if checkpoint_ids is None else storable_of(checkpoint_ids, newest=not writes)
        if match is None or not storable(checkpoint_ns or ""):
            return
        collection = self._layout.writes if writes else self._layout.checkpoints
        spaces: list[Any] = [None] if checkpoint_ns is None else [checkpoint_ns]
        if collection and checkpoint_ns is None and (writes or len(ids or ()) > _IDS_PER_QUERY):
            spaces = [row["_id"] for row in self._rows(collection, pipelines.namespaces(match))]
        for ns in spaces:
            of_ns = match if ns is None else {**match, "checkpoint_ns": ns}
            if ids is None:
                yield of_ns
                continue
            for start in range(0, len(ids), _IDS_PER_QUERY):
                chunk = ids[start : start + _IDS_PER_QUERY]
                yield {**of_ns, "checkpoint_id": {"$in": chunk}}


def _fields(asked: CheckpointQuery) -> Stage:
    """The fields of a checkpoint."""
    fields = ["thread_id", "checkpoint_ns", "checkpoint_id", "parent_checkpoint_id"]
    fields += ["type", "checkpoint"] if asked.body else []
    fields += ["metadata"] if asked.metadata else []
    return {"_id": 0, **dict.fromkeys(fields, 1)}


def _checkpoint(key: CheckpointKey, row: Any, asked: CheckpointQuery) -> Checkpoint:
    parent = row.get("parent_checkpoint_id")
    return Checkpoint(
        key,
        text(parent) if parent else None,
        _typed(row.get("type"), row.get("checkpoint")) if asked.body else None,
        metadata_of(row.get("metadata")) if asked.metadata else None,
    )


def _read_writes(values: bool | Collection[str]) -> Stage:
    """The stage with the fields of a write, including its value if `values` selects it."""
    fields = ["thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "task_path"]
    fields += ["idx", "channel", "type"]
    value = pipelines.wanted("$value", values)
    return {
        "$project": {
            "_id": 0,
            **dict.fromkeys(fields, 1),
            "size": length("$value"),
            "read": pipelines.is_read(values),
            **({} if value is None else {"value": value}),
        }
    }


def _order(write: Write) -> tuple[str, str, int]:
    """The order of the writes of one checkpoint."""
    return write.task_path, write.task_id, write.idx


def _write(key: CheckpointKey, row: Any) -> Write:
    idx = row.get("idx")
    return Write(
        key,
        text(row.get("task_id")),
        text(row.get("task_path")),
        int(idx) if isinstance(idx, int) else 0,
        text(row.get("channel")),
        int(row["size"]),
        _typed(row.get("type"), row.get("value")) if row["read"] else None,
    )


def _typed(tag: object, value: object) -> TypedBytes:
    """A value as stored."""
    if isinstance(value, bytes):
        return TypedBytes(text(tag), bytes(value))
    return TypedBytes(text(tag), b"", problem="expected bytes as value")
