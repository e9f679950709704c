"""Reads the items of LangGraph's MongoDBStore: each is a document that includes its vector.

    {namespace: [...], namespace_str: "users/anna", key, value: {...}, created_at, updated_at,
     EMBEDDING: [...], namespace_prefix: [...]}

Source: `batch` and `__init__` in `langgraph/store/mongodb/base.py`, 0.1 to 0.4.0. The name of the
collection, the name of the vector's field and the separator in `namespace_str` are arguments of the
store. Older stores have no `namespace_str`. A time to live is a TTL index on `updated_at`; the
server removes expired documents once a minute. By default, MongoDBStore sets `updated_at` also when
it reads an item.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from typing import Any
from urllib.parse import quote

from bson.raw_bson import RawBSONDocument

from ckpt_backends import shell
from ckpt_backends.changes.rows import Row, no_table
from ckpt_backends.chunks import in_chunks
from ckpt_backends.codec.limits import MOST_BYTES, unread
from ckpt_backends.errors import Refused, SeveralLayouts, UnknownLayout
from ckpt_backends.memory.moving import PLAIN_BSON
from ckpt_backends.memory.protocol import Item, ItemKey, Vector
from ckpt_backends.model import TypedBytes
from ckpt_backends.mongodb.engine.catalog import MOST_LOOKED_AT, examine
from ckpt_backends.mongodb.engine.connect import MongoConnection
from ckpt_backends.mongodb.engine.fields import later, storable
from ckpt_backends.mongodb.engine.layout import MEMORY
from ckpt_backends.mongodb.engine.pipelines import Stage, length
from ckpt_backends.mongodb.engine.restoring import unique
from ckpt_backends.url import StoreUrl

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


class ItemDocuments:
    """The documents of one store."""

    def __init__(self, connection: MongoConnection, url: StoreUrl) -> None:
        self._connection = connection
        self.name = find_collection(connection, url)
        self._separator: str | None = None
        self.lifetime = next(
            (
                float(one["expireAfterSeconds"])
                for one in connection.indexes(self.name)
                if tuple(one["key"]) == ("updated_at",) and "expireAfterSeconds" in one
            ),
            None,
        )

    def separator(self) -> str:
        """The separator in `namespace_str`, by a stored item; the library's default if none tells.

        It is an argument of the library.
        """
        if self._separator is None:
            stages: list[Stage] = [
                {
                    "$match": {
                        "namespace.1": {"$type": "string"},
                        "namespace_str": {"$type": "string"},
                    }
                },
                {"$limit": 1},
                {"$project": {"namespace": 1, "namespace_str": 1}},
            ]
            found = next(self._connection.aggregate(self.name, stages), None)
            self._separator = SEPARATOR if found is None else separator_of(found) or SEPARATOR
        return self._separator

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
        wanted = {one for one in keys if storable(one.key) and all(map(storable, one.namespace))}
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

    def rows(self, places: Iterable[StoredItem]) -> Iterator[Row]:
        """The documents as stored."""
        for one in places:
            match: Stage = {"$match": {"_id": one.identity}}
            for document in self._connection.aggregate(self.name, [match], raw=True):
                yield Row(MEMORY, {"bson": bytes(document.raw)})


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
    match unique(row):
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
