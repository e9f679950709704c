"""Reads the layouts of `langgraph-checkpoint-mongodb` 0.1 to 0.5, and of LangGraph.js.

A checkpoint is one document, with all values in its field `checkpoint`. Each write is a separate
document. Since 0.1.4, the savers create a unique index on thread, namespace and checkpoint id.
Queries here use the index if it exists, but work without it and never create it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Container, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from heapq import merge
from itertools import groupby
from typing import Any, ClassVar

from bson.raw_bson import RawBSONDocument

from ckpt_backends.base import BaseStore
from ckpt_backends.changes.rows import Row, not_of
from ckpt_backends.checkpoint_ids import time_of
from ckpt_backends.errors import StoreUnavailable
from ckpt_backends.model import (
    BlobKey,
    Capability,
    Checkpoint,
    CheckpointKey,
    StoreInfo,
    Thread,
    ThreadSize,
    TypedBytes,
    Usage,
    Write,
)
from ckpt_backends.mongodb.declaration import BACKEND
from ckpt_backends.mongodb.engine import pipelines
from ckpt_backends.mongodb.engine.connect import MongoConnection
from ckpt_backends.mongodb.layout import JAVASCRIPT, MongoLayout
from ckpt_backends.mongodb.restoring import document_of, key_of
from ckpt_backends.url import StoreUrl

_IDS_PER_QUERY = 20_000
"""Ids in one query. They take about 1 MB; MongoDB's limit for a query is 16 MB."""
_JAVASCRIPT = "LangGraph.js, @langchain/langgraph-checkpoint-mongodb"
_STANDALONE = "standalone server: one command may read data of different moments"
_NO_SNAPSHOT = "read without a transaction: one command may read data of different moments"


