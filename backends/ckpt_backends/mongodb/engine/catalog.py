"""Finds the store in a database, with one small query for each collection.

Savers take the names of their collections as arguments, so their documents tell what they hold.
Only a collection of writes is sometimes found by its name, because it does not name the collection
of its checkpoints.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from ckpt_backends import shell
from ckpt_backends.declaration import declared_for, load
from ckpt_backends.errors import SeveralLayouts, UnknownLayout
from ckpt_backends.memory import HINT
from ckpt_backends.mongodb.engine.connect import MongoConnection, connect
from ckpt_backends.mongodb.engine.layout import (
    KEY,
    MEMORY,
    WRITES,
    CollectionSample,
    MongoLayout,
    SaverFormat,
    Stage,
)
from ckpt_backends.protocol import Store, WritableStore
from ckpt_backends.servers import opening, understanding
from ckpt_backends.url import StoreUrl

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
