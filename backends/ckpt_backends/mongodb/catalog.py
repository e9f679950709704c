"""Finding the layouts of a database: one small query a collection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ckpt_backends.errors import UnknownLayout
from ckpt_backends.mongodb.connect import Connection
from ckpt_backends.mongodb.layout import (
    FIELDS,
    JAVASCRIPT,
    OFFICIAL,
    Collection,
    MongoLayout,
    choose,
)
from ckpt_backends.mongodb.pipelines import Stage
from ckpt_backends.url import StoreUrl

MOST_LOOKED_AT = 200
"""So many collections are looked at."""
_WRITES = (("checkpoints", "checkpoint_writes"), ("checkpoint", "checkpoint_write"))
"""How the savers name a collection of checkpoints, and that of its writes."""


def find_layout(connection: Connection, url: StoreUrl) -> MongoLayout:
    """The layout of a database. Raises `UnknownLayout` or `SeveralLayouts`."""
    database = connection.database.name
    params, where = url.params, str(url)
    names = connection.collections()
    if not names:
        others = ", ".join(connection.databases()[:10]) or "none that may be listed"
        raise UnknownLayout(
            f"database '{database}' of '{where}' is empty", hint=f"databases there: {others}"
        )
    pinned = {params[name] for name in ("collection", "writes_collection") if name in params}
    looked_at = (
        [name for name in names if name in pinned] if len(pinned) == 2 else names[:MOST_LOOKED_AT]
    )
    found = [look(connection, name) for name in looked_at]
    return choose(found, _pairs(connection, found, params), database, params, where)


def look(connection: Connection, name: str) -> Collection:
    """A collection as its first document says that is like one of a saver."""
    indexes = {one["name"]: tuple(one["key"]) for one in connection.indexes(name)}
    found = []
    for row in connection.outside(name, FIELDS) or [{}]:
        fields = {one["k"]: one["t"] for one in row.pop("fields", ())}
        found.append(Collection(name, fields, row, indexes))
    return next((one for one in found if one.kind is not None), found[0])


def _pairs(
    connection: Connection, found: Sequence[Collection], params: Mapping[str, str]
) -> dict[str, str]:
    """The writes collection of each collection of checkpoints.

    The one that is asked for; else by the usual names; else the one with writes of a checkpoint
    that is there; else the only one that is left.
    """
    asked = params.get("writes_collection")
    ours = [one for one in found if one.kind in {OFFICIAL, JAVASCRIPT}]
    writes = {one.name: one for one in found if one.kind == "writes"}
    if asked is not None:
        return {one.name: asked for one in ours}
    pairs: dict[str, str] = {}
    for one in ours:
        for checkpoints, usual in _WRITES:
            name = one.name.replace(checkpoints, usual)
            if name != one.name and name in writes:
                pairs.setdefault(one.name, name)
    for name in writes.keys() - set(pairs.values()):
        for one in ours:
            if one.name not in pairs and _holds(connection, one, writes[name]):
                pairs[one.name] = name
    left = writes.keys() - set(pairs.values())
    alone = [one.name for one in ours if one.name not in pairs]
    if len(left) == len(alone) == 1:
        pairs[alone[0]] = left.pop()
    return pairs


def _holds(connection: Connection, checkpoints: Collection, writes: Collection) -> bool:
    """Whether the checkpoint of some write is in a collection."""
    if len(writes.key) < 3 or not all(isinstance(one, str) for one in writes.key.values()):
        return False
    stages: list[Stage] = [{"$match": dict(writes.key)}, {"$limit": 1}, {"$project": {"_id": 1}}]
    return bool(connection.outside(checkpoints.name, stages))