class MongoBase(BaseStore):
    """The common part of the stores for MongoDB's layouts."""

    sums_sizes = True

    _values: ClassVar[tuple[str, ...]]
    """The fields of a checkpoint that count as its size."""

    def __init__(self, connection: MongoConnection, url: StoreUrl, layout: MongoLayout) -> None:
        self._url = url
        self._layout = layout
        self._open: MongoConnection | None = connection
        self._addresses: dict[str, object] = {}

    def notes(self) -> Sequence[str]:
        found = []
        if self._layout.unknown:
            found.append(f"fields of an unknown saver: {', '.join(self._layout.unknown)}")
        if not self._connection.has_transactions:
            found.append(_STANDALONE)
        elif not self._connection.is_of_one_moment:
            found.append(_NO_SNAPSHOT)
        return found

    def _size_of(self, *collections: str | None) -> int | None:
        """Bytes on disk; None if the user has no permission to read them."""
        size = 0
        for name in collections:
            if name is None:
                continue
            try:
                found = self._connection.command("collStats", name)
            except StoreUnavailable:
                return None
            size += int(found.get("storageSize", 0)) + int(found.get("totalIndexSize", 0))
        return size

    def _of(self, thread_id: str) -> dict[str, Any] | None:
        """The condition for a thread's documents; None if the id cannot be stored.

        Savers before 0.4 store numeric ids as numbers. The text of the number finds such a thread,
        unless another thread has that text as its id.
        """
        if not storable(thread_id):
            return None
        if thread_id not in self._addresses:
            number = number_of(thread_id)
            self._addresses[thread_id] = (
                thread_id if number is None else self._text_or_number(thread_id, number)
            )
        return {"thread_id": self._addresses[thread_id]}

    def _text_or_number(self, text: str, number: int) -> object:
        for collection in reversed(self._layout.collections.values()):
            for value in (text, number):
                stages: list[pipelines.Stage] = [
                    {"$match": {"thread_id": value}},
                    {"$limit": 1},
                    {"$project": {"_id": 1}},
                ]
                if self._rows(collection, stages):
                    return value
        return text

    def size(self, thread_id: str) -> ThreadSize:
        (found,) = self.sizes([thread_id])
        return found

    def sizes(self, thread_ids: Sequence[str]) -> list[ThreadSize]:
        asked = [value for one in thread_ids for value in stored_forms(one)]
        layout = self._layout
        checkpoints = self._totals(layout.checkpoints, asked, *self._values)
        writes = {} if layout.writes is None else self._totals(layout.writes, asked, "$value")
        found = []
        for one in thread_ids:
            value = form_of(one, checkpoints, writes)
            number, size = checkpoints.get(value, (0, 0))
            of_writes, size_of_writes = writes.get(value, (0, 0))
            found.append(ThreadSize(number, of_writes, size + size_of_writes))
        return found

    def _totals(
        self, collection: str, threads: Sequence[object], *fields: str
    ) -> dict[object, tuple[int, int]]:
        rows = self._rows(collection, pipelines.totals(threads, *fields))
        return {row["_id"]: (int(row["number"]), int(row["bytes"])) for row in rows}

    def checkpoint_sizes(self, thread_id: str) -> Iterator[tuple[CheckpointKey, ThreadSize]]:
        match = self._of(thread_id)
        if match is None:
            return
        layout = self._layout
        stages = pipelines.checkpoint_sizes(match, *self._values)
        for row in self._connection.aggregate(layout.checkpoints, stages):
            yield _key(thread_id, row["_id"]), ThreadSize(int(row["number"]), 0, int(row["bytes"]))
        if layout.writes is not None:
            stages = pipelines.checkpoint_sizes(match, "$value")
            for row in self._connection.aggregate(layout.writes, stages):
                yield (
                    _key(thread_id, row["_id"]),
                    ThreadSize(0, int(row["number"]), int(row["bytes"])),
                )

    def blobs(self, thread_id: str) -> Iterator[tuple[BlobKey, int]]:  # noqa: ARG002
        """Empty: these layouts store values in the bodies."""
        yield from ()

    def rows(self, thread_id: str) -> Iterator[Row]:
        match = self._of(thread_id)
        if match is None:
            return
        for table, name in self._layout.collections.items():
            for document in self._connection.aggregate(name, [{"$match": match}], raw=True):
                yield Row(table, {"bson": bytes(document.raw)})

    def own_rows(self, thread_id: str, rows: Iterable[Row]) -> Iterator[Row]:
        forms = stored_forms(thread_id)
        for row in rows:
            found = document_of(self._layout, row).get("thread_id")
            if isinstance(found, bool) or found not in forms:
                raise not_of(row.table, found, thread_id)
            yield row

    def row_key(self, row: Row) -> Hashable:
        return key_of(self._layout, row)

    def refresh(self) -> None:
        self._connection.restart()
        self._addresses.clear()

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    @property
    def _connection(self) -> MongoConnection:
        if self._open is None:
            raise StoreUnavailable(f"'{self._url}' is closed")
        return self._open

    def _rows(self, collection: str, stages: Sequence[pipelines.Stage]) -> list[Any]:
        return list(self._connection.aggregate(collection, stages))


