"""Describes what the collections of a database hold, for the savers that recognise them.

A backend that declares `engine="mongodb"` names a function `recognise(sample: CollectionSample)`,
which returns a `CollectionKind`, or None for a collection that is not its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from bson.raw_bson import RawBSONDocument

from ckpt_backends.model import Capability, Fault, Thread, TypedBytes
from ckpt_backends.mongodb.engine.connect import MongoConnection

WRITES, CHECKPOINTS, MEMORY = "checkpoint_writes", "checkpoints", "store"
"""The table names in archives and reports, whatever the names of the collections are."""
KEY = ("thread_id", "checkpoint_ns", "checkpoint_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class SaverFormat:
    """How a saver stores checkpoints: what reading, changing and removing them depends on."""

    layout: str
    can: Capability
    """The capabilities, if all fields of the documents are known."""
    store: str
    """`module:class` of the `MongoCheckpoints` that reads the layout."""
    writable: str
    """`module:class` of the `MongoChanges` that changes it."""
    threads: Callable[[Mapping[str, Any], int | None], list[dict[str, Any]]]
    """The stages that list the threads that match, newest first, up to a limit."""
    thread_of: Callable[[Any], Thread]
    """The thread from a document that these stages return."""
    newest_first: Mapping[str, int]
    """The order of a thread's checkpoints. The first field is the time of storing or the id."""
    key: tuple[str, ...] = KEY
    """The fields that identify a checkpoint."""
    body: str = "checkpoint"
    """The field with the checkpoint."""
    has_writes: bool = True
    """Whether the saver stores writes, in a second collection."""
    time_field: str = ""
    """The field with the time from which on a document expires; `''` if none expires."""


@dataclass(frozen=True, slots=True)
class CollectionKind:
    """What a collection holds."""

    fields: frozenset[str] = frozenset()
    """All fields that known savers write."""
    saver: SaverFormat | None = None
    """How its checkpoints are stored; None if it holds none."""
    table: str = CHECKPOINTS
    """`CHECKPOINTS`, `WRITES` or `MEMORY`; `''` if no saver recognises it."""


_UNRECOGNISED = CollectionKind(table="")


@dataclass(frozen=True, slots=True)
class CollectionSample:
    """A collection with the fields of one of its documents."""

    name: str
    fields: Mapping[str, str]
    """By field, its BSON type, such as `binData`; empty if there is no document."""
    key: Mapping[str, object]
    """Thread id, namespace and checkpoint id of that document, if it has them."""
    indexes: Mapping[str, tuple[str, ...]]
    """By name of an index, its fields."""
    lifetimes: Mapping[str, float]
    """By field with a time, the seconds after which an index removes documents."""
    kind: CollectionKind = _UNRECOGNISED

    @property
    def binary(self) -> set[str]:
        """The fields that hold bytes."""
        return {name for name, kind in self.fields.items() if kind == "binData"}

    @property
    def unknown(self) -> list[str]:
        """Fields that no known saver writes, as `collection.field`."""
        return [f"{self.name}.{name}" for name in sorted(self.fields.keys() - self.kind.fields)]


@dataclass(frozen=True, slots=True)
class MongoLayout:
    """The collections of one store."""

    saver: SaverFormat
    database: str
    checkpoints: str
    writes: str | None
    """None if the saver stores no writes, or if no collection of writes was found."""
    index: str | None
    """An index with thread id, namespace and checkpoint id. Listings read only the index."""
    unknown: tuple[str, ...]
    """Fields that no known saver writes, as `collection.field`. A newer saver may have done so."""
    lifetimes: Mapping[str, float]
    """By collection, the seconds after which an index removes its documents."""

    @property
    def name(self) -> str:
        """The name of the layout, such as `mongodb`."""
        return self.saver.layout

    @property
    def collections(self) -> dict[str, str]:
        """By table name in archives, the name of the collection. Checkpoints come last."""
        writes = {} if self.writes is None else {WRITES: self.writes}
        return {**writes, CHECKPOINTS: self.checkpoints}

    @property
    def keys(self) -> dict[str, tuple[str, ...]]:
        """By table name in archives, the fields that identify a document."""
        return {WRITES: (*KEY, "task_id", "idx"), CHECKPOINTS: self.saver.key}

    @property
    def pins(self) -> dict[str, str]:
        """The URL parameters that select this layout."""
        writes = {} if self.writes is None else {"writes_collection": self.writes}
        return {"collection": self.checkpoints, **writes}


