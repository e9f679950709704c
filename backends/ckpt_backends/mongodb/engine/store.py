"""Reads what the layouts on MongoDB have in common: threads, sizes, rows and their keys."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from heapq import merge
from itertools import groupby
from typing import Any

from bson import ObjectId

from ckpt_backends.base import BaseStore, OnConnection
from ckpt_backends.errors import Refused, StoreUnavailable, Unreadable, Unsupported
from ckpt_backends.memory import is_unicode
from ckpt_backends.model import (
    UUID6,
    Capability,
    CheckpointKey,
    Fault,
    HiddenRows,
    StoreInfo,
    Thread,
    ThreadBounds,
    ThreadSize,
    Usage,
    end_of_prefix,
    ids_between,
)
from ckpt_backends.mongodb.engine import layout as pipelines
from ckpt_backends.mongodb.engine.connect import BY_BYTES, MongoConnection
from ckpt_backends.mongodb.engine.layout import (
    MOST_LOOKED_AT,
    MongoLayout,
    Stage,
    examine,
    form_of,
    length,
    number_of,
    of_threads,
    storable_of,
    stored_forms,
    text,
)
from ckpt_backends.mongodb.engine.records import KEY, WRITES, MongoDocument
from ckpt_backends.rows import Row, no_table, not_of
from ckpt_backends.transfer.form import CannotHold
from ckpt_backends.url import StoreUrl

# The condition for documents of threads within bounds.


_IDS = 10_000
"""Maximum number of ids in a query, of which each may be stored in two forms."""


def keys_within(bounds: ThreadBounds) -> dict[str, Any]:
    """The condition that the thread ids may be within bounds; empty if they do not tell."""
    if bounds.ids is not None and len(bounds.ids) <= _IDS:
        return of_threads([form for one in sorted(bounds.ids) for form in stored_forms(one)])
    end = end_of_prefix(bounds.prefix)
    if end is None or not is_unicode(bounds.prefix):
        return {}
    texts = {"thread_id": {"$gte": bounds.prefix, "$lt": end}}
    # Old savers store numeric ids as numbers.
    return {"$or": [texts, {"thread_id": {"$not": {"$type": "string"}}}]}


def made_until(moment: datetime | None) -> dict[str, Any]:
    """The condition that the ids of checkpoints hold no later time; empty if there is none."""
    end = ids_between(None, moment)[1]
    if not end:
        return {}
    has_no_time = {"checkpoint_id": {"$not": {"$regex": f"^{UUID6}$"}}}
    return {"$or": [{"checkpoint_id": {"$lt": end}}, has_no_time]}


# Documents that are almost as large as MongoDB allows, and collections with much unused space.


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


# Leaves out writes of other savers that share a collection of writes.
#
# `MongoDBSaver(client, checkpoint_collection_name="checkpoints_b")` keeps the default name of the
# collection of writes. So two savers of a database may have checkpoints apart and writes
# together, and a write without a checkpoint in one collection may be a question that waits in
# another one.
#
# A write names its thread, namespace and checkpoint, but no collection. It is another saver's if
# that checkpoint is in another collection and not in the store's own. The other collections are
# looked for when they are needed first: most databases have none.


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
        spaces = groupby(sorted(keys, key=str), lambda key: key[:2])
        theirs = [
            dict(zip(KEY, (*space, {"$in": [own for _, _, own in some]}), strict=True))
            for space, some in spaces
        ]
        return {"$nor": theirs} if theirs else {}


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


_BY_CHECKPOINT = {name: f"${name}" for name in KEY[1:]}
_STANDALONE = "standalone server: one command may read data of different moments"
_NO_SNAPSHOT = "read without a transaction: one command may read data of different moments"


class MongoCheckpoints(OnConnection[MongoConnection], BaseStore):
    """Checkpoints on MongoDB, opened for reading; each layout has a subclass."""

    sums_sizes = True
    document_limit = _MOST

    def __init__(self, connection: MongoConnection, url: StoreUrl, layout: MongoLayout) -> None:
        super().__init__(connection, url)
        self._layout = layout
        self._values = [f"${name}" for name in layout.saver.columns]
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
        if not is_unicode(thread_id):
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
        return self._found({}, limit, [])

    def _listed(self, bounds: ThreadBounds) -> Iterator[Thread]:
        match = [one for one in (keys_within(bounds), made_until(bounds.as_of)) if one]
        return self._found({"$and": match} if match else {}, None, self._within(bounds))

    def _found(self, match: Stage, limit: int | None, then: list[Stage]) -> Iterator[Thread]:
        layout = self._layout
        stages = [*layout.saver.threads(match, limit), *then]
        found = self._connection.aggregate(layout.checkpoints, stages, hint=layout.index)
        return map(layout.saver.thread_of, found)

    def _within(self, bounds: ThreadBounds) -> list[pipelines.Stage]:  # noqa: ARG002
        """The stages that leave out listed threads, at most those outside of the bounds."""
        return []

    def thread(self, thread_id: str) -> Thread | None:
        if (match := self._of(thread_id)) is None:
            return None
        return next(self._found(of_threads([match["thread_id"]]), None, []), None)

    def sizes(self, thread_ids: Sequence[str]) -> list[ThreadSize]:
        asked = [value for one in thread_ids for value in stored_forms(one)]
        layout = self._layout
        match = of_threads(asked)
        checkpoints = self._totals(layout.checkpoints, match, *self._values)
        writes = self._totals(layout.writes, match, "$value")
        if writes and (others := self._others(list(writes))):
            writes = self._totals(layout.writes, {**match, **others}, "$value")
        found = []
        for one in thread_ids:
            value = form_of(one, checkpoints, writes)
            number, size = checkpoints.get(value, (0, 0))
            of_writes, size_of_writes = writes.get(value, (0, 0))
            found.append(ThreadSize(number, of_writes, size + size_of_writes))
        return found

    def _totals(
        self, collection: str | None, match: Stage, *fields: str
    ) -> dict[object, tuple[int, int]]:
        stages = pipelines.totals(match, "$thread_id", *fields)
        rows = self._rows(collection, stages) if collection else ()
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

    def usage(self, thread_id: str | None = None) -> Iterator[Usage]:
        match = {} if thread_id is None else self._of(thread_id)
        if match is not None:
            found = [self._usage(table, match) for table in self._layout.collections]
            yield from merge(*found, key=lambda one: one.thread_id.encode(errors="surrogatepass"))

    def _usage(self, table: str, match: Mapping[str, Any]) -> Iterator[Usage]:
        name, columns = self._layout.collections[table], self._layout.saver.columns
        by = {"thread": "$thread_id", "ns": "$checkpoint_ns", "type": "$type"}
        if table == WRITES:
            columns = {"value": ""}
            by["channel"] = "$channel"
            match = self._own(match) if match else match
        bytes_of = {column: {"$sum": length(f"${column}")} for column in columns}
        stages: list[Stage] = [
            *([{"$match": match}] if match else []),
            {"$group": {"_id": by, "number": {"$sum": 1}, **bytes_of}},
            # Documents on their way.
            {"$match": {"$expr": {"$ne": [{"$type": "$_id.thread"}, "object"]}}},
            {"$sort": {"_id.thread": 1}},
        ]
        rows = self._connection.aggregate(name, stages)
        for thread, some in groupby(rows, key=lambda row: text(row["_id"].get("thread"))):
            sums: dict[tuple[str, str, str, str | None, str], Counter[str]] = {}
            for row in some:
                key = row["_id"]
                channel = text(key.get("channel")) if table == WRITES else None
                for column, tag in columns.items():
                    ns, type_ = text(key.get("ns")), tag or text(key.get("type"))
                    found = sums.setdefault((column, thread, ns, channel, type_), Counter())
                    found.update(number=int(row["number"]), size=int(row[column]))
            for place, one in sums.items():
                yield Usage(name, *place, one["number"], one["size"])

    def rows(self, thread_id: str) -> Iterator[Row]:
        match = self._of(thread_id)
        if match is None:
            return
        for table, name in self._layout.collections.items():
            own = self._own(match) if table == WRITES else match
            for document in self._connection.aggregate(name, [{"$match": own}], raw=True):
                yield Row(table, {"bson": bytes(document.raw)})

    def own_rows(self, thread_id: str, rows: Iterable[Row]) -> Iterator[Row]:
        for row in rows:
            if row.table not in self._layout.keys:
                raise no_table(row.table)
            if row.table not in self._layout.collections:
                raise no_place(row.table)
            try:
                found = MongoDocument(row).text("thread_id")
            except (CannotHold, Unreadable) as error:
                raise Refused(str(error)) from None
            if found != thread_id:
                raise not_of(row.table, found or None, thread_id)
            yield row

    def row_key(self, row: Row) -> Hashable:
        if row.table not in self._layout.collections:
            raise no_place(row.table)
        return row.table, *MongoDocument(row).stored(self._layout.keys[row.table])

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


def no_place(table: str) -> Unsupported:
    """The error for an archived row of a table without a collection."""
    return Unsupported(
        f"this store has no collection for '{table}'",
        hint="name it in the URL: ?writes_collection=NAME",
    )


def key_in(thread_id: str, row: Any) -> CheckpointKey:
    """The key of a checkpoint of a thread, from a document."""
    ns, checkpoint_id = row.get("checkpoint_ns"), row.get("checkpoint_id")
    return CheckpointKey(thread_id, text(ns), text(checkpoint_id))


# Documents of threads that are on their way into a store.
#
# Their `thread_id` is no text but a document, so no saver finds them under any thread:
# `{ckpt_copy: ObjectId of the run, of: id of the thread}`. Only a saver that lists all
# checkpoints of all threads at once returns them, too. The other fields are final. A run that is
# killed leaves them; the next run for the same thread removes them, and any run those that are
# older than an hour.


_STAGED, _THREAD = "ckpt_copy", "of"
_LIFE = timedelta(hours=1)


def staged_id(run: ObjectId, thread_id: str) -> dict[str, Any]:
    """The `thread_id` of documents on their way."""
    return {_STAGED: run, _THREAD: thread_id}


def is_staged(thread_id: object) -> bool:
    """Whether a stored `thread_id` is that of documents on their way."""
    return isinstance(thread_id, Mapping) and _STAGED in thread_id


def remove_staged(
    connection: MongoConnection, layout: MongoLayout, thread_ids: Collection[str]
) -> None:
    """Remove what broken runs left of these threads, and of all others if it is old."""
    old = ObjectId.from_datetime(datetime.now(UTC) - _LIFE)
    path = f"thread_id.{_STAGED}"
    left = [{f"thread_id.{_THREAD}": {"$in": storable_of(thread_ids)}}, {path: {"$lt": old}}]
    # The type lets the server find them in the index.
    match = {"thread_id": {"$type": "object"}, path: {"$exists": True}, "$or": left}
    for name in layout.collections.values():
        connection.raw(name).delete_many(match, collation=BY_BYTES)
