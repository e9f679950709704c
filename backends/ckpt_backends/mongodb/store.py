"""Reads the layouts of `langgraph-checkpoint-mongodb` 0.1 to 0.5, and of LangGraph.js.

A checkpoint is one document, with all values in its field `checkpoint`. Each write is a separate
document. Since 0.1.4, the savers create a unique index on thread, namespace and checkpoint id.
Queries here use the index if it exists, but work without it and never create it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from heapq import merge
from itertools import groupby
from typing import Any, Unpack

from ckpt_backends.memory import is_unicode
from ckpt_backends.model import (
    Checkpoint,
    CheckpointKey,
    Expiry,
    Fault,
    Thread,
    ThreadBounds,
    TypedBytes,
    Write,
    ids_between,
    in_chunks,
)
from ckpt_backends.mongodb.declaration import BACKEND
from ckpt_backends.mongodb.engine.connect import MongoConnection
from ckpt_backends.mongodb.engine.layout import (
    CollectionKind,
    CollectionSample,
    IndexKey,
    MongoLayout,
    SaverFormat,
    Stage,
    has_index,
    later,
    length,
    metadata_of,
    missing_index,
    of_threads,
    storable_of,
    stored_forms,
    text,
)
from ckpt_backends.mongodb.engine.records import CHECKPOINTS, KEY, MEMORY, WRITES
from ckpt_backends.mongodb.engine.store import IS_NEAR, MongoCheckpoints, is_staged, key_in
from ckpt_backends.protocol import (
    CheckpointOptions,
    CheckpointQuery,
    ReadOptions,
    WriteOptions,
    WriteQuery,
    WriteReadOptions,
)

# The aggregation pipelines for the collections of LangGraph's savers.


def threads(match: Mapping[str, Any], limit: int | None) -> list[Stage]:
    """The stages that list threads, newest first. With the key index, no document is read."""
    return [
        *([{"$match": match}] if match else []),
        {
            "$group": {
                "_id": {"thread": "$thread_id", "ns": "$checkpoint_ns"},
                "newest": {"$max": "$checkpoint_id"},
                "oldest": {"$min": "$checkpoint_id"},
                "number": {"$sum": 1},
            }
        },
        {
            "$group": {
                "_id": "$_id.thread",
                "head": {"$max": {"$cond": [{"$eq": ["$_id.ns", ""]}, "$newest", None]}},
                "newest": {"$max": "$newest"},
                "oldest": {"$min": "$oldest"},
                "number": {"$sum": "$number"},
                "namespaces": {"$sum": 1},
            }
        },
        # Documents on their way; see `staged_id`. The server may do this first, over the index.
        {"$match": {"$expr": {"$ne": [{"$type": "$_id"}, "object"]}}},
        {"$sort": {"newest": -1, "_id": 1}},
        *([{"$limit": limit}] if limit is not None else []),
    ]


def thread_of(row: Any) -> Thread:
    """The thread from a document that `threads` returned."""
    head = row["head"]
    return Thread(
        text(row["_id"]),
        None if head is None else text(head),
        text(row["oldest"]),
        text(row["newest"]),
        int(row["number"]),
        int(row["namespaces"]),
    )


def namespaces(match: Mapping[str, Any]) -> list[Stage]:
    """The namespaces of the documents that match, sorted."""
    return [{"$match": match}, {"$group": {"_id": "$checkpoint_ns"}}, {"$sort": {"_id": 1}}]


# Recognises the collections of LangGraph's savers and of its MongoDBStore by their documents.
#
# The names of collections are arguments of the savers, so they cannot identify a layout.
#
# | layout | saver | documents |
# |---|---|---|
# | `mongodb` | langgraph-checkpoint-mongodb | `checkpoint` bytes, `metadata` a document; writes |
# | `mongodb-js` | LangGraph.js | `checkpoint` and `metadata` bytes of JSON; writes |
#
# The leaves of `metadata` are serialised; source: `langgraph/checkpoint/mongodb/utils.py`.


JAVASCRIPT = "mongodb-js"
_INDEX_OF_JAVASCRIPT = "thread_ns_checkpoint_idx"
"""LangGraph.js creates it since 1.4. Source: `setup` and `put` in `checkpoint.js` of
@langchain/langgraph-checkpoint-mongodb 1.4.1."""
_CHECKPOINT = frozenset({"_id", *KEY, "parent_checkpoint_id", "type", "checkpoint", "metadata"})


def _kind(layout: str, metadata_type: str, time_field: str, *fields: str) -> CollectionKind:
    saver = SaverFormat(
        layout=layout,
        can=BACKEND.layouts[layout],
        store="ckpt_backends.mongodb.store:MongoStore",
        writable="ckpt_backends.mongodb.write:WritableMongoStore",
        threads=threads,
        thread_of=thread_of,
        newest_first={"checkpoint_id": -1},
        columns={"checkpoint": "", "metadata": metadata_type},
        time_field=time_field,
    )
    return CollectionKind(_CHECKPOINT | {time_field, *fields}, saver)


_OF_OFFICIAL = _kind("mongodb", "bson", "created_at")
_OF_JAVASCRIPT = _kind(JAVASCRIPT, "json", "upserted_at", "metadata_search")
_OF_WRITES = CollectionKind(
    frozenset({"_id", *KEY, "task_id", "task_path", "idx", "channel", "type", "value"})
    | {"created_at", "upserted_at"},
    table=WRITES,
)
_OF_MEMORY = CollectionKind(table=MEMORY)


def recognise(sample: CollectionSample) -> CollectionKind | None:
    """What a collection holds; None if no release of LangGraph wrote the document."""
    fields = sample.fields
    if not fields:
        return _by_indexes(sample)
    if {"task_id", "idx", "channel", "value", *KEY} <= fields.keys():
        return _OF_WRITES
    if "checkpoint" in sample.binary and fields.keys() >= {*KEY, "type"}:
        return _OF_OFFICIAL if fields.get("metadata") == "object" else _OF_JAVASCRIPT
    if fields.get("namespace") == "array" and {"key", "value"} <= fields.keys():
        return _OF_MEMORY
    return None


def _by_indexes(sample: CollectionSample) -> CollectionKind | None:
    """The kind of an empty collection, by the indexes that its saver created."""
    keys = set(sample.indexes.values())
    if (*KEY, "task_id", "idx") in keys:
        return _OF_WRITES
    if KEY in keys:
        return _OF_JAVASCRIPT if _INDEX_OF_JAVASCRIPT in sample.indexes else _OF_OFFICIAL
    if keys & {("namespace_str", "key"), ("namespace", "key")}:
        return _OF_MEMORY
    return None


# Faults of indexes and times to live in the collections of LangGraph's savers.
#
# The Python saver creates its indexes whenever it is opened, since 0.1.4. That of LangGraph.js
# does so in `setup()`, which an application may leave out. Source: `_create_saver_indexes` and
# `put` in `langgraph/checkpoint/mongodb/saver.py`, 0.1.0 to 0.5.1, and `setup` in `checkpoint.js`
# of @langchain/langgraph-checkpoint-mongodb 1.4.1.


_KEY: IndexKey = {"thread_id": 1, "checkpoint_ns": 1, "checkpoint_id": -1}
_TASK: IndexKey = {"task_id": 1, "idx": 1}
INDEXES: Mapping[str, Mapping[str, tuple[IndexKey, dict[str, Any]]]] = {
    "mongodb": {
        CHECKPOINTS: (_KEY, {"unique": True}),
        WRITES: ({**_KEY, **_TASK}, {"unique": True}),
    },
    JAVASCRIPT: {
        CHECKPOINTS: (_KEY, {"name": _INDEX_OF_JAVASCRIPT}),
        WRITES: ({**_KEY, "checkpoint_id": 1, **_TASK}, {"name": "thread_ns_checkpoint_task_idx"}),
    },
}
"""By layout and table, the key and the options of its index."""


def _creates_indexes(connection: MongoConnection, layout: MongoLayout) -> bool:
    """Whether a release from 0.1.4 on wrote the newest documents.

    Since 0.1.4, writes have a task path. Since 0.2.2, the leaves of metadata are arrays.
    """
    shown = {CHECKPOINTS: {"$isArray": "$metadata.source"}, WRITES: {"$type": "$task_path"}}
    return any(
        row["told"] in (True, "string")
        for table, name in layout.collections.items()
        for row in connection.aggregate(name, _outermost(-1, {"told": shown[table]}))
    )


def _outermost(order: int, shown: Stage) -> list[Stage]:
    """What is shown of the oldest document (order 1), or the newest one (-1)."""
    return [{"$sort": {"_id": order}}, {"$limit": 1}, {"$project": {"_id": 0, **shown}}]


# Finds the threads whose documents may contradict each other, in two sorted reads.
#
# The index of the saver has the order of both. Of writes it has all that is needed; of
# checkpoints, the server also reads the documents, but sends only their ids.


_ORDER = {"thread_id": 1, "checkpoint_ns": 1, "checkpoint_id": -1}


def _order_of(row: Any) -> tuple[int, Any]:
    """The place of its thread in MongoDB's order: numbers before texts, texts by their bytes."""
    thread_id = row.get("thread_id")
    if isinstance(thread_id, int | float) and not isinstance(thread_id, bool):
        return 0, thread_id
    return 1, text(thread_id).encode(errors="surrogateescape")


