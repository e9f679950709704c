"""Long-term memory: items that all threads share, such as those of LangGraph's `BaseStore`.

A namespace is a tuple of labels such as `("users", "anna", "memories")`; an item is a key with a
value in a namespace. DeerFlow's memory files have the same form here: each fact is an item.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any, Protocol

from ckpt_backends.changes.progress import Progress, silent
from ckpt_backends.changes.remains import UNKNOWN_REMAINS, Remains
from ckpt_backends.changes.rows import Restored, Row
from ckpt_backends.closing import Closing
from ckpt_backends.errors import StoreChanged, Unsupported
from ckpt_backends.model import HiddenRows, TypedBytes
from ckpt_backends.url import StoreUrl

Namespace = tuple[str, ...]
HINT = "it holds long-term memory: run ckpt memory list"
"""The hint for a store with items and no checkpoints."""
_NEAR = timedelta(seconds=1)
"""Servers that store a time to live report the time of expiry a little differently each time."""


@dataclass(frozen=True, slots=True, order=True)
class ItemKey:
    """The address of one item."""

    namespace: Namespace
    key: str


@dataclass(frozen=True, slots=True)
class Vector:
    """A vector of an item. Its numbers are never read."""

    field: str
    """The path of the embedded part of the value; `$` is the whole value."""
    size: int
    """Stored bytes."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where an item came from, according to the item."""

    kind: str
    """`thread`, or another word such as `manual` or `unknown`."""
    thread_id: str | None = None
    """The thread; None if no thread is named."""


@dataclass(frozen=True, slots=True)
class Item:
    """One item of long-term memory, as stored."""

    key: ItemKey
    created_at: datetime | None
    """UTC; None in layouts that do not store it."""
    updated_at: datetime | None
    size: int
    """Length of the stored value in bytes."""
    expires_at: datetime | None = None
    """When the item expires; None if never. It stays stored until the application's next sweep."""
    lifetime: float | None = None
    """Minutes to live after each put, or read that refreshes it; None if the layout stores none."""
    vectors: tuple[Vector, ...] = ()
    value: TypedBytes | None = None
    """None if it was not read."""
    category: str | None = None
    """Category of a fact of DeerFlow: `preference`, `goal`, ..."""
    confidence: float | None = None
    """The application's confidence in a fact, 0 to 1."""
    source: Source | None = None
    """None if the layout has no field for it; the value of an item may still name a source."""


@dataclass(frozen=True, slots=True)
class NamespaceSize:
    """The size of one namespace, without the namespaces below it."""

    namespace: Namespace
    items: int
    bytes: int


@dataclass(frozen=True, slots=True)
class ThreadsOfMemory:
    """The store of the threads that a memory came from."""

    url: StoreUrl | None
    """None if they are not stored, or if it is unknown."""
    why: str
    """How the store was found, or why it was not."""


@dataclass(frozen=True, slots=True)
class MemoryInfo:
    """Facts about a memory that are cheap to read."""

    layout: str
    url: str
    """Printable: never contains a password."""
    engine: str
    tables: tuple[str, ...]
    """Tables, indexes, collections or files."""
    changes: str = ""
    """Why it is read-only; empty if it can be changed."""
    needs_write: str = ""
    """Why a change needs `--write`; empty if it does not."""
    notes: tuple[str, ...] = field(default=())
    is_store: bool = False
    """Whether it is LangGraph's Store, so that items can be copied from and to it."""
    removes_expired: bool = False
    """Whether the server itself removes items that have expired."""


def begins(namespace: Namespace, prefix: Namespace) -> bool:
    """Whether a namespace is `prefix` or below it; compares whole labels."""
    return namespace[: len(prefix)] == prefix


def check_unchanged(planned: Item, found: Item | None) -> None:
    """Raise `StoreChanged` if an item changed since its removal was planned."""
    name = "/".join((*planned.key.namespace, planned.key.key))
    hint = "an agent may be using it; run the command again to see a new plan"
    if found is None:
        raise StoreChanged(f"item '{name}' no longer exists; nothing was removed", hint=hint)
    same = (found.updated_at, found.size) == (planned.updated_at, planned.size)
    if not same or not near(found.expires_at, planned.expires_at):
        raise StoreChanged(f"item '{name}' changed meanwhile; nothing was removed", hint=hint)