# Converts fields of documents, and thread ids to the forms in which they are stored.


def text(value: object) -> str:
    """The field as text. An old or hostile store may have stored another type."""
    if isinstance(value, str):
        return str.__str__(value)  # `bson.code.Code` is an unhashable subclass of str
    return "" if value is None else str(value)


def metadata_of(value: object) -> TypedBytes:
    """Metadata as stored: a document, or the bytes that LangGraph.js stores."""
    if isinstance(value, RawBSONDocument):
        return TypedBytes("bson", bytes(value.raw))
    return TypedBytes("json", bytes(value) if isinstance(value, bytes) else b"null")


def number_of(thread_id: str) -> int | None:
    """The number as which a thread id may be stored; None if it can only be a text."""
    with suppress(ValueError):
        number = int(thread_id)
        if str(number) == thread_id and abs(number) < 1 << 63:
            return number
    return None


def stored_forms(thread_id: str) -> list[object]:
    """The forms in which a thread id may be stored, the most likely first; empty if none."""
    if not storable(thread_id):
        return []
    number = number_of(thread_id)
    return [thread_id] if number is None else [thread_id, number]


def form_of(thread_id: str, checkpoints: Container[object], writes: Container[object]) -> object:
    """The stored form of a thread id.

    `checkpoints` and `writes` contain the stored thread ids that have checkpoints and writes.
    """
    for found in (checkpoints, writes):
        for value in stored_forms(thread_id):
            if value in found:
                return value
    return thread_id


def storable(value: str) -> bool:
    """Whether MongoDB can store a text. Lone surrogates cannot be encoded in UTF-8."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def storable_of(values: Iterable[str], *, newest: bool = True) -> list[str]:
    """The texts that MongoDB can store, without duplicates, in descending order if `newest`."""
    return sorted({one for one in values if storable(one)}, reverse=newest)


def later(at: object, lifetime: float | None) -> datetime | None:
    """When a document with this time expires; None if never, or if that is too late for Python."""
    if not isinstance(at, datetime) or lifetime is None:
        return None
    try:
        return at + timedelta(seconds=lifetime)
    except OverflowError:
        return None


# Parts of the aggregation pipelines that read stores.
#
# Texts of users and stores are never interpreted as operators. In `$match`, a value that is not a
# document is always a literal. Elsewhere, a text that begins with `$` would be the name of a
# field, so such texts are wrapped in `$literal`.


Stage = dict[str, Any]


def length(field: str) -> Stage:
    """The stored bytes of a field: of bytes, a text or a document; 0 for other types."""
    kind = {"$type": field}
    return {
        "$switch": {
            "branches": [
                {"case": {"$in": [kind, ["binData", "string"]]}, "then": {"$binarySize": field}},
                {"case": {"$eq": [kind, "object"]}, "then": {"$bsonSize": field}},
            ],
            "default": 0,
        }
    }


def of_threads(threads: Sequence[object]) -> dict[str, Any]:
    """The condition for documents of some threads.

    It excludes documents in which `thread_id` is a list that contains one of them.
    """
    return {"thread_id": {"$in": threads, "$not": {"$type": "array"}}}


def totals(match: Mapping[str, Any], by: str | Mapping[str, Any], *fields: str) -> list[Stage]:
    """The number of documents that match, and the bytes of these fields, for each value of `by`."""
    size = {"$sum": {"$add": [0, *map(length, fields)]}}
    return [{"$match": match}, {"$group": {"_id": by, "number": {"$sum": 1}, "bytes": size}}]


# Indexes that a saver creates and that are missing.


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
