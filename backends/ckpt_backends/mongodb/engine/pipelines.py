"""The aggregation pipelines that read a store.

Texts of users and stores are never interpreted as operators. In `$match`, a value that is not a
document is always a literal. Elsewhere, a text that begins with `$` would be the name of a field,
so such texts are wrapped in `$literal`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

Stage = dict[str, Any]


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
        {"$sort": {"newest": -1, "_id": 1}},
        *([{"$limit": limit}] if limit is not None else []),
    ]


def namespaces(match: Mapping[str, Any]) -> list[Stage]:
    """The namespaces of the documents that match, sorted."""
    return [
        {"$match": match},
        {"$group": {"_id": "$checkpoint_ns"}},
        {"$sort": {"_id": 1}},
    ]


def length(field: str) -> Stage:
    """The stored bytes of a field: of bytes, a text or a document; 0 for other types."""
    kind = {"$type": field}
    return {
        "$switch": {
            "branches": [
                {"case": {"$in": [kind, ["binData", "string"]]}, "then": {"$binarySize": field}},
                {"case": {"$eq": [kind, "object"]}, "then": {"$bsonSize": field}},
            ],
            "default": 0,
        }
    }


def of_threads(threads: Sequence[object]) -> dict[str, Any]:
    """The condition for documents of some threads.

    It excludes documents in which `thread_id` is a list that contains one of them.
    """
    return {"thread_id": {"$in": threads, "$not": {"$type": "array"}}}


def of_checkpoints(keys: Collection[tuple[object, str, str]]) -> dict[str, Any]:
    """A condition for documents of some checkpoints, given as (thread, namespace, id).

    It may also match other combinations of these threads, namespaces and ids.
    """
    threads, spaces, ids = (list({key[n]: None for key in keys}) for n in range(3))
    wanted = {"checkpoint_ns": {"$in": spaces}, "checkpoint_id": {"$in": ids}}
    return {**of_threads(threads), **wanted}


def totals(threads: Sequence[object], *fields: str) -> list[Stage]:
    """The number of documents of each thread, and the bytes of these fields."""
    return [
        {"$match": of_threads(threads)},
        {
            "$group": {
                "_id": "$thread_id",
                "number": {"$sum": 1},
                "bytes": {"$sum": {"$add": [0, *map(length, fields)]}},
            }
        },
    ]


def checkpoint_sizes(match: Mapping[str, Any], *fields: str) -> list[Stage]:
    """The number of documents of each checkpoint, and the bytes of these fields."""
    return [
        {"$match": match},
        {
            "$group": {
                "_id": {"checkpoint_ns": "$checkpoint_ns", "checkpoint_id": "$checkpoint_id"},
                "number": {"$sum": 1},
                "bytes": {"$sum": {"$add": [0, *map(length, fields)]}},
            }
        },
    ]


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
