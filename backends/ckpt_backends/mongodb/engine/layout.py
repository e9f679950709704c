"""Finds the store in a database, and describes what its collections hold.

Savers take the names of their collections as arguments, so their documents tell what they hold: one
small query for each collection. Only a collection of writes is sometimes found by its name, because
it does not name the collection of its checkpoints.

A backend that declares `engine="mongodb"` names a function `recognise(sample: CollectionSample)`,
which returns a `CollectionKind`, or None for a collection that is not its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, cast

from bson.raw_bson import RawBSONDocument

from ckpt_backends import shell
from ckpt_backends.declaration import declared_for, load
from ckpt_backends.errors import SeveralLayouts, UnknownLayout
from ckpt_backends.memory import HINT, is_unicode
from ckpt_backends.model import Capability, Fault, Thread, TypedBytes
from ckpt_backends.mongodb.engine.connect import MongoConnection, connect
from ckpt_backends.mongodb.engine.records import CHECKPOINTS, KEY, MEMORY, WRITES
from ckpt_backends.protocol import Store, WritableStore
from ckpt_backends.servers import opening, understanding
from ckpt_backends.url import StoreUrl


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
    columns: Mapping[str, str]
    """The fields that count as the size of a checkpoint, the body first, each with the type of its
    values; `''` if the field `type` has it."""
    has_writes: bool = True
    """Whether the saver stores writes, in a second collection."""
    time_field: str = ""
    """The field with the time from which on a document expires; `''` if none expires."""

    @property
    def body(self) -> str:
        """The field with the checkpoint."""
        return next(iter(self.columns))


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
    if not is_unicode(thread_id):
        return []
    number = number_of(thread_id)
    return [thread_id] if number is None else [thread_id, number]


def form_of(thread_id: str, checkpoints: Container[object], writes: Container[object]) -> object:
    """The stored form of a thread id.

    `checkpoints` and `writes` contain the stored thread ids that have checkpoints and writes.
    """
    forms = stored_forms(thread_id)
    there = (one for found in (checkpoints, writes) for one in forms if one in found)
    return next(there, thread_id)


def storable_of(values: Iterable[str], *, newest: bool = True) -> list[str]:
    """The texts that MongoDB can store, without duplicates, in descending order if `newest`."""
    return sorted({one for one in values if is_unicode(one)}, reverse=newest)


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


# Finds the store, and opens it with the class of its layout.


MOST_LOOKED_AT = 200
"""Maximum number of collections to examine."""
_PARAMS = ("collection", "writes_collection")
_USUAL = (("checkpoints", "checkpoint_writes"), ("checkpoint", "checkpoint_write"))
"""Parts of the usual names of a checkpoints collection and its writes collection."""
_FEW = 5
_FIELDS: Sequence[Mapping[str, Any]] = [
    {"$limit": 10},
    {
        "$project": {
            "_id": 0,
            **dict.fromkeys(KEY, 1),
            "fields": {
                "$map": {
                    "input": {"$objectToArray": "$$ROOT"},
                    "as": "one",
                    "in": {"k": "$$one.k", "t": {"$type": "$$one.v"}},
                }
            },
        }
    },
]
"""Reads the keys of up to 10 documents, and the names and types of all their fields."""


def find_layout(connection: MongoConnection, url: StoreUrl) -> MongoLayout:
    """The store that the URL names, or the only one in the database.

    Raises `UnknownLayout`, and `SeveralLayouts` if several match the URL.
    """
    database, params = connection.database.name, url.params
    names = connection.collections()
    if not names:
        others = ", ".join(map(shell.word, connection.databases()[:10]))
        raise UnknownLayout(
            f"database '{database}' of '{url}' is empty",
            hint=f"databases there: {others or 'none that may be listed'}",
        )
    pinned = {params[name] for name in _PARAMS if name in params}
    names.sort(key=lambda name: name not in pinned)
    looked_at = MOST_LOOKED_AT if len(pinned) < len(_PARAMS) else len(pinned)
    found = list(examine(connection, names[:looked_at]))
    _check_names(found, url)
    savers = [(one, one.kind.saver) for one in found if one.kind.saver]
    pairs = _pairs(connection, found, params)
    by_name = {one.name: one for one in found}
    layouts = [
        _layout(one, saver, by_name.get(writes), database)
        for one, saver in savers
        if params.get("collection") in {None, one.name}
        for writes in pairs.get(one.name) or [""]
    ]
    return _only(layouts, found, database, url)


def examine(connection: MongoConnection, names: Iterable[str]) -> Iterator[CollectionSample]:
    """Describe each collection by its first document that has the form of a known saver."""
    for name in names:
        known = connection.indexes(name)
        indexes = {one["name"]: tuple(one["key"]) for one in known}
        lifetimes = {
            next(iter(one["key"])): float(one["expireAfterSeconds"])
            for one in known
            if "expireAfterSeconds" in one
        }
        found = []
        for row in connection.outside(name, _FIELDS) or [{}]:
            fields = {one["k"]: one["t"] for one in row.pop("fields", ())}
            sample = CollectionSample(name, fields, row, indexes, lifetimes)
            kinds = (load(one.recognise)(sample) for one in declared_for("mongodb"))
            found.append(replace(sample, kind=next(filter(None, kinds), sample.kind)))
        yield next((one for one in found if one.kind.table), found[0])


def _check_names(found: Sequence[CollectionSample], url: StoreUrl) -> None:
    names = [one.name for one in found]
    for param in _PARAMS:
        if url.params.get(param, names[0]) not in names:
            raise UnknownLayout(
                f"no collection '{url.params[param]}' in '{url}'", hint=f"it has {_listed(found)}"
            )


def _layout(
    one: CollectionSample, saver: SaverFormat, writes: CollectionSample | None, database: str
) -> MongoLayout:
    prefixes = {name for name, keys in one.indexes.items() if keys[:3] == KEY}
    return MongoLayout(
        saver,
        database,
        one.name,
        None if writes is None else writes.name,
        min(prefixes, default=None) if saver.key == KEY else None,
        (*one.unknown, *(writes.unknown if writes is not None else ())),
        {
            some.name: some.lifetimes[saver.time_field]
            for some in (one, *([writes] if writes is not None else []))
            if saver.time_field in some.lifetimes
        },
    )


def _only(
    fitting: Sequence[MongoLayout], found: Sequence[CollectionSample], database: str, url: StoreUrl
) -> MongoLayout:
    wanted = url.params.get("layout")
    layouts = [one for one in fitting if wanted in {None, one.name}]
    if not layouts and fitting:
        raise UnknownLayout(
            f"'{url}' does not hold the layout '{wanted}'",
            hint=f"it holds '{fitting[0].name}': remove `layout` from the URL",
        )
    if not layouts:
        raise UnknownLayout(
            f"no checkpoint collections in database '{database}' of '{url}'",
            hint=HINT
            if any(one.kind.table == MEMORY for one in found)
            else f"found {_listed(found)}",
        )
    if len(layouts) > 1:
        raise _several(url, layouts)
    return layouts[0]


def _several(url: StoreUrl, layouts: Sequence[MongoLayout]) -> SeveralLayouts:
    names = {one.checkpoints for one in layouts}
    if len(names) == 1:
        said = f"cannot tell which collection has the writes of '{names.pop()}' in '{url}'"
    else:
        listed = ", ".join(f"'{one.checkpoints}' ({one.name})" for one in layouts)
        said = f"'{url}' holds {len(layouts)} stores: {listed}"
    shown = [shell.name(str(url.with_params(one.pins))) for one in layouts[:_FEW]]
    more = f" or one of {len(layouts) - _FEW} more" if len(layouts) > _FEW else ""
    hint = f"name one: {' or '.join(shown)}{more}"
    return SeveralLayouts(said, [one.pins for one in layouts], hint=hint)


def _listed(found: Sequence[CollectionSample]) -> str:
    names = ", ".join(shell.name(one.name) for one in found[:10])
    return names or "no collections at all"


def _pairs(
    connection: MongoConnection, found: Sequence[CollectionSample], params: Mapping[str, str]
) -> dict[str, list[str]]:
    """By checkpoints collection, its writes collection; several if that is ambiguous.

    The first rule that gives a result counts: the collection in the URL; those with writes of a
    checkpoint in the checkpoints collection; the one with the usual name; those that no other
    checkpoints collection has.
    """
    asked = params.get("writes_collection")
    ours = [one for one in found if one.kind.saver and one.kind.saver.has_writes]
    writes = {one.name: one for one in found if one.kind.table == WRITES}
    if asked is not None:
        return {one.name: [asked] for one in ours}
    pairs = {
        one.name: [name for name in writes if _holds(connection, one, writes[name])] for one in ours
    }
    left = writes.keys() - {name for names in pairs.values() for name in names}
    for name in [name for name, some in pairs.items() if not some]:
        usual = {name.replace(*pair) for pair in _USUAL if pair[0] in name} & left
        pairs[name] = sorted(usual)[:1]
        left = left - set(pairs[name])
    alone = [name for name, some in pairs.items() if not some]
    filled = sorted(name for name in left if writes[name].fields)
    for name in alone:
        pairs[name] = sorted(left) if len(left) == len(alone) == 1 else filled
    return pairs


def _holds(
    connection: MongoConnection, checkpoints: CollectionSample, writes: CollectionSample
) -> bool:
    """Whether the checkpoint of one sampled write is in the checkpoints collection."""
    if len(writes.key) < 3 or not all(isinstance(one, str) for one in writes.key.values()):
        return False
    stages: list[Stage] = [{"$match": dict(writes.key)}, {"$limit": 1}, {"$project": {"_id": 1}}]
    return bool(connection.outside(checkpoints.name, stages))


def open_store(url: StoreUrl) -> Store:
    """Open checkpoints of any saver that recognises its own.

    Raises `StoreUnavailable`, `UnknownLayout` or `SeveralLayouts`.
    """
    return cast("Store", _opened(url, "store"))


def open_writable(url: StoreUrl) -> WritableStore:
    """Open them for changing. Raises the errors of `open_store`, and `Unsupported`."""
    return cast("WritableStore", _opened(url, "writable"))


def _opened(url: StoreUrl, facet: str) -> object:
    with opening(connect(url), url) as connection:
        layout = find_layout(connection, url)
        return understanding(load(getattr(layout.saver, facet))(connection, url, layout), url)
