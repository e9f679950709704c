"""Long-term memory in LangGraph's MongoDBStore, opened for reading; `write` changes it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from itertools import islice
from typing import Any
from urllib.parse import quote

from bson import encode
from bson.errors import BSONError, InvalidDocument
from bson.raw_bson import RawBSONDocument

from ckpt_backends import shell
from ckpt_backends.base import OnConnection
from ckpt_backends.codec.values import MOST_BYTES, unread
from ckpt_backends.errors import Refused, SeveralLayouts, UnknownLayout, Unreadable
from ckpt_backends.memory import (
    PLAIN_BSON,
    Item,
    ItemKey,
    MemoryInfo,
    MemoryStore,
    Namespace,
    NamespaceSize,
    Vector,
    as_json,
    begins,
    check_labels,
    check_whole,
    is_unicode,
    lifetime_of,
    whole_milliseconds,
)
from ckpt_backends.model import TypedBytes, in_chunks
from ckpt_backends.mongodb.engine.connect import RAW, MongoConnection, connect
from ckpt_backends.mongodb.engine.layout import MOST_LOOKED_AT, Stage, examine, later, length
from ckpt_backends.mongodb.engine.records import MEMORY, MongoDocument
from ckpt_backends.rows import Row, no_table
from ckpt_backends.servers import opening, understanding
from ckpt_backends.transfer.form import CannotHold
from ckpt_backends.url import StoreUrl

# Reads the items of LangGraph's MongoDBStore: each is a document that includes its vector.
#
#     {namespace: [...], namespace_str: "users/anna", key, value: {...}, created_at, updated_at,
#      EMBEDDING: [...], namespace_prefix: [...]}
#
# Source: `batch` and `__init__` in `langgraph/store/mongodb/base.py`, 0.1 to 0.4.0. The name of
# the collection, the name of the vector's field and the separator in `namespace_str` are
# arguments of the store. Older stores have no `namespace_str`. A time to live is a TTL index on
# `updated_at`; the server removes expired documents once a minute. By default, MongoDBStore sets
# `updated_at` also when it reads an item.


SEPARATOR = "/"
_KEYS_AT_ONCE = 200
IS_ITEM: Stage = {
    "_id": {"$not": {"$type": "object"}},
    "namespace": {"$type": "array"},
    "key": {"$type": "string"},
}
_KNOWN = ["_id", "namespace", "namespace_str", "namespace_prefix", "key", "value"]
_KNOWN += ["created_at", "updated_at"]
LABELS: Stage = {
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
class StoredItem:
    """A stored item and the `_id` of its document."""

    item: Item
    identity: object = field(compare=False)


def find_collection(connection: MongoConnection, url: StoreUrl) -> str:
    """The collection that the URL names, or the only one. Raises `UnknownLayout`."""
    names, wanted = connection.collections(), url.params.get("store_collection")
    if wanted is not None:
        if wanted not in names:
            listed = ", ".join(map(shell.word, names[:10])) or "none"
            raise UnknownLayout(f"no collection '{wanted}' in '{url}'", hint=f"it has {listed}")
        return wanted
    examined = examine(connection, names[:MOST_LOOKED_AT])
    found = [one.name for one in examined if one.kind.table == MEMORY]
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


def item_key(row: Row) -> ItemKey:
    """The key of an archived item of long-term memory. Raises `Refused`."""
    if row.table != MEMORY:
        raise no_table(row.table)
    with suppress(BSONError, Unreadable):
        match RawBSONDocument(MongoDocument(row).raw, RAW):
            case {"namespace": list(labels), "key": str(key), "value": _, **rest} if all(
                isinstance(one, str) for one in labels
            ) and _agrees(labels, rest):
                return ItemKey(tuple(labels), key)
    raise Refused(f"a document of '{row.table}' is not an item")


def _agrees(labels: Sequence[str], rest: Mapping[str, Any]) -> bool:
    """Whether other fields of a document, by which the library finds it, name its namespace.

    The separator is an argument of the library.
    """
    whole = rest.get("namespace_str")
    if whole is not None:
        if not labels or not isinstance(whole, str):
            return False
        if separator_of({"namespace": labels, "namespace_str": whole}) is None:
            return False
    prefixes = rest.get("namespace_prefix") or []
    return isinstance(prefixes, list) and all(
        isinstance(one, str) and (whole or "").startswith(one) for one in prefixes
    )


def separator_of(document: Mapping[str, Any]) -> str | None:
    """The separator between the labels in `namespace_str`; None if it does not name them."""
    labels, whole = list(map(str, document["namespace"])), str(document["namespace_str"])
    length = len(whole) - sum(map(len, labels))
    first = len(labels[0])
    separator = whole[first : first + length // max(1, len(labels) - 1)]
    return separator if separator.join(labels) == whole else None


def _typed(value: object) -> TypedBytes:
    if isinstance(value, RawBSONDocument):
        return TypedBytes(PLAIN_BSON, bytes(value.raw))
    return TypedBytes(PLAIN_BSON, b"", problem="expected a document as value")


def _time(value: object) -> datetime | None:
    return value if isinstance(value, datetime) else None


# Items of other Stores as documents of MongoDBStore.
#
# A TTL index removes each document a fixed time after `updated_at`, and the library sets
# `updated_at` when it reads an item. So an item that expires gets the `updated_at` at which its
# life began.


_LARGEST = (16 << 20) - (16 << 10)
"""Bytes of a value. A document has at most 16 MiB, with the namespace and the key."""
_MINUTE = 60


def fitted_item(item: Item, separator: str, lifetime: float | None) -> Item:
    """An item as a collection stores it, whose documents live for some seconds.

    Raises `CannotHold`.
    """
    check_labels(item.key.namespace, separator)
    if not all(map(is_unicode, (*item.key.namespace, item.key.key))):
        raise CannotHold("its namespace or key is not Unicode")
    if item.created_at is None or item.updated_at is None:
        raise CannotHold("its times are unknown")
    value = _document(item.value)
    updated = whole_milliseconds(_began(item, item.updated_at, lifetime))
    return replace(
        item,
        value=value,
        created_at=whole_milliseconds(item.created_at),
        updated_at=updated,
        expires_at=None if lifetime is None else updated + timedelta(seconds=lifetime),
        lifetime=None if lifetime is None else lifetime / _MINUTE,
        vectors=(),
    )


def _began(item: Item, updated_at: datetime, lifetime: float | None) -> datetime:
    """When the life of an item began, if the collection's lifetime is its own."""
    if item.expires_at is None:
        if lifetime is not None:
            raise CannotHold(
                f"it never expires; the target removes every item {lifetime:g} seconds after its"
                " last update"
            )
        return updated_at
    if lifetime is None:
        raise CannotHold(
            "it expires, and the target has no TTL index: open it once with MongoDBStore and"
            " ttl_config"
        )
    own = lifetime_of(item)
    if own is None or abs(own * _MINUTE - lifetime) > 1:
        raise CannotHold(
            f"it lives for {(own or 0) * _MINUTE:g} seconds, each item of the target for"
            f" {lifetime:g}"
        )
    return item.expires_at - timedelta(seconds=lifetime)


