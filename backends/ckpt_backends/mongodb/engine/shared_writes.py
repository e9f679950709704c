"""Leaves out writes of other savers that share a collection of writes.

`MongoDBSaver(client, checkpoint_collection_name="checkpoints_b")` keeps the default name of the
collection of writes. So two savers of a database may have checkpoints apart and writes together,
and a write without a checkpoint in one collection may be a question that waits in another one.

A write names its thread, namespace and checkpoint, but no collection. It is another saver's if that
checkpoint is in another collection and not in the store's own. The other collections are looked for
when they are needed first: most databases have none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

from ckpt_backends.mongodb.engine import pipelines
from ckpt_backends.mongodb.engine.catalog import MOST_LOOKED_AT, examine
from ckpt_backends.mongodb.engine.connect import MongoConnection
from ckpt_backends.mongodb.engine.fields import text
from ckpt_backends.mongodb.engine.layout import KEY, MongoLayout

_Key = tuple[object, str, str]
Read = Callable[[str, Sequence[pipelines.Stage]], Iterable[Any]]
"""Runs an aggregation on a collection, by its name."""


class SharedWrites:
    """The other collections of checkpoints, whose writes may be in the store's own collection."""

    def __init__(self, connection: MongoConnection, layout: MongoLayout) -> None:
        self._connection = connection
        self._layout = layout

    @cached_property
    def _others(self) -> list[str]:
        """The collections with checkpoints of other savers that store writes."""
        layout = self._layout
        if layout.writes is None or layout.saver.key != KEY:
            return []
        own = set(layout.collections.values())
        names = [name for name in self._connection.collections() if name not in own]
        return [
            one.name
            for one in examine(self._connection, names[:MOST_LOOKED_AT])
            if one.kind.saver is not None and one.kind.saver.key == KEY
        ]

    def left_out(self, threads: Sequence[object], read: Read) -> dict[str, Any]:
        """The condition that leaves out other savers' writes of some threads; often empty.

        `threads` are ids as stored.
        """
        keys: set[_Key] = set()
        for name in self._others:
            keys |= _keys(name, threads, read)
        if keys:
            keys -= _keys(self._layout.checkpoints, threads, read)
        by_space: dict[tuple[object, str], list[str]] = {}
        for thread_id, ns, own in sorted(keys, key=str):
            by_space.setdefault((thread_id, ns), []).append(own)
        if not by_space:
            return {}
        return {
            "$nor": [
                {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": {"$in": ids}}
                for (thread_id, ns), ids in by_space.items()
            ]
        }


def _keys(collection: str, threads: Sequence[object], read: Read) -> set[_Key]:
    """The checkpoints of these threads in a collection."""
    stages: list[pipelines.Stage] = [
        {"$match": pipelines.of_threads(threads)},
        {"$project": {"_id": 0, **dict.fromkeys(KEY, 1)}},
    ]
    return {
        (row.get("thread_id"), text(row.get("checkpoint_ns")), text(row.get("checkpoint_id")))
        for row in read(collection, stages)
        if isinstance(row.get("thread_id"), str | int | float)
    }
