"""Reads and changes LangGraph's MongoDBStore: each item is a document that includes its vector.

    {namespace: [...], namespace_str: "users/anna", key, value: {...}, created_at, updated_at,
     EMBEDDING: [...], namespace_prefix: [...]}

Source: `batch` and `__init__` in `langgraph/store/mongodb/base.py`, 0.1 to 0.4.0. The name of the
collection, the name of the vector's field and the separator in `namespace_str` are arguments of the
store. Older stores have no `namespace_str`. A time to live is a TTL index on `updated_at`; the
server removes expired documents once a minute. By default, MongoDBStore sets `updated_at` also when
it reads an item.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Any
from urllib.parse import quote

from bson.raw_bson import RawBSONDocument
from pymongo.client_session import ClientSession

from ckpt_backends import shell
from ckpt_backends.changes.rows import Restored, Row
from ckpt_backends.codec.value_limit import MOST_BYTES, unread
from ckpt_backends.errors import (
    PartlyDone,
    SeveralLayouts,
    StoreChanged,
    StoreUnavailable,
    UnknownLayout,
)
from ckpt_backends.memory.base import BaseMemoryStore, BaseWritableMemoryStore
from ckpt_backends.memory.protocol import (
    Item,
    ItemKey,
    MemoryInfo,
    Namespace,
    NamespaceSize,
    Vector,
    begins,
    check_unchanged,
)
from ckpt_backends.model import TypedBytes
from ckpt_backends.mongodb.engine.catalog import MOST_LOOKED_AT, look
from ckpt_backends.mongodb.engine.connect import MongoConnection
from ckpt_backends.mongodb.engine.pipelines import Stage, length
from ckpt_backends.mongodb.layout import MEMORY
from ckpt_backends.mongodb.read import storable
from ckpt_backends.mongodb.restoring import item_key, restore_rows
from ckpt_backends.mongodb.write import explained_change
from ckpt_backends.url import StoreUrl

LAYOUT = "mongodb-store"
PLAIN = "bson-plain"
"""Type tag of a plain document: its leaves were not written by LangGraph's serializer."""
_SEPARATOR = "/"
_KEYS_AT_ONCE, _VALUES_AT_ONCE = 200, 20
_IS_ITEM: Stage = {
    "_id": {"$not": {"$type": "object"}},
    "namespace": {"$type": "array"},
    "key": {"$type": "string"},
}
_KNOWN = ["_id", "namespace", "namespace_str", "namespace_prefix", "key", "value"]
_KNOWN += ["created_at", "updated_at"]
_LABELS: Stage = {
    "$reduce": {
        "input": "$namespace",
        "initialValue": "",
        "in": {
            "$concat": [
                "$$value",
                {"$cond": [{"$eq": [{"$type": "$$this"}, "string"]}, "$$this", ""]},
                "\x01",
            ]
        },
    }
}
"""The labels, each followed by a byte 1, so that namespaces sort label by label."""
_VECTORS: Stage = {
    "$map": {
        "input": {
            "$filter": {
                "input": {"$objectToArray": "$$ROOT"},
                "as": "one",
                "cond": {
                    "$and": [
                        {"$not": [{"$in": ["$$one.k", _KNOWN]}]},
                        {"$in": [{"$type": "$$one.v"}, ["array", "binData"]]},
                    ]
                },
            }
        },
        "as": "one",
        "in": {
            "field": "$$one.k",
            "size": {
                "$cond": [
                    {"$isArray": ["$$one.v"]},
                    {"$bsonSize": {"numbers": "$$one.v"}},
                    length("$$one.v"),
                ]
            },
        },
    }
}
_ABOUT: Stage = {
    **dict.fromkeys(("namespace", "key", "created_at", "updated_at"), 1),
    "size": length("$value"),
    "vectors": _VECTORS,
}


@dataclass(frozen=True, slots=True)
class _Place:
    """A stored item and the `_id` of its document."""

    item: Item
    identity: object = field(compare=False)


