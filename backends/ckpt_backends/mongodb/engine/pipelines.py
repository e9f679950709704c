"""Parts of the aggregation pipelines that read stores.

Texts of users and stores are never interpreted as operators. In `$match`, a value that is not a
document is always a literal. Elsewhere, a text that begins with `$` would be the name of a field,
so such texts are wrapped in `$literal`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Stage = dict[str, Any]


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


def totals(match: Mapping[str, Any], by: str | Mapping[str, Any], *fields: str) -> list[Stage]:
    """The number of documents that match, and the bytes of these fields, for each value of `by`."""
    size = {"$sum": {"$add": [0, *map(length, fields)]}}
    return [{"$match": match}, {"$group": {"_id": by, "number": {"$sum": 1}, "bytes": size}}]
