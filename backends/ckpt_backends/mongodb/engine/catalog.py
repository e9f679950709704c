"""Finds the layouts of a database, with one small query for each collection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ckpt_backends import shell
from ckpt_backends.errors import UnknownLayout
from ckpt_backends.mongodb.engine.connect import MongoConnection
from ckpt_backends.mongodb.engine.pipelines import Stage
from ckpt_backends.mongodb.layout import (
    FIELDS,
    JAVASCRIPT,
    OFFICIAL,
    Collection,
    MongoLayout,
    choose,
)
from ckpt_backends.url import StoreUrl

MOST_LOOKED_AT = 200
"""Maximum number of collections to examine."""
_PARAMS = ("collection", "writes_collection")
_WRITES = (("checkpoints", "checkpoint_writes"), ("checkpoint", "checkpoint_write"))
"""Parts of the usual names of a checkpoints collection and its writes collection."""


def find_layout(connection: MongoConnection, url: StoreUrl) -> MongoLayout:
    """The layout of a database. Raises `UnknownLayout` or `SeveralLayouts`."""
    database = connection.database.name
    params = url.params
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
    found = [look(connection, name) for name in names[:looked_at]]
    return choose(found, _pairs(connection, found, params), database, url)


def look(connection: MongoConnection, name: str) -> Collection:
    """Describe a collection by its first document that has the form of a known saver."""
    indexes = {one["name"]: tuple(one["key"]) for one in connection.indexes(name)}
    found = []
    for row in connection.outside(name, FIELDS) or [{}]:
        fields = {one["k"]: one["t"] for one in row.pop("fields", ())}
        found.append(Collection(name, fields, row, indexes))
    return next((one for one in found if one.kind is not None), found[0])


def _pairs(
    connection: MongoConnection, found: Sequence[Collection], params: Mapping[str, str]
) -> dict[str, list[str]]:
    """By checkpoints collection, its writes collection; several if that is ambiguous.

    The first rule that gives a result counts: the collection in the URL; those with writes of a
    checkpoint in the checkpoints collection; the one with the usual name; those that no other
    checkpoints collection has.
    """
    asked = params.get("writes_collection")
    ours = [one for one in found if one.kind in {OFFICIAL, JAVASCRIPT}]
    writes = {one.name: one for one in found if one.kind == "writes"}
    if asked is not None:
        return {one.name: [asked] for one in ours}
    pairs = {
        one.name: [name for name in writes if _holds(connection, one, writes[name])] for one in ours
    }
    left = writes.keys() - {name for names in pairs.values() for name in names}
    for name in [name for name, some in pairs.items() if not some]:
        usual = {name.replace(*pair) for pair in _WRITES if pair[0] in name} & left
        pairs[name] = sorted(usual)[:1]
        left = left - set(pairs[name])
    alone = [name for name, some in pairs.items() if not some]
    filled = sorted(name for name in left if writes[name].fields)
    for name in alone:
        pairs[name] = sorted(left) if len(left) == len(alone) == 1 else filled
    return pairs


def _holds(connection: MongoConnection, checkpoints: Collection, writes: Collection) -> bool:
    """Whether the checkpoint of one sampled write is in the checkpoints collection."""
    if len(writes.key) < 3 or not all(isinstance(one, str) for one in writes.key.values()):
        return False
    stages: list[Stage] = [{"$match": dict(writes.key)}, {"$limit": 1}, {"$project": {"_id": 1}}]
    return bool(connection.outside(checkpoints.name, stages))
