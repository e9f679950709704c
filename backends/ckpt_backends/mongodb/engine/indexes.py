"""Indexes that a saver creates and that are missing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from ckpt_backends.model import Fault
from ckpt_backends.mongodb.engine.connect import MongoConnection

IndexKey = Mapping[str, int]
"""The fields of an index in their order, each with 1 or -1."""


def has_index(connection: MongoConnection, collection: str, key: IndexKey) -> bool:
    """Whether a collection has an index with exactly this key."""
    found = (list(one["key"].items()) for one in connection.indexes(collection))
    return list(key.items()) in found


def missing_index(
    connection: MongoConnection, collection: str, key: IndexKey, **options: object
) -> Iterator[Fault]:
    """`index-missing`, if a collection has no index with this key; `options` are for the fix.

    A view has none, and can have none.
    """
    if collection in connection.views or has_index(connection, collection, key):
        return
    words = [json.dumps(dict(key)), *([json.dumps(options)] if options else [])]
    yield Fault(
        "index-missing",
        f"collection '{collection}' has no index on {', '.join(key)}",
        fix=f"db.getCollection({json.dumps(collection)}).createIndex({', '.join(words)})",
    )
