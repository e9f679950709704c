"""Recognises the collections of LangGraph's savers and of its MongoDBStore by their documents.

The names of collections are arguments of the savers, so they cannot identify a layout.

| layout | saver | documents |
|---|---|---|
| `mongodb` | langgraph-checkpoint-mongodb | `checkpoint` bytes, `metadata` a document; writes |
| `mongodb-js` | LangGraph.js | `checkpoint` and `metadata` bytes of JSON; writes |

The leaves of `metadata` are serialised; source: `langgraph/checkpoint/mongodb/utils.py`.
"""

from __future__ import annotations

from ckpt_backends.mongodb.declaration import BACKEND
from ckpt_backends.mongodb.engine.layout import (
    KEY,
    MEMORY,
    WRITES,
    CollectionKind,
    CollectionSample,
    SaverFormat,
)
from ckpt_backends.mongodb.pipelines import thread_of, threads

JAVASCRIPT = "mongodb-js"
_INDEX_OF_JAVASCRIPT = "thread_ns_checkpoint_idx"
"""LangGraph.js creates it since 1.4. Source: `setup` and `put` in `checkpoint.js` of
@langchain/langgraph-checkpoint-mongodb 1.4.1."""
_CHECKPOINT = frozenset({"_id", *KEY, "parent_checkpoint_id", "type", "checkpoint", "metadata"})


def _kind(layout: str, time_field: str, *fields: str) -> CollectionKind:
    saver = SaverFormat(
        layout=layout,
        can=BACKEND.layouts[layout],
        store="ckpt_backends.mongodb.read:MongoStore",
        writable="ckpt_backends.mongodb.write:WritableMongoStore",
        threads=threads,
        thread_of=thread_of,
        newest_first={"checkpoint_id": -1},
        time_field=time_field,
    )
    return CollectionKind(_CHECKPOINT | {time_field, *fields}, saver)


_OF_OFFICIAL = _kind("mongodb", "created_at")
_OF_JAVASCRIPT = _kind(JAVASCRIPT, "upserted_at", "metadata_search")
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
