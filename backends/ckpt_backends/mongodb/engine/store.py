"""Reads what the layouts on MongoDB have in common: threads, sizes, rows and their keys."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ckpt_backends.base import BaseStore, OnConnection
from ckpt_backends.changes.rows import Row, not_of
from ckpt_backends.errors import StoreUnavailable
from ckpt_backends.model import (
    Capability,
    CheckpointKey,
    Fault,
    HiddenRows,
    StoreInfo,
    Thread,
    ThreadSize,
)
from ckpt_backends.mongodb.engine import pipelines
from ckpt_backends.mongodb.engine.connect import MongoConnection
from ckpt_backends.mongodb.engine.fields import form_of, number_of, storable, stored_forms, text
from ckpt_backends.mongodb.engine.keys_within import keys_within
from ckpt_backends.mongodb.engine.layout import KEY, WRITES, MongoLayout
from ckpt_backends.mongodb.engine.restoring import document_of, key_of
from ckpt_backends.mongodb.engine.shared_writes import SharedWrites
from ckpt_backends.mongodb.engine.sizes import near_limit, unused_space
from ckpt_backends.thread_bounds import ThreadBounds
from ckpt_backends.url import StoreUrl

_BY_CHECKPOINT = {name: f"${name}" for name in KEY[1:]}
_STANDALONE = "standalone server: one command may read data of different moments"
_NO_SNAPSHOT = "read without a transaction: one command may read data of different moments"


class MongoCheckpoints(OnConnection[MongoConnection], BaseStore):
    """Checkpoints on MongoDB, opened for reading; each layout has a subclass."""

    sums_sizes = True

    def __init__(self, connection: MongoConnection, url: StoreUrl, layout: MongoLayout) -> None:
        super().__init__(connection, url)
        self._layout = layout
        self._values = (f"${layout.saver.body}", "$metadata")
        """The fields of a checkpoint that count as its size."""
        self._addresses: dict[str, object] = {}
        self._shared = SharedWrites(connection, layout)

    @abstractmethod
    def _saver(self) -> str:
        """The saver and, if the documents tell it, its release."""

    def describe(self) -> StoreInfo:
        layout = self._layout
        names = [name for name in (layout.checkpoints, layout.writes) if name]
        return StoreInfo(
            layout=layout.name,
            url=str(self._url),
            engine=f"MongoDB {self._connection.version}",
            saver=self._saver(),
            capabilities=layout.saver.can
            & ~(Capability.ADDING if layout.unknown else Capability(0)),
            tables=tuple(f"{layout.database}.{name}" for name in names),
            size=self._size_of(names),
            notes=tuple(self.notes()),
            only_read=(
                f"it has fields of an unknown saver: {', '.join(layout.unknown)}"
                if layout.unknown
                else ""
            ),
        )

    def hidden_rows(self) -> Sequence[HiddenRows]:
        views = self._connection.views
        return [
            HiddenRows(
                f"'{name}' is a view that leaves out documents",
                "name the collection itself: ?collection=NAME&writes_collection=NAME",
            )
            for name in self._layout.collections.values()
            if views.get(name)
        ]

    def notes(self) -> Sequence[str]:
        found = [one.note for one in self.hidden_rows()]
        if self._layout.unknown:
            found.append(f"fields of an unknown saver: {', '.join(self._layout.unknown)}")
        if not self._connection.has_transactions:
            found.append(_STANDALONE)
        elif not self._connection.is_of_one_moment:
            found.append(_NO_SNAPSHOT)
        return found

    def _size_of(self, collections: Iterable[str]) -> int | None:
        """Bytes on disk; None if the user has no permission to read them."""
        size = 0
        for name in collections:
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

    def _own(self, match: Mapping[str, Any]) -> dict[str, Any]:
        """The condition for a thread's writes, without those of other savers."""
        return {**match, **self._others([match["thread_id"]])}

    def _others(self, threads: Sequence[object]) -> dict[str, Any]:
        return self._shared.left_out(threads, self._rows)

    def threads(self, *, limit: int | None = None) -> Iterator[Thread]:
        layout = self._layout
        stages = layout.saver.threads({}, limit)
        found = self._connection.aggregate(layout.checkpoints, stages, hint=layout.index)
        yield from map(layout.saver.thread_of, found)

    def _listed(self, bounds: ThreadBounds) -> Iterator[Thread]:
        layout = self._layout
        stages = [*layout.saver.threads(keys_within(bounds), None), *self._within(bounds)]
        found = self._connection.aggregate(layout.checkpoints, stages, hint=layout.index)
        return map(layout.saver.thread_of, found)

    def _within(self, bounds: ThreadBounds) -> list[pipelines.Stage]:  # noqa: ARG002
        """The stages that leave out listed threads, at most those outside of the bounds."""
        return []

    def thread(self, thread_id: str) -> Thread | None:
        match, saver = self._of(thread_id), self._layout.saver
        if match is None:
            return None
        stages = saver.threads(pipelines.of_threads([match["thread_id"]]), None)
        rows = self._rows(self._layout.checkpoints, stages)
        return saver.thread_of(rows[0]) if rows else None

    def size(self, thread_id: str) -> ThreadSize:
        (found,) = self.sizes([thread_id])
        return found

    def sizes(self, thread_ids: Sequence[str]) -> list[ThreadSize]:
        asked = [value for one in thread_ids for value in stored_forms(one)]
        layout = self._layout
        checkpoints = self._totals(layout.checkpoints, asked, *self._values)
        writes = {} if layout.writes is None else self._totals(layout.writes, asked, "$value")
        if writes and (others := self._others(list(writes))):
            writes = self._totals(layout.writes or "", asked, "$value", others=others)
        found = []
        for one in thread_ids:
            value = form_of(one, checkpoints, writes)
            number, size = checkpoints.get(value, (0, 0))
            of_writes, size_of_writes = writes.get(value, (0, 0))
            found.append(ThreadSize(number, of_writes, size + size_of_writes))
        return found

    def _totals(
        self,
        collection: str,
        threads: Sequence[object],
        *fields: str,
        others: Mapping[str, Any] = MappingProxyType({}),
    ) -> dict[object, tuple[int, int]]:
        match = {**pipelines.of_threads(threads), **others}
        stages = pipelines.totals(match, "$thread_id", *fields)
        rows = self._rows(collection, stages)
        return {row["_id"]: (int(row["number"]), int(row["bytes"])) for row in rows}

    def checkpoint_sizes(self, thread_id: str) -> Iterator[tuple[CheckpointKey, ThreadSize]]:
        match = self._of(thread_id)
        if match is None:
            return
        for table, name in self._layout.collections.items():
            fields = ("$value",) if table == WRITES else self._values
            own = self._own(match) if table == WRITES else match
            for row in self._connection.aggregate(
                name, pipelines.totals(own, _BY_CHECKPOINT, *fields)
            ):
                number, size = int(row["number"]), int(row["bytes"])
                counts = (0, number) if table == WRITES else (number, 0)
                yield key_in(thread_id, row["_id"]), ThreadSize(*counts, size)

    def rows(self, thread_id: str) -> Iterator[Row]:
        match = self._of(thread_id)
        if match is None:
            return
        for table, name in self._layout.collections.items():
            own = self._own(match) if table == WRITES else match
            for document in self._connection.aggregate(name, [{"$match": own}], raw=True):
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

    def sources(self, key: CheckpointKey) -> list[str]:
        thread_id = (self._of(key.thread_id) or {}).get("thread_id", key.thread_id)
        names = self._layout.saver.key[1:]
        found = {"thread_id": thread_id, **{name: getattr(key, name) for name in names}}
        return [
            f"db.getCollection({json.dumps(name)}).find({json.dumps(found)})"
            for name in (self._layout.checkpoints, self._layout.writes)
            if name
        ]

    def faults(self) -> Iterator[Fault]:
        return unused_space(self._connection, self._layout.collections.values())

    def thread_faults(self, thread_id: str) -> Iterator[Fault]:
        match = self._of(thread_id)
        for name in self._layout.collections.values() if match is not None else ():
            yield from near_limit(self._connection, name, thread_id, match or {})

    def refresh(self) -> None:
        self._connection.restart()
        self._addresses.clear()

    def _rows(self, collection: str, stages: Sequence[pipelines.Stage]) -> list[Any]:
        return list(self._connection.aggregate(collection, stages))


def key_in(thread_id: str, row: Any) -> CheckpointKey:
    """The key of a checkpoint of a thread, from a document."""
    ns, checkpoint_id = row.get("checkpoint_ns"), row.get("checkpoint_id")
    return CheckpointKey(thread_id, text(ns), text(checkpoint_id))