def near(one: datetime | None, other: datetime | None) -> bool:
    """Whether two times of expiry are the same, up to how servers report them."""
    if one is None or other is None:
        return one is other
    return abs(one - other) <= _NEAR


class MemoryStore(Closing, Protocol):
    """A store of items, opened for reading. No method changes anything."""

    @abstractmethod
    def describe(self) -> MemoryInfo:
        """Facts about the memory; reads no value."""
        ...

    def hidden_rows(self) -> Sequence[HiddenRows]:
        """Why this user may not see all items; see `Store.hidden_rows`."""
        return ()

    def namespaces(self, prefix: Namespace = ()) -> Iterator[NamespaceSize]:
        """Namespaces that hold items, sorted; only those that begin with `prefix`."""
        for namespace, group in groupby(self.items(prefix=prefix), lambda item: item.key.namespace):
            sizes = [item.size for item in group]
            yield NamespaceSize(namespace, len(sizes), sum(sizes))

    @abstractmethod
    def items(
        self,
        *,
        prefix: Namespace = (),
        key: str | None = None,
        keys: Collection[ItemKey] | None = None,
        values: bool = False,
    ) -> Iterator[Item]:
        """The items ordered by namespace and key, including expired ones.

        Returns only items under `prefix`; with `key` or `keys`, only items with one of these keys.
        Reads values only if `values` is set, one at a time.
        """
        ...

    @abstractmethod
    def rows(self, key: ItemKey) -> Iterator[Row]:
        """All rows of an item as stored, including its vectors, for archives."""
        ...

    @abstractmethod
    def key_of(self, row: Row) -> ItemKey:
        """The key of the item that an archived row is of; anyone may have written the archive.

        Raises `Refused` unless it is a row in the form of `rows`, and `Unsupported` if this store
        cannot hold it.
        """
        ...

    def fitted(self, item: Item) -> Item:  # noqa: ARG002
        """An item of another Store, read with its value, as this one would store it.

        Raises `CannotHold` with the reason if this store cannot hold it as it is.
        """
        raise Unsupported(f"items cannot be copied to '{self.describe().url}'")

    def identity_of(self, key: ItemKey) -> Hashable:
        """What is the same for items that this store cannot tell apart."""
        return key

    def refresh(self) -> None:
        """Make later reads see later changes; nothing to do if each read sees the present state."""


class WritableMemoryStore(Closing, Protocol):
    """A store of items, opened for changing."""

    @abstractmethod
    def remove(self, items: Sequence[Item]) -> int:
        """Remove items and their vectors, all or none. Returns the number of removed items.

        Raises `StoreChanged` if one was removed or updated since it was read, and
        `StoreUnavailable`. Nothing is removed then.
        """
        ...

    @abstractmethod
    def restore(self, rows: Iterable[Row]) -> Restored:
        """Restore missing rows, all or none.

        Raises `StoreChanged` if a row exists with different contents, and `Unsupported` if the
        layout cannot store a row.
        """
        ...

    def receive(self, items: Sequence[Item]) -> None:  # noqa: ARG002
        """Add items that `MemoryStore.fitted` returned, without vectors; all or none where the
        engine has transactions.

        Raises `StoreChanged` if one exists, and `StoreUnavailable`.
        """
        raise Unsupported("items cannot be copied to this store")

    def finish_removal(self) -> str:
        """Erase removed data from other places; see `WritableStore.finish_removal`."""
        return ""

    def begin_erasure(self) -> None:
        """Prepare to overwrite old bytes; see `WritableStore.begin_erasure`."""
        return

    def erase_remains(self, *, rewrite: bool = False, progress: Progress = silent) -> Remains:  # noqa: ARG002
        """Erase what was removed before; see `WritableStore.erase_remains`."""
        return UNKNOWN_REMAINS


class EditableMemoryStore(WritableMemoryStore, Protocol):
    """A store of items whose fields can be set."""

    def edit(self, item: Item, fields: Mapping[str, Any]) -> None:
        """Set some fields of an item; the other fields keep their values.

        `item` must have been read with its value. Raises `StoreChanged` if the item was removed or
        updated since it was read, `Unsupported`, and `StoreUnavailable`. Nothing is changed then.
        """
        ...