class _Documents:
    """The documents of one store."""

    def __init__(self, connection: MongoConnection, url: StoreUrl) -> None:
        self._connection = connection
        self.name = find_collection(connection, url)
        self._lifetime = next(
            (
                timedelta(seconds=float(one["expireAfterSeconds"]))
                for one in connection.indexes(self.name)
                if tuple(one["key"]) == ("updated_at",) and "expireAfterSeconds" in one
            ),
            None,
        )

    def listed(self, match: Stage) -> Iterator[_Place]:
        """The items that match, sorted. The server does not send any value."""
        stages: list[Stage] = [
            {"$match": {**_IS_ITEM, **match}},
            {"$project": {"labels": _LABELS, "key": 1}},
            {"$sort": {"labels": 1, "key": 1, "_id": 1}},
            {"$project": {"_id": 1}},
        ]
        # List the ids first: in one query, the server would measure all items before sorting.
        found = self._connection.aggregate(self.name, stages)
        while some := [row["_id"] for row in islice(found, _KEYS_AT_ONCE)]:
            about: list[Stage] = [{"$match": {"_id": {"$in": some}}}, {"$project": _ABOUT}]
            rows = {row["_id"]: row for row in self._connection.aggregate(self.name, about)}
            yield from (self._place(rows[one]) for one in some if one in rows)

    def named(self, keys: Collection[ItemKey]) -> Iterator[_Place]:
        """The items with these keys, sorted."""
        wanted = {one for one in keys if storable(one.key) and all(map(storable, one.namespace))}
        found = self._of(wanted, by_index=True)
        # The index cannot find items of older releases, or of stores with another separator.
        missing = wanted - {one.item.key for one in found}
        found += self._of(missing, by_index=False)
        yield from sorted(found, key=lambda one: one.item.key)

    def _of(self, keys: Collection[ItemKey], *, by_index: bool) -> list[_Place]:
        found: list[_Place] = []
        remaining = iter(keys)
        while some := list(islice(remaining, _KEYS_AT_ONCE)):
            places: list[Stage] = [
                {"namespace_str": _SEPARATOR.join(one.namespace), "key": one.key}
                if by_index
                else {"namespace": list(one.namespace), "key": one.key}
                for one in some
            ]
            found += [one for one in self.listed({"$or": places}) if one.item.key in keys]
        return found

    def _place(self, row: Any) -> _Place:
        updated = _time(row.get("updated_at"))
        vectors = [Vector(str(one["field"]), int(one["size"])) for one in row["vectors"]]
        item = Item(
            ItemKey(tuple(map(str, row["namespace"])), str(row["key"])),
            _time(row.get("created_at")),
            updated,
            int(row["size"]),
            _later(updated, self._lifetime),
            tuple(sorted(vectors, key=lambda one: one.field)),
        )
        return _Place(item, row["_id"])

    def with_values(self, places: Sequence[_Place]) -> Iterator[Item]:
        """The items with their values. Items that were removed meanwhile are left out."""
        by_id: dict[Any, TypedBytes] = {}
        short = [one.identity for one in places if one.item.size <= MOST_BYTES]
        stages: list[Stage] = [{"$match": {"_id": {"$in": short}}}, {"$project": {"value": 1}}]
        for row in self._connection.aggregate(self.name, stages, raw=True):
            by_id[row["_id"]] = _typed(row.get("value"))
        for one in places:
            if one.item.size > MOST_BYTES:
                yield replace(one.item, value=unread(PLAIN, one.item.size))
            elif one.identity in by_id:
                yield replace(one.item, value=by_id[one.identity])

    def rows(self, places: Iterable[_Place]) -> Iterator[Row]:
        """The documents as stored."""
        for one in places:
            match: Stage = {"$match": {"_id": one.identity}}
            for document in self._connection.aggregate(self.name, [match], raw=True):
                yield Row(MEMORY, {"bson": bytes(document.raw)})


class MongoMemory(BaseMemoryStore):
    """A MongoDBStore's collection, opened for reading."""

    def __init__(self, connection: MongoConnection, url: StoreUrl) -> None:
        self._url = url
        self._open: MongoConnection | None = connection
        self._documents = open_documents(connection, url)

    def describe(self) -> MemoryInfo:
        return MemoryInfo(
            layout=LAYOUT,
            url=str(self._url),
            engine=f"MongoDB {self._connection.version}",
            tables=(self._documents.name,),
        )

    def namespaces(self, prefix: Namespace = ()) -> Iterator[NamespaceSize]:
        if not all(map(storable, prefix)):
            return
        stages: list[Stage] = [
            {"$match": {**_IS_ITEM, **_under(prefix)}},
            {"$project": {"namespace": 1, "labels": _LABELS, "size": length("$value")}},
            {
                "$group": {
                    "_id": {"labels": "$labels", "namespace": "$namespace"},
                    "items": {"$sum": 1},
                    "bytes": {"$sum": "$size"},
                }
            },
            {"$sort": {"_id.labels": 1}},
        ]
        for row in self._connection.aggregate(self._documents.name, stages):
            namespace = tuple(map(str, row["_id"]["namespace"]))
            yield NamespaceSize(namespace, int(row["items"]), int(row["bytes"]))

    def items(
        self,
        *,
        prefix: Namespace = (),
        key: str | None = None,
        keys: Collection[ItemKey] | None = None,
        values: bool = False,
    ) -> Iterator[Item]:
        if not all(map(storable, (*prefix, key or ""))):
            return
        if keys is None:
            named = {} if key is None else {"key": key}
            found = self._documents.listed({**_under(prefix), **named})
        else:
            found = self._documents.named(
                {one for one in keys if begins(one.namespace, prefix) and key in {None, one.key}}
            )
        if not values:
            yield from (one.item for one in found)
            return
        while some := list(islice(found, _VALUES_AT_ONCE)):
            yield from self._documents.with_values(some)

    def rows(self, key: ItemKey) -> Iterator[Row]:
        yield from self._documents.rows(self._documents.named([key]))

    def key_of(self, row: Row) -> ItemKey:
        return item_key(row)

    def refresh(self) -> None:
        self._connection.restart()

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    @property
    def _connection(self) -> MongoConnection:
        if self._open is None:
            raise StoreUnavailable(f"'{self._url}' is closed")
        return self._open