def _document(value: TypedBytes | None) -> TypedBytes:
    if value is not None and value.type == PLAIN_BSON and not value.problem:
        return value
    found = as_json(value)
    check_whole(found, -(1 << 63), (1 << 63) - 1)
    try:
        data = encode(found)
    except (BSONError, InvalidDocument, OverflowError, RecursionError) as error:
        raise CannotHold(f"its value has no form in BSON: {error}") from None
    if len(data) > _LARGEST:
        raise CannotHold("its value is too large for a document of MongoDB")
    return TypedBytes(PLAIN_BSON, data)


_VALUES_AT_ONCE = 20


class MongoMemory(OnConnection[MongoConnection], MemoryStore):
    """A MongoDBStore's collection, opened for reading."""

    def __init__(self, connection: MongoConnection, url: StoreUrl) -> None:
        super().__init__(connection, url)
        self.name = find_collection(connection, url)
        self.lifetime = next(
            (
                float(one["expireAfterSeconds"])
                for one in connection.indexes(self.name)
                if tuple(one["key"]) == ("updated_at",) and "expireAfterSeconds" in one
            ),
            None,
        )

    def describe(self) -> MemoryInfo:
        return MemoryInfo(
            layout="mongodb-store",
            url=str(self._url),
            engine=f"MongoDB {self._connection.version}",
            tables=(self.name,),
            is_store=True,
            removes_expired=True,
        )

    def namespaces(self, prefix: Namespace = ()) -> Iterator[NamespaceSize]:
        if not all(map(is_unicode, prefix)):
            return
        stages: list[Stage] = [
            {"$match": {**IS_ITEM, **_under(prefix)}},
            {"$project": {"namespace": 1, "labels": LABELS, "size": length("$value")}},
            {
                "$group": {
                    "_id": {"labels": "$labels", "namespace": "$namespace"},
                    "items": {"$sum": 1},
                    "bytes": {"$sum": "$size"},
                }
            },
            {"$sort": {"_id.labels": 1}},
        ]
        for row in self._connection.aggregate(self.name, stages):
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
        if not all(map(is_unicode, (*prefix, key or ""))):
            return
        if keys is None:
            named = {} if key is None else {"key": key}
            found = self.listed({**_under(prefix), **named})
        else:
            found = self.named(
                {one for one in keys if begins(one.namespace, prefix) and key in {None, one.key}}
            )
        if not values:
            yield from (one.item for one in found)
            return
        for some in in_chunks(found, _VALUES_AT_ONCE):
            yield from self.with_values(some)

    def rows(self, key: ItemKey) -> Iterator[Row]:
        for one in self.named([key]):
            match: Stage = {"$match": {"_id": one.identity}}
            for document in self._connection.aggregate(self.name, [match], raw=True):
                yield Row(MEMORY, {"bson": bytes(document.raw)})

    def key_of(self, row: Row) -> ItemKey:
        return item_key(row)

    def fitted(self, item: Item) -> Item:
        return fitted_item(item, self.separator, self.lifetime)

    def refresh(self) -> None:
        self._connection.restart()

    @cached_property
    def separator(self) -> str:
        """The separator in `namespace_str`, by a stored item; the library's default if none tells.

        It is an argument of the library.
        """
        told = {name: {"$type": "string"} for name in ("namespace.1", "namespace_str")}
        shown = {"namespace": 1, "namespace_str": 1}
        stages: list[Stage] = [{"$match": told}, {"$limit": 1}, {"$project": shown}]
        found = next(self._connection.aggregate(self.name, stages), None)
        return SEPARATOR if found is None else separator_of(found) or SEPARATOR

    def listed(self, match: Stage) -> Iterator[StoredItem]:
        """The items that match, sorted. The server does not send any value."""
        stages: list[Stage] = [
            {"$match": {**IS_ITEM, **match}},
            {"$project": {"labels": LABELS, "key": 1}},
            {"$sort": {"labels": 1, "key": 1, "_id": 1}},
            {"$project": {"_id": 1}},
        ]
        # List the ids first: in one query, the server would measure all items before sorting.
        found = self._connection.aggregate(self.name, stages)
        while some := [row["_id"] for row in islice(found, _KEYS_AT_ONCE)]:
            about: list[Stage] = [{"$match": {"_id": {"$in": some}}}, {"$project": _ABOUT}]
            rows = {row["_id"]: row for row in self._connection.aggregate(self.name, about)}
            yield from (self._place(rows[one]) for one in some if one in rows)

    def named(self, keys: Collection[ItemKey]) -> Iterator[StoredItem]:
        """The items with these keys, sorted."""
        wanted = {
            one for one in keys if is_unicode(one.key) and all(map(is_unicode, one.namespace))
        }
        found = self._of(wanted, by_index=True)
        # The index cannot find items of older releases, or of stores with another separator.
        missing = wanted - {one.item.key for one in found}
        found += self._of(missing, by_index=False)
        yield from sorted(found, key=lambda one: one.item.key)

    def _of(self, keys: Collection[ItemKey], *, by_index: bool) -> list[StoredItem]:
        found: list[StoredItem] = []
        for some in in_chunks(keys, _KEYS_AT_ONCE):
            places: list[Stage] = [
                {"namespace_str": SEPARATOR.join(one.namespace), "key": one.key}
                if by_index
                else {"namespace": list(one.namespace), "key": one.key}
                for one in some
            ]
            found += [one for one in self.listed({"$or": places}) if one.item.key in keys]
        return found

    def _place(self, row: Any) -> StoredItem:
        updated = _time(row.get("updated_at"))
        vectors = [Vector(str(one["field"]), int(one["size"])) for one in row["vectors"]]
        item = Item(
            ItemKey(tuple(map(str, row["namespace"])), str(row["key"])),
            _time(row.get("created_at")),
            updated,
            int(row["size"]),
            later(updated, self.lifetime),
            None if self.lifetime is None else self.lifetime / 60,
            tuple(sorted(vectors, key=lambda one: one.field)),
        )
        return StoredItem(item, row["_id"])

    def with_values(self, places: Sequence[StoredItem]) -> Iterator[Item]:
        """The items with their values. Items that were removed meanwhile are left out."""
        by_id: dict[Any, TypedBytes] = {}
        short = [one.identity for one in places if one.item.size <= MOST_BYTES]
        stages: list[Stage] = [{"$match": {"_id": {"$in": short}}}, {"$project": {"value": 1}}]
        for row in self._connection.aggregate(self.name, stages, raw=True):
            by_id[row["_id"]] = _typed(row.get("value"))
        for one in places:
            if one.item.size > MOST_BYTES:
                yield replace(one.item, value=unread(PLAIN_BSON, one.item.size))
            elif one.identity in by_id:
                yield replace(one.item, value=by_id[one.identity])


def _under(prefix: Namespace) -> Stage:
    return {f"namespace.{place}": label for place, label in enumerate(prefix)}


def open_memory(url: StoreUrl) -> MemoryStore:
    """Open long-term memory for reading. Raises `StoreUnavailable` or `UnknownLayout`."""
    with opening(connect(url), url) as connection:
        return understanding(MongoMemory(connection, url), url)
