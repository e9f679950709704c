"""Replaces values in the documents of LangGraph's savers.

What fits into one transaction is replaced in one. A larger thread, and all on a server without
transactions, is replaced document by document.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from bson.raw_bson import RawBSONDocument
from pymongo import UpdateOne
from pymongo.client_session import ClientSession

from ckpt_backends.changes.change import Change, moved
from ckpt_backends.errors import Unsupported
from ckpt_backends.mongodb.engine.connect import BY_BYTES, MongoConnection
from ckpt_backends.mongodb.engine.layout import CHECKPOINTS, WRITES, MongoLayout
from ckpt_backends.mongodb.engine.receiving import Document, Lock
from ckpt_backends.transfer.parts import (
    CheckpointPart,
    Part,
    PartRewrite,
    ValuePart,
    WritePart,
    part_size,
)

_AT_ONCE = 16 << 20
"""Bytes of one transaction. MongoDB before 4.2 writes a transaction as one document of its log."""
_PER_COMMAND = 4 << 20


class Rewriter:
    """Replaces values in the collections of one layout."""

    def __init__(self, connection: MongoConnection, layout: MongoLayout, lock: Lock) -> None:
        """`lock` makes transactions fail that change the same thread at the same time."""
        self._connection = connection
        self._layout = layout
        self._lock = lock

    def rewrite(self, thread_id: str, rewrites: Iterable[PartRewrite]) -> None:
        """See `WritableStore.rewrite`. Raises `PyMongoError`, too."""
        left = iter(rewrites)
        first: list[PartRewrite] = []
        size = 0
        for one in left:
            first.append(one)
            size += part_size(one.new)
            if size > _AT_ONCE:
                break
        if size <= _AT_ONCE and self._connection.has_transactions:
            with self._connection.transaction() as session:
                self._lock(thread_id, session)
                self._replace(thread_id, first, session)
            return
        self._replace(thread_id, chain(first, left), None)

    def _replace(
        self, thread_id: str, rewrites: Iterable[PartRewrite], session: ClientSession | None
    ) -> None:
        for table, updates in _batches(rewrites):
            found: Any = self._connection.raw(self._layout.collections[table])
            done = found.bulk_write(updates, session=session)
            if done.matched_count != len(updates):
                raise moved(Change(thread_id, {}))


def _batches(rewrites: Iterable[PartRewrite]) -> Iterator[tuple[str, list[UpdateOne]]]:
    """Yield the updates of a table, at most some MB at a time."""
    batches: dict[str, list[UpdateOne]] = {}
    sizes: dict[str, int] = {}
    for one in rewrites:
        table = CHECKPOINTS if isinstance(one.new, CheckpointPart) else WRITES
        batches.setdefault(table, []).append(_update(one))
        sizes[table] = sizes.get(table, 0) + part_size(one.stored) + part_size(one.new)
        if sizes[table] > _PER_COMMAND:
            yield table, batches.pop(table)
            sizes[table] = 0
    yield from batches.items()


def _update(one: PartRewrite) -> UpdateOne:
    old, new = _fields(one.stored), _fields(one.new)
    changed = {name: value for name, value in new.items() if value != old[name]}
    as_read = {name: old[name] for name in changed}
    return UpdateOne({**_key(one.stored), **as_read}, {"$set": changed}, collation=BY_BYTES)


def _fields(part: Part) -> Document:
    """The fields with the values of a part."""
    if isinstance(part, WritePart):
        return {"type": part.value.type, "value": part.value.data}
    if isinstance(part, ValuePart):
        raise Unsupported("MongoDB stores values in bodies")
    metadata = part.metadata
    is_document = metadata.type == "bson"
    return {
        "type": part.body.type,
        "checkpoint": part.body.data,
        "metadata": RawBSONDocument(metadata.data) if is_document else metadata.data,
    }


def _key(part: Part) -> Document:
    if isinstance(part, ValuePart):
        raise Unsupported("MongoDB stores values in bodies")
    found = {
        "thread_id": part.key.thread_id,
        "checkpoint_ns": part.key.checkpoint_ns,
        "checkpoint_id": part.key.checkpoint_id,
    }
    if isinstance(part, WritePart):
        return {**found, "task_id": part.task_id, "idx": part.idx}
    return found
