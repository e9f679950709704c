"""The aggregation pipelines for the collections of LangGraph's savers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ckpt_backends.model import Thread
from ckpt_backends.mongodb.engine.fields import text
from ckpt_backends.mongodb.engine.pipelines import Stage, length, of_threads


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
        # Documents on their way; see `staging`. The server may do this first, over the index.
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


def first_times(match: Mapping[str, Any], field: str) -> list[Stage]:
    """By checkpoint id, the first time in a field of its documents; null if one has none."""
    at = {"$cond": [{"$eq": [{"$type": f"${field}"}, "date"]}, f"${field}", None]}
    return [
        {"$match": match},
        {"$project": {"checkpoint_id": 1, "at": at}},
        {"$group": {"_id": "$checkpoint_id", "at": {"$min": "$at"}}},
    ]


def of_checkpoints(keys: Collection[tuple[object, str, str]]) -> dict[str, Any]:
    """A condition for documents of some checkpoints, given as (thread, namespace, id).

    It may also match other combinations of these threads, namespaces and ids.
    """
    threads, spaces, ids = (list({key[n]: None for key in keys}) for n in range(3))
    wanted = {"checkpoint_ns": {"$in": spaces}, "checkpoint_id": {"$in": ids}}
    return {**of_threads(threads), **wanted}


def usage(
    match: Mapping[str, Any], field: str, by: Mapping[str, Any], also: Mapping[str, str]
) -> list[Stage]:
    """The bytes of a field, grouped by thread, `also` and `by`, and sorted by thread.

    `also` maps names to expressions over the documents.
    """
    kept = {name: f"${name}" for name in also}
    return [
        *([{"$match": match}] if match else []),
        {"$project": {"_id": 0, "thread_id": 1, "size": length(field), **also}},
        {
            "$group": {
                "_id": {"thread": "$thread_id", **kept, **by},
                "number": {"$sum": 1},
                "bytes": {"$sum": "$size"},
            }
        },
        {"$sort": {"_id.thread": 1}},
    ]


def wanted(field: str, values: bool | Collection[str]) -> Stage | str | None:
    """The expression that returns a field for the selected channels; None if it is never read.

    `values` is the parameter of `Store.writes`.
    """
    if isinstance(values, bool):
        return field if values else None
    return {"$cond": [_is_one_of(values), field, "$$REMOVE"]}


def is_read(values: bool | Collection[str]) -> Stage:
    """The expression that tells whether `wanted` returns the field of a document."""
    return {"$literal": values} if isinstance(values, bool) else _is_one_of(values)


def _is_one_of(channels: Collection[str]) -> Stage:
    return {"$in": ["$channel", {"$literal": sorted(channels)}]}
