"""Describes what the collections of a database hold, for the savers that recognise them.

A backend that declares `engine="mongodb"` names a function `recognise(sample: CollectionSample)`,
which returns a `CollectionKind`, or None for a collection that is not its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ckpt_backends.model import Capability, Thread

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