class WritableMongoMemory(BaseWritableMemoryStore):
    """A MongoDBStore's collection, opened for changing."""

    def __init__(self, connection: MongoConnection, url: StoreUrl) -> None:
        self._connection = connection
        self._url = url
        self._documents = open_documents(connection, url)

    def remove(self, items: Sequence[Item]) -> int:
        """Remove items, all or none, as `WritableMemoryStore.remove` says.

        A standalone server has no transactions, so there the items are removed one by one. Raises
        `PartlyDone` there if an item changes after other items were removed.
        """
        self._connection.restart()
        found = {
            (one.item.key, one.item.updated_at): one
            for one in self._documents.named([item.key for item in items])
        }
        for one in items:
            place = found.get((one.key, one.updated_at))
            check_unchanged(one, None if place is None else place.item)
        places = [found[one.key, one.updated_at] for one in items]
        with explained_change(self._url):
            if not self._connection.has_transactions:
                return self._remove(places, None)
            with self._connection.transaction() as session:
                return self._remove(places, session)

    def _remove(self, places: Sequence[_Place], session: ClientSession | None) -> int:
        collection = self._connection.raw(self._documents.name)
        for done, one in enumerate(places):
            # The comparison is exact: times are stored and read in milliseconds.
            match = {"_id": one.identity, "updated_at": one.item.updated_at}
            if collection.delete_one(match, session=session).deleted_count:
                continue
            if done and session is None:
                raise PartlyDone(f"{done} items are removed, another changed meanwhile")
            raise StoreChanged(
                f"an item of '{self._url}' changed meanwhile, so nothing was removed",
                hint="an agent may be using the store; run the command again",
            )
        return len(places)

    def restore(self, rows: Iterable[Row]) -> Restored:
        with explained_change(self._url):
            collections = {MEMORY: self._documents.name}
            keys = {MEMORY: ("namespace", "key")}
            return restore_rows(self._connection, collections, keys, rows)

    def close(self) -> None:
        self._connection.close()


def open_documents(connection: MongoConnection, url: StoreUrl) -> _Documents:
    """The documents of a store. Closes the connection if there is no store."""
    try:
        return _Documents(connection, url)
    except BaseException:
        connection.close()
        raise


def find_collection(connection: MongoConnection, url: StoreUrl) -> str:
    """The collection that the URL names, or the only one. Raises `UnknownLayout`."""
    names, wanted = connection.collections(), url.params.get("store_collection")
    if wanted is not None:
        if wanted not in names:
            listed = ", ".join(map(shell.word, names[:10])) or "none"
            raise UnknownLayout(f"no collection '{wanted}' in '{url}'", hint=f"it has {listed}")
        return wanted
    found = [name for name in names[:MOST_LOOKED_AT] if look(connection, name).kind == MEMORY]
    if len(found) > 1:
        raise SeveralLayouts(
            f"'{url}' holds {len(found)} stores of long-term memory: {', '.join(found)}",
            [{"store_collection": name} for name in found],
            hint=f"name one: add ?store_collection={quote(found[0], safe='')} to the URL",
        )
    if not found:
        listed = ", ".join(map(shell.word, names[:10])) or "no collections at all"
        raise UnknownLayout(
            f"no long-term memory in '{url}'",
            hint=f"found {listed}; a LangGraph MongoDBStore has documents with `namespace`,"
            " `key` and `value`",
        )
    return found[0]


def _under(prefix: Namespace) -> Stage:
    return {f"namespace.{place}": label for place, label in enumerate(prefix)}


def _typed(value: object) -> TypedBytes:
    if isinstance(value, RawBSONDocument):
        return TypedBytes(PLAIN, bytes(value.raw))
    return TypedBytes(PLAIN, b"", problem="expected a document as value")


def _time(value: object) -> datetime | None:
    return value if isinstance(value, datetime) else None


def _later(at: datetime | None, lifetime: timedelta | None) -> datetime | None:
    """When a document expires; None if never, or if the date is too late for Python."""
    if at is None or lifetime is None:
        return None
    try:
        return at + lifetime
    except OverflowError:
        return None