def _is_suspect(rows: Sequence[Any]) -> bool:
    checkpoints = [row for row in rows if "near" in row]
    there = {(row.get("checkpoint_ns"), row.get("checkpoint_id")) for row in checkpoints}
    for row in checkpoints:
        parent, own = row.get("parent_checkpoint_id"), text(row.get("checkpoint_id"))
        if row["near"]:
            return True
        if parent and ((row.get("checkpoint_ns"), parent) not in there or text(parent) >= own):
            return True
    if len({row.get("expires") for row in rows}) > 1:
        return True
    return any((row.get("checkpoint_ns"), row.get("checkpoint_id")) not in there for row in rows)


_IDS_PER_QUERY = 20_000
"""Ids in one query. They take about 1 MB; MongoDB's limit for a query is 16 MB."""


class MongoStore(MongoCheckpoints):
    """A database of LangGraph's Python or JavaScript saver, opened for reading."""

    @property
    def keys_expire(self) -> bool:
        return bool(self._layout.lifetimes)

    def _saver(self) -> str:
        kinds: set[str] = set()
        languages: set[str] = set()
        shown: Stage = {"kind": {"$type": "$metadata.source"}, "whole": {"$type": "$metadata"}}
        for order in (1, -1):
            for row in self._rows(self._layout.checkpoints, _outermost(order, shown)):
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

    def _within(self, bounds: ThreadBounds) -> list[Stage]:
        since, until = ids_between(bounds.since, bounds.until)
        newest = ({"$gte": since} if since else {}) | ({"$lt": until} if until else {})
        return [{"$match": {"newest": newest}}] if newest else []

    def metadata_with(
        self, thread_ids: Sequence[str], key: str, *, newest: bool = False
    ) -> Iterator[Checkpoint]:
        if not key.isidentifier() or self._layout.name == JAVASCRIPT:  # bytes, or a path
            yield from super().metadata_with(thread_ids, key, newest=newest)
            return
        forms = [form for one in thread_ids for form in stored_forms(one)]
        match = {"$and": [of_threads(forms), {f"metadata.{key}": {"$exists": True}}]}
        stages: list[Stage] = [{"$match": match}, {"$project": dict.fromkeys(KEY, 1)}]
        found: dict[str, list[CheckpointKey]] = {}
        for row in self._rows(self._layout.checkpoints, stages):
            place = CheckpointKey(*(text(row.get(name)) for name in KEY))
            found.setdefault(place.thread_id, []).append(place)
        for keys in found.values():
            last = max(keys, key=lambda one: one.checkpoint_id)
            yield from self.checkpoints_at([last] if newest else keys, metadata=True)

    def faults(self) -> Iterator[Fault]:
        yield from super().faults()
        layout, connection = self._layout, self._connection
        wanted = {name: INDEXES[layout.name][table] for table, name in layout.collections.items()}
        if layout.name == JAVASCRIPT:
            is_set_up = any(has_index(connection, name, key) for name, (key, _) in wanted.items())
        else:
            is_set_up = _creates_indexes(connection, layout)
        for name, (key, options) in wanted.items() if is_set_up else ():
            yield from missing_index(connection, name, key, **options)
        lifetime = next(iter(layout.lifetimes.values()), None)
        for name in wanted:
            if lifetime is not None and name not in layout.lifetimes:
                key = {layout.saver.time_field: 1}
                yield from missing_index(connection, name, key, expireAfterSeconds=int(lifetime))

    def thread_faults(self, thread_id: str) -> Iterator[Fault]:
        yield from super().thread_faults(thread_id)
        match = self._of(thread_id)
        if match is None or not self._expires_whole:
            return
        numbers: Counter[bool] = Counter()
        ones: dict[bool, Any] = {}
        first = {name: {"$first": f"${name}"} for name in KEY[1:]}
        stages: list[Stage] = [
            {"$match": match},
            {"$group": {"_id": self._has_time, "number": {"$sum": 1}, **first}},
        ]
        for name in self._layout.collections.values():
            for row in self._connection.aggregate(name, stages):
                numbers[bool(row["_id"])] += int(row["number"])
                ones[bool(row["_id"])] = row
        if len(numbers) < 2:
            return
        expires = numbers[True] < numbers[False]
        field = self._layout.saver.time_field
        words = "expire" if expires else f"have no {field}, so they do not expire"
        ns = own = None
        if numbers[expires] == 1:
            ns, own = (text(ones[expires].get(name)) for name in KEY[1:])
        detail = f"{numbers[expires]} of {numbers.total()} documents {words}"
        yield Fault("ttl-partial", detail, thread_id, ns, own)

    @property
    def _expires_whole(self) -> bool:
        """Whether indexes remove documents from all collections."""
        return self._layout.lifetimes.keys() == {*self._layout.collections.values()}

    @property
    def _has_time(self) -> Stage:
        """Whether a document has the time from which on it expires."""
        return {"$eq": [{"$type": f"${self._layout.saver.time_field}"}, "date"]}

    def suspect_threads(self) -> Iterator[str]:
        fields: Stage = {"_id": 0, **dict.fromkeys(_ORDER, 1)}
        if self._expires_whole:
            fields["expires"] = self._has_time
        own = {"near": IS_NEAR, "parent_checkpoint_id": 1}
        columns = {CHECKPOINTS: {**fields, **own}, WRITES: fields}
        found = (
            self._connection.aggregate(name, [{"$sort": _ORDER}, {"$project": columns[table]}])
            for table, name in self._layout.collections.items()
        )
        rows = (row for row in merge(*found, key=_order_of) if not is_staged(row.get("thread_id")))
        known: set[str] = set()
        for _, group in groupby(rows, key=_order_of):
            some = list(group)
            thread_id = text(some[0].get("thread_id"))
            if thread_id not in known and _is_suspect(some):
                known.add(thread_id)
                yield thread_id

    def expiries(
        self, thread_id: str, checkpoint_ns: str, checkpoint_ids: Collection[str]
    ) -> Iterator[Expiry]:
        found: dict[str, dict[str, datetime | None]] = {}
        layout = self._layout
        first = {"$min": {"$cond": [self._has_time, f"${layout.saver.time_field}", None]}}
        matches = self._matches(thread_id, checkpoint_ns, checkpoint_ids)
        for match in matches if self.keys_expire else ():
            for table, name in layout.collections.items():
                group = {"$group": {"_id": "$checkpoint_id", "at": first}}
                for row in self._rows(name, [{"$match": match}, group]):
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
        rows = self._rows(self._layout.checkpoints, namespaces(match))
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
        self, keys: Sequence[CheckpointKey], **options: Unpack[ReadOptions]
    ) -> Iterator[Checkpoint]:
        asked = CheckpointQuery(**options)
        stages: list[Stage] = [{"$project": _fields(asked)}]
        for key, row in self._at(keys, self._layout.checkpoints, stages, raw=asked.metadata):
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
        if not stored:
            return
        # This may also match other combinations of these threads, namespaces and ids.
        threads, spaces, ids = (list(dict.fromkeys(column)) for column in zip(*stored, strict=True))
        named = {"checkpoint_ns": {"$in": spaces}, "checkpoint_id": {"$in": ids}}
        stages = [{"$match": {**of_threads(threads), **named}}, *stages]
        for row in self._connection.aggregate(collection, stages, raw=raw):
            found = tuple(row.get(name) for name in KEY)
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
        self, keys: Sequence[CheckpointKey], **options: Unpack[WriteReadOptions]
    ) -> Iterator[Write]:
        if self._layout.writes is None:
            return
        asked = WriteQuery(**options)
        only = {} if asked.channels is None else {"channel": {"$in": storable_of(asked.channels)}}
        stages = [{"$match": only}, _read_writes(asked.values)]
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
        if match is None or not is_unicode(checkpoint_ns or ""):
            return
        collection = self._layout.writes if writes else self._layout.checkpoints
        spaces: list[Any] = [None] if checkpoint_ns is None else [checkpoint_ns]
        if collection and checkpoint_ns is None and (writes or len(ids or ()) > _IDS_PER_QUERY):
            spaces = [row["_id"] for row in self._rows(collection, namespaces(match))]
        for ns in spaces:
            of_ns = match if ns is None else {**match, "checkpoint_ns": ns}
            if ids is None:
                yield of_ns
            for chunk in in_chunks(ids or (), _IDS_PER_QUERY):
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
    read: Stage = {"$literal": values}
    if not isinstance(values, bool):
        read = {"$in": ["$channel", {"$literal": sorted(values)}]}
    return {
        "$project": {
            "_id": 0,
            **dict.fromkeys(fields, 1),
            "size": length("$value"),
            "read": read,
            "value": {"$cond": [read, "$value", "$$REMOVE"]},
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
