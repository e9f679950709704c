"""Recognises the layouts of a database by the fields of its documents.

The names of collections are arguments of the savers, so they cannot identify a layout. Only a
writes collection is sometimes found by its name, because it does not name its checkpoints
collection.

| layout | saver | documents |
|---|---|---|
| `mongodb` | langgraph-checkpoint-mongodb | `checkpoint` bytes, `metadata` a document; writes |
| `mongodb-js` | LangGraph.js | `checkpoint` and `metadata` bytes of JSON; writes |
| `kaflow` | KaFlow's MongoDBCheckpointer | `checkpoint_data`, a pickle; no namespaces, no writes |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ckpt_backends import shell
from ckpt_backends.errors import SeveralLayouts, UnknownLayout
from ckpt_backends.memory.protocol import HINT
from ckpt_backends.url import StoreUrl

OFFICIAL, JAVASCRIPT, KAFLOW = "mongodb", "mongodb-js", "kaflow"
MEMORY = "store"
"""The kind of a collection with long-term memory; also its table name in archives."""
WRITES, CHECKPOINTS = "checkpoint_writes", "checkpoints"
"""The table names in archives and reports, whatever the names of the collections are."""
_KEY = ("thread_id", "checkpoint_ns", "checkpoint_id")
_CHECKPOINT = frozenset(
    {"_id", *_KEY, "parent_checkpoint_id", "type", "checkpoint", "metadata", "created_at"}
)
_KAFLOW = frozenset(
    {"_id", "thread_id", "checkpoint_id", "parent_checkpoint_id", "checkpoint_data", "metadata"}
    | {"username", "created_at", "updated_at"}
)
_WRITE = frozenset(
    {"_id", *_KEY, "task_id", "task_path", "idx", "channel", "type", "value", "created_at"}
    | {"upserted_at"}
)
_JAVASCRIPT = (_CHECKPOINT - {"created_at"}) | {"metadata_search", "upserted_at"}
_FEW = 5
_INDEX_OF_JAVASCRIPT = "thread_ns_checkpoint_idx"
"""LangGraph.js creates it since 1.4. Source: `setup` and `put` in `checkpoint.js` of
@langchain/langgraph-checkpoint-mongodb 1.4.1."""

FIELDS: Sequence[Mapping[str, Any]] = [
    {"$limit": 10},
    {
        "$project": {
            "_id": 0,
            **dict.fromkeys(_KEY, 1),
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


@dataclass(frozen=True, slots=True)
class Collection:
    """A collection with the fields of one of its documents."""

    name: str
    fields: Mapping[str, str]
    """By field, its BSON type, such as `binData`; empty if there is no document."""
    key: Mapping[str, object]
    """Thread id, namespace and checkpoint id of that document, if it has them."""
    indexes: Mapping[str, tuple[str, ...]]
    """By name of an index, its fields."""

    @property
    def kind(self) -> str | None:
        """The layout of its checkpoints, `writes` or `store`; None if unknown."""
        if not self.fields:
            return self._kind_of_indexes()
        binary = {name for name, kind in self.fields.items() if kind == "binData"}
        if "checkpoint_data" in binary and {"thread_id", "checkpoint_id"} <= self.fields.keys():
            return KAFLOW
        if {"task_id", "idx", "channel", "value", *_KEY} <= self.fields.keys():
            return "writes"
        if "checkpoint" in binary and self.fields.keys() >= {*_KEY, "type"}:
            return OFFICIAL if self.fields.get("metadata") == "object" else JAVASCRIPT
        if self.fields.get("namespace") == "array" and {"key", "value"} <= self.fields.keys():
            return MEMORY
        return None

    def _kind_of_indexes(self) -> str | None:
        """The kind of an empty collection, by the indexes that its saver created."""
        keys = set(self.indexes.values())
        if (*_KEY, "task_id", "idx") in keys:
            return "writes"
        if _KEY in keys:
            return JAVASCRIPT if _INDEX_OF_JAVASCRIPT in self.indexes else OFFICIAL
        if keys & {("namespace_str", "key"), ("namespace", "key")}:
            return MEMORY
        return KAFLOW if ("username", "created_at") in keys else None

    @property
    def unknown(self) -> list[str]:
        """Fields that no known saver writes."""
        known = {
            OFFICIAL: _CHECKPOINT,
            JAVASCRIPT: _JAVASCRIPT,
            KAFLOW: _KAFLOW,
            "writes": _WRITE,
        }.get(self.kind or "")
        return [f"{self.name}.{name}" for name in sorted(self.fields.keys() - (known or set()))]


@dataclass(frozen=True, slots=True)
class MongoLayout:
    """One layout of a database."""

    name: str
    database: str
    checkpoints: str
    writes: str | None
    """None if the layout has no writes collection, or none was found."""
    index: str | None
    """An index with thread id, namespace and checkpoint id. Listings read only the index."""
    unknown: tuple[str, ...]
    """Fields that no known saver writes, as `collection.field`. A newer saver may have done so."""

    @property
    def collections(self) -> dict[str, str]:
        """By table name in archives, the name of the collection. Checkpoints come last."""
        writes = {} if self.writes is None else {WRITES: self.writes}
        return {**writes, CHECKPOINTS: self.checkpoints}

    @property
    def pins(self) -> dict[str, str]:
        """The URL parameters that select this layout."""
        writes = {} if self.writes is None else {"writes_collection": self.writes}
        return {"collection": self.checkpoints, **writes}


def choose(
    found: Sequence[Collection],
    paired: Mapping[str, Sequence[str]],
    database: str,
    url: StoreUrl,
) -> MongoLayout:
    """The layout that the URL names, or the only one in the database.

    `paired` maps each checkpoints collection to its possible writes collections. Raises
    `UnknownLayout`, and `SeveralLayouts` if several match the URL.
    """
    by_name = {one.name: one for one in found}
    for name in ("collection", "writes_collection"):
        if url.params.get(name, next(iter(by_name), None)) not in by_name:
            raise UnknownLayout(
                f"no collection '{url.params[name]}' in '{url}'", hint=f"it has {_names(found)}"
            )
    pinned, wanted = url.params.get("collection"), url.params.get("layout")
    fitting = [
        _layout(one, by_name.get(writes), database)
        for one in found
        if one.kind in {OFFICIAL, JAVASCRIPT, KAFLOW} and pinned in {None, one.name}
        for writes in paired.get(one.name) or [""]
    ]
    layouts = [one for one in fitting if wanted in {None, one.name}]
    if not layouts and fitting:
        raise UnknownLayout(
            f"'{url}' does not hold the layout '{wanted}'",
            hint=f"it holds '{fitting[0].name}': remove `layout` from the URL",
        )
    if not layouts:
        raise UnknownLayout(
            f"no checkpoint collections in database '{database}' of '{url}'",
            hint=HINT if any(one.kind == MEMORY for one in found) else f"found {_names(found)}",
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


def _layout(one: Collection, writes: Collection | None, database: str) -> MongoLayout:
    prefixes = {name for name, keys in one.indexes.items() if keys[:3] == _KEY}
    return MongoLayout(
        one.kind or "",
        database,
        one.name,
        None if writes is None else writes.name,
        min(prefixes, default=None),
        (*one.unknown, *(writes.unknown if writes is not None else ())),
    )


def _names(found: Sequence[Collection]) -> str:
    names = ", ".join(shell.name(one.name) for one in found[:10])
    return names or "no collections at all"