class MongoStore(MongoBase):
    """A database of LangGraph's Python or JavaScript saver, opened for reading."""

    _values = ("$checkpoint", "$metadata")

    def describe(self) -> StoreInfo:
        layout = self._layout
        can = BACKEND.layouts[layout.name] & ~(
            Capability.ADDING if layout.unknown else Capability(0)
        )
        return StoreInfo(
            layout=layout.name,
            url=str(self._url),
            engine=f"MongoDB {self._connection.version}",
            saver=_JAVASCRIPT if layout.name == JAVASCRIPT else _saver(self._generations()),
            capabilities=can,
            tables=tuple(
                f"{layout.database}.{name}" for name in (layout.checkpoints, layout.writes) if name
            ),
            size=self._size_of(layout.checkpoints, layout.writes),
            notes=tuple(self.notes()),
        )

    def notes(self) -> Sequence[str]:
        found = list(super().notes())
        if self._layout.writes is None:
            found.append("no collection of writes found: add ?writes_collection=NAME to the URL")
        return found

    def _generations(self) -> set[str]:
        """The BSON types of `metadata.source` in the first and in the last stored checkpoint."""
        found: set[str] = set()
        for order in (1, -1):
            stages: list[pipelines.Stage] = [
                {"$sort": {"_id": order}},
                {"$limit": 1},
                {"$project": {"_id": 0, "kind": {"$type": "$metadata.source"}}},
            ]
            found |= {row["kind"] for row in self._rows(self._layout.checkpoints, stages)}
        return found

    def threads(self, *, limit: int | None = None) -> Iterator[Thread]:
        stages = pipelines.threads({}, limit)
        found = self._connection.aggregate(
            self._layout.checkpoints, stages, hint=self._layout.index
        )
        yield from map(thread_of, found)

    def thread(self, thread_id: str) -> Thread | None:
        match = self._of(thread_id)
        if match is None:
            return None
        stages = pipelines.threads(pipelines.of_threads([match["thread_id"]]), None)
        rows = self._rows(self._layout.checkpoints, stages)
        return thread_of(rows[0]) if rows else None

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

    def namespaces(self, thread_id: str) -> list[str]:
        match = self._of(thread_id)
        if match is None:
            return []
        rows = self._rows(self._layout.checkpoints, pipelines.namespaces(match))
        return [text(row["_id"]) for row in rows]

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
        fields = _fields(body=body, metadata=metadata)
        for match in self._matches(thread_id, checkpoint_ns, checkpoint_ids):
            stages = [
                {"$match": match},
                {"$sort": {"checkpoint_ns": 1, "checkpoint_id": -1}},
                {"$project": fields},
            ]
            for row in self._connection.aggregate(self._layout.checkpoints, stages, raw=metadata):
                yield _checkpoint(_key(thread_id, row), row, body=body, metadata=metadata)

    def checkpoints_at(
        self, keys: Sequence[CheckpointKey], *, body: bool = False, metadata: bool = False
    ) -> Iterator[Checkpoint]:
        stages: list[pipelines.Stage] = [{"$project": _fields(body=body, metadata=metadata)}]
        for key, row in self._at(keys, self._layout.checkpoints, stages, raw=metadata):
            yield _checkpoint(key, row, body=body, metadata=metadata)

    def _at(
        self,
        keys: Sequence[CheckpointKey],
        collection: str,
        stages: Sequence[pipelines.Stage],
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

    def writes(
        self,
        thread_id: str,
        *,
        checkpoint_ns: str | None = None,
        checkpoint_ids: Collection[str] | None = None,
        channels: Collection[str] | None = None,
        values: bool | Collection[str] = False,
    ) -> Iterator[Write]:
        if self._layout.writes is None:
            return
        only = {} if channels is None else {"channel": {"$in": storable_of(channels)}}
        # This order uses the index. The writes of each checkpoint are sorted below.
        order = {"checkpoint_id": 1, "task_id": -1, "idx": -1}
        for match in self._matches(thread_id, checkpoint_ns, checkpoint_ids, writes=True):
            stages = [{"$match": {**match, **only}}, {"$sort": order}, _read_writes(values)]
            rows = self._connection.aggregate(self._layout.writes, stages)
            for _, group in groupby(rows, key=_id):
                yield from sorted((_write(_key(thread_id, row), row) for row in group), key=_order)

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

    def sources(self, key: CheckpointKey) -> list[str]:
        found = {
            "thread_id": (self._of(key.thread_id) or {}).get("thread_id", key.thread_id),
            "checkpoint_ns": key.checkpoint_ns,
            "checkpoint_id": key.checkpoint_id,
        }
        return [
            shell_query(name, found)
            for name in (self._layout.checkpoints, self._layout.writes)
            if name
        ]


def shell_query(collection: str, condition: dict[str, Any]) -> str:
    """A query for MongoDB's shell."""
    return f"db.getCollection({json.dumps(collection)}).find({json.dumps(condition)})"


def text(value: object) -> str:
    """The field as text. An old or hostile store may have stored another type."""
    if isinstance(value, str):
        return str.__str__(value)  # `bson.code.Code` is an unhashable subclass of str
    return "" if value is None else str(value)


def number_of(thread_id: str) -> int | None:
    """The number as which a thread id may be stored; None if it can only be a text."""
    with suppress(ValueError):
        number = int(thread_id)
        if str(number) == thread_id and abs(number) < 1 << 63:
            return number
    return None


def stored_forms(thread_id: str) -> list[object]:
    """The forms in which a thread id may be stored, the most likely first; empty if none."""
    if not storable(thread_id):
        return []
    number = number_of(thread_id)
    return [thread_id] if number is None else [thread_id, number]


def form_of(thread_id: str, checkpoints: Container[object], writes: Container[object]) -> object:
    """The stored form of a thread id.

    `checkpoints` and `writes` contain the stored thread ids that have checkpoints and writes.
    """
    for found in (checkpoints, writes):
        for value in stored_forms(thread_id):
            if value in found:
                return value
    return thread_id


def storable(value: str) -> bool:
    """Whether MongoDB can store a text. Lone surrogates cannot be encoded in UTF-8."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def storable_of(values: Iterable[str], *, newest: bool = True) -> list[str]:
    """The texts that MongoDB can store, without duplicates, in descending order if `newest`."""
    return sorted({one for one in values if storable(one)}, reverse=newest)


def typed(tag: object, value: object) -> TypedBytes:
    """A value as stored."""
    if isinstance(value, bytes):
        return TypedBytes(text(tag), bytes(value))
    return TypedBytes(text(tag), b"", problem="expected bytes as value")


def metadata_of(value: object) -> TypedBytes:
    """Metadata as stored: a document, or the bytes that LangGraph.js stores."""
    if isinstance(value, RawBSONDocument):
        return TypedBytes("bson", bytes(value.raw))
    return TypedBytes("json", bytes(value) if isinstance(value, bytes) else b"null")


def thread_of(row: Any) -> Thread:
    """The thread from a document that `pipelines.threads` returned."""
    head = row["head"]
    return Thread(
        text(row["_id"]),
        None if head is None else text(head),
        time_of(text(row["oldest"])),
        time_of(text(row["newest"])),
        int(row["number"]),
        int(row["namespaces"]),
    )


def _id(row: Any) -> str:
    return text(row.get("checkpoint_id"))


def _key(thread_id: str, row: Any) -> CheckpointKey:
    return CheckpointKey(thread_id, text(row.get("checkpoint_ns")), _id(row))


def _fields(*, body: bool, metadata: bool) -> pipelines.Stage:
    """The fields of a checkpoint."""
    fields = ["thread_id", "checkpoint_ns", "checkpoint_id", "parent_checkpoint_id"]
    fields += ["type", "checkpoint"] if body else []
    fields += ["metadata"] if metadata else []
    return {"_id": 0, **dict.fromkeys(fields, 1)}


def _checkpoint(key: CheckpointKey, row: Any, *, body: bool, metadata: bool) -> Checkpoint:
    parent = row.get("parent_checkpoint_id")
    return Checkpoint(
        key,
        text(parent) if parent else None,
        typed(row.get("type"), row.get("checkpoint")) if body else None,
        metadata_of(row.get("metadata")) if metadata else None,
    )


def _read_writes(values: bool | Collection[str]) -> pipelines.Stage:
    """The stage with the fields of a write, including its value if `values` selects it."""
    fields = ["thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "task_path"]
    fields += ["idx", "channel", "type"]
    value = pipelines.wanted("$value", values)
    return {
        "$project": {
            "_id": 0,
            **dict.fromkeys(fields, 1),
            "size": pipelines.length("$value"),
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
        typed(row.get("type"), row.get("value")) if row["read"] else None,
    )


def _saver(kinds: set[str]) -> str:
    """The release that wrote the metadata, by the BSON types of the leaves."""
    old, new = "binData" in kinds, "array" in kinds
    if old and new:
        return "langgraph-checkpoint-mongodb before and after 0.2.2; no release reads both"
    return f"langgraph-checkpoint-mongodb {'0.1 to 0.2.1' if old else '0.2.2 or later'}"
