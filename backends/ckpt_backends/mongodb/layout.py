"""Which layouts a database holds, from the shapes of its documents.

The names of collections are arguments of every saver, so they tell nothing; only a writes
collection is looked for by name first, since nothing in it names its checkpoints'.

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

from ckpt_backends.errors import SeveralLayouts, UnknownLayout
from ckpt_backends.memory import HINT
from ckpt_backends.url import StoreUrl

OFFICIAL, JAVASCRIPT, KAFLOW = "mongodb", "mongodb-js", "kaflow"
MEMORY = "store"
"""What a collection is called that holds long-term memory, in archives too."""
WRITES, CHECKPOINTS = "checkpoint_writes", "checkpoints"
"""What collections are called in archives and reports, whatever they are called in a database."""
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
"""Since 1.4. Source: `setup` and `put` in `checkpoint.js` of
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
"""The names and kinds of some documents' fields, not what is in them; and their keys."""


@dataclass(frozen=True, slots=True)
class Collection:
    """A collection with what one of its documents looks like."""

    name: str
    fields: Mapping[str, str]
    """Field to kind, such as `binData`; empty where there is no document."""
    key: Mapping[str, object]
    """Thread, namespace and checkpoint of that document, as far as it has them."""
    indexes: Mapping[str, tuple[str, ...]]
    """Name to keys."""

    @property
    def kind(self) -> str | None:
        """The layout of its checkpoints, `writes`, or what else is known; None if unknown."""
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
        """A saver that has not stored anything has at least made its indexes."""
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
    """None where the layout has none, or none is found."""
    index: str | None
    """An index that holds thread, namespace and checkpoint id; a listing reads it alone."""
    unknown: tuple[str, ...]
    """Fields that no known saver writes, as `collection.field`; a newer saver may have."""

    @property
    def collections(self) -> dict[str, str]:
        """What each collection is called in archives, and its name; checkpoints come last."""
        writes = {} if self.writes is None else {WRITES: self.writes}
        return {**writes, CHECKPOINTS: self.checkpoints}

    @property
    def pins(self) -> dict[str, str]:
        """The parameters of a URL that name this one."""
        writes = {} if self.writes is None else {"writes_collection": self.writes}
        return {"collection": self.checkpoints, **writes}


def choose(
    found: Sequence[Collection],
    paired: Mapping[str, Sequence[str]],
    database: str,
    url: StoreUrl,
) -> MongoLayout:
    """The layout that the URL names, or the only one in the database.

    `paired` has the writes collections of each collection of checkpoints. Raises `UnknownLayout`,
    and `SeveralLayouts` where the URL fits several.
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
    shown = [f"'{url.with_params(one.pins)}'" for one in layouts[:_FEW]]
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
    names = ", ".join(f"'{one.name}'" for one in found[:10])
    return names or "no collections at all"
