"""Documents that are almost as large as MongoDB allows, and collections with much unused space."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ckpt_backends.errors import StoreUnavailable
from ckpt_backends.model import Fault
from ckpt_backends.mongodb.engine.connect import MongoConnection
from ckpt_backends.mongodb.engine.fields import text
from ckpt_backends.mongodb.engine.pipelines import Stage

_MOST = 16 << 20
"""MongoDB's limit for a document, in bytes."""
NEAR = _MOST * 3 // 4
_FREE = 64 << 20
_FREE_PART = 4
"""Unused space is reported if it is more than 64 MiB, and more than a quarter of the collection."""
IS_NEAR: Stage = {"$gt": [{"$bsonSize": "$$ROOT"}, {"$literal": NEAR}]}
"""Whether a document is near the limit."""
_ABOUT = ("checkpoint_ns", "checkpoint_id", "task_id", "channel")


def near_limit(
    connection: MongoConnection, collection: str, thread_id: str, match: Mapping[str, Any]
) -> Iterator[Fault]:
    """`document-near-limit` for the documents of a thread that match. The server measures them."""
    stages: list[Stage] = [
        {"$match": {**match, "$expr": IS_NEAR}},
        {"$project": {"_id": 0, **dict.fromkeys(_ABOUT, 1), "size": {"$bsonSize": "$$ROOT"}}},
    ]
    for row in connection.aggregate(collection, stages):
        size = f"{int(row['size']) / (1 << 20):.1f}"
        channel, task_id = (text(row.get(name)) or None for name in ("channel", "task_id"))
        yield Fault(
            "document-near-limit",
            f"a document of {size} MiB; MongoDB stores at most {_MOST >> 20} MiB",
            thread_id,
            text(row.get("checkpoint_ns")),
            text(row.get("checkpoint_id")),
            channel,
            task_id,
        )


def unused_space(connection: MongoConnection, collections: Iterable[str]) -> Iterator[Fault]:
    """`space-free` for collections of which much is unused, as far as the user may read this.

    There is no fix: `compact` gives back what lies at the end of a file, which may be nothing.
    """
    for name in collections:
        try:
            found = connection.command("collStats", name)
        except StoreUnavailable:
            continue
        size, free = (int(found.get(one) or 0) for one in ("storageSize", "freeStorageSize"))
        if free > max(_FREE, size // _FREE_PART):
            yield Fault(
                "space-free",
                f"{free >> 20} of {size >> 20} MiB of collection '{name}' are unused;"
                f' db.runCommand({{compact: "{name}"}}) may give some back',
            )
