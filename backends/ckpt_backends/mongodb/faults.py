"""Faults of indexes and times to live in the collections of LangGraph's savers.

The Python saver creates its indexes whenever it is opened, since 0.1.4. That of LangGraph.js does
so in `setup()`, which an application may leave out. Source: `_create_saver_indexes` and `put` in
`langgraph/checkpoint/mongodb/saver.py`, 0.1.0 to 0.5.1, and `setup` in `checkpoint.js` of
@langchain/langgraph-checkpoint-mongodb 1.4.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ckpt_backends.model import Fault
from ckpt_backends.mongodb.engine.connect import MongoConnection
from ckpt_backends.mongodb.engine.fields import text
from ckpt_backends.mongodb.engine.indexes import IndexKey, has_index, missing_index
from ckpt_backends.mongodb.engine.layout import CHECKPOINTS, WRITES, MongoLayout
from ckpt_backends.mongodb.engine.pipelines import Stage
from ckpt_backends.mongodb.recognise import JAVASCRIPT

_KEY: IndexKey = {"thread_id": 1, "checkpoint_ns": 1, "checkpoint_id": -1}
_TASK: IndexKey = {"task_id": 1, "idx": 1}
OF_PYTHON: Mapping[str, IndexKey] = {CHECKPOINTS: _KEY, WRITES: {**_KEY, **_TASK}}
OF_JAVASCRIPT: Mapping[str, IndexKey] = {
    CHECKPOINTS: _KEY,
    WRITES: {**_KEY, "checkpoint_id": 1, **_TASK},
}
INDEX_NAMES = {CHECKPOINTS: "thread_ns_checkpoint_idx", WRITES: "thread_ns_checkpoint_task_idx"}


def index_faults(connection: MongoConnection, layout: MongoLayout) -> Iterator[Fault]:
    """`index-missing` for the indexes that the saver of this store certainly created."""
    collections = layout.collections
    if layout.name == JAVASCRIPT:
        wanted = {name: OF_JAVASCRIPT[table] for table, name in collections.items()}
        if any(has_index(connection, name, key) for name, key in wanted.items()):
            for table, name in collections.items():
                yield from missing_index(connection, name, wanted[name], name=INDEX_NAMES[table])
    elif _creates_indexes(connection, layout):
        for table, name in collections.items():
            yield from missing_index(connection, name, OF_PYTHON[table], unique=True)
    lifetime = next(iter(layout.lifetimes.values()), None)
    for name in collections.values():
        if lifetime is not None and name not in layout.lifetimes:
            key = {layout.saver.time_field: 1}
            yield from missing_index(connection, name, key, expireAfterSeconds=int(lifetime))


def _creates_indexes(connection: MongoConnection, layout: MongoLayout) -> bool:
    """Whether a release from 0.1.4 on wrote the newest documents.

    Since 0.1.4, writes have a task path. Since 0.2.2, the leaves of metadata are arrays.
    """
    shown = {CHECKPOINTS: {"$isArray": "$metadata.source"}, WRITES: {"$type": "$task_path"}}
    for table, name in layout.collections.items():
        stages: list[Stage] = [
            {"$sort": {"_id": -1}},
            {"$limit": 1},
            {"$project": {"_id": 0, "told": shown[table]}},
        ]
        if any(row["told"] in (True, "string") for row in connection.aggregate(name, stages)):
            return True
    return False


def is_expiring(layout: MongoLayout) -> bool:
    """Whether indexes remove documents from all collections of a store."""
    return layout.lifetimes.keys() == {*layout.collections.values()}


def expiry_faults(
    connection: MongoConnection, layout: MongoLayout, thread_id: str, match: Mapping[str, Any]
) -> Iterator[Fault]:
    """`ttl-partial`, if some documents of a thread expire and others do not.

    Only for a store that `is_expiring`.
    """
    field = layout.saver.time_field
    groups: dict[bool, list[Any]] = {True: [], False: []}
    stages: list[Stage] = [
        {"$match": match},
        {
            "$group": {
                "_id": {"$eq": [{"$type": f"${field}"}, "date"]},
                "number": {"$sum": 1},
                "checkpoint_ns": {"$first": "$checkpoint_ns"},
                "checkpoint_id": {"$first": "$checkpoint_id"},
            }
        },
    ]
    for name in layout.collections.values():
        for row in connection.aggregate(name, stages):
            groups[bool(row["_id"])].append(row)
    if not all(groups.values()):
        return
    numbers = {key: sum(int(row["number"]) for row in rows) for key, rows in groups.items()}
    expires = numbers[True] < numbers[False]
    number = numbers[expires]
    words = "expire" if expires else f"have no {field}, so they do not expire"
    ns = own = None
    if number == 1:
        ns, own = (text(groups[expires][0].get(one)) for one in ("checkpoint_ns", "checkpoint_id"))
    detail = f"{number} of {sum(numbers.values())} documents {words}"
    yield Fault("ttl-partial", detail, thread_id, ns, own)
