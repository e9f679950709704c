"""Long-term memory: items under namespaces that all threads share, as LangGraph's Store keeps them.

A namespace is a tuple of labels such as `("users", "anna", "memories")`; an item is a key in it
with a value. What DeerFlow keeps in files is given in the same form, its facts as items.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Protocol, Self

from ckpt_backends.errors import StoreChanged
from ckpt_backends.model import TypedBytes
from ckpt_backends.rows import Restored, Row

Namespace = tuple[str, ...]
HINT = "it holds long-term memory: `ckpt memory list` shows it"
"""What to say where there are items and no checkpoints."""
_NEAR = timedelta(seconds=1)
"""Servers that count down tell the moment of expiry a little differently each time."""


@dataclass(frozen=True, slots=True, order=True)
class ItemKey:
    """The address of one item."""

    namespace: Namespace
    key: str


@dataclass(frozen=True, slots=True)
class Vector:
    """That an item can be found by meaning. The numbers themselves are never read."""

    field: str
    """The path in the value that was embedded; `$` is all of it."""
    size: int
    """Bytes that it takes as stored."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where an item says that it came from."""

    kind: str
    """`thread`, or the word that stands in the place of one, such as `manual` or `unknown`."""
    thread_id: str | None = None
    """The thread of LangGraph; None where no thread is named."""


@dataclass(frozen=True, slots=True)
class Item:
    """One item of long-term memory, as stored."""

    key: ItemKey
    created_at: datetime | None
    """UTC; None where the layout does not tell."""
    updated_at: datetime | None
    size: int
    """Length of the stored value in bytes."""
    expires_at: datetime | None = None
    """When it goes, or went: an expired item stays until the application's next sweep. None where
    it stays."""
    vectors: tuple[Vector, ...] = ()
    value: TypedBytes | None = None
    """None where it was not read."""
    category: str | None = None
    """What a fact of DeerFlow is about: `preference`, `goal`, ..."""
    confidence: float | None = None
    """How sure the application is of a fact, 0 to 1."""
    source: Source | None = None
    """None where the layout names none; values of a Store may, see `value`."""


@dataclass(frozen=True, slots=True)
class NamespaceSize:
    """What one namespace takes by itself, without those below it."""

    namespace: Namespace
    items: int
    bytes: int


@dataclass(frozen=True, slots=True)
class MemoryInfo:
    """What a memory says of itself; cheap to ask."""

    layout: str
    url: str
    """Printable: never holds a password."""
    engine: str
    tables: tuple[str, ...]
    """Tables, indexes, collections or files."""
    changes: str = ""
    """Why nothing of it can be changed; empty where it can."""
    needs_write: str = ""
    """Why a change has to be asked for with `--write`; empty where it needs not."""
    notes: tuple[str, ...] = field(default=())


def begins(namespace: Namespace, prefix: Namespace) -> bool:
    """Whether a namespace is this one or below it: whole labels are compared."""
    return namespace[: len(prefix)] == prefix


def check_unchanged(planned: Item, found: Item | None) -> None:
    """Raise `StoreChanged` unless an item is as it was when its removal was planned."""
    name = "/".join((*planned.key.namespace, planned.key.key))
    hint = "an agent may be using it; look at it, then run the command again"
    if found is None:
        raise StoreChanged(f"item '{name}' is gone, so nothing was removed", hint=hint)
    same = (found.updated_at, found.size) == (planned.updated_at, planned.size)
    if not same or not _near(found.expires_at, planned.expires_at):
        raise StoreChanged(f"item '{name}' changed meanwhile, so nothing was removed", hint=hint)


def _near(one: datetime | None, other: datetime | None) -> bool:
    if one is None or other is None:
        return one is other
    return abs(one - other) <= _NEAR


class MemoryStore(Protocol):
    """A store of items, opened for reading. It has no method that changes anything."""

    def describe(self) -> MemoryInfo:
        """What it is; reads no value."""
        ...

    def namespaces(self, prefix: Namespace = ()) -> Iterator[NamespaceSize]:
        """Namespaces that hold items, in their order; only those that begin with `prefix`."""
        ...

    def items(
        self,
        *,
        prefix: Namespace = (),
        key: str | None = None,
        keys: Collection[ItemKey] | None = None,
        values: bool = False,
    ) -> Iterator[Item]:
        """Items in the order of namespace and key, expired ones too.

        Only those under `prefix`, and of those only what is called `key`, or `keys`. Values are
        read only where asked for, one at a time.
        """
        ...

    def rows(self, key: ItemKey) -> Iterator[Row]:
        """All rows of an item as they are stored, its vectors too: for archives."""
        ...

    def refresh(self) -> None:
        """Let later answers be of a later moment."""
        ...

    def close(self) -> None:
        """Give the connection back; closing twice is allowed."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class WritableMemoryStore(Protocol):
    """A store of items, opened for changing."""

    def remove(self, items: Sequence[Item]) -> int:
        """Remove items with their vectors, all of them or none. Gives their number.

        Raises `StoreChanged` where one is gone or was updated since it was read, and
        `StoreUnavailable`; nothing is removed then.
        """
        ...

    def restore(self, rows: Iterable[Row]) -> Restored:
        """Put back rows that are not there, all of them or none.

        Raises `StoreChanged` where one is there with other contents, and `Unsupported`.
        """
        ...

    def close(self) -> None:
        """Give the connection back; closing twice is allowed."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class EditableMemoryStore(WritableMemoryStore, Protocol):
    """A store of items in which a field of one can be set."""

    def edit(self, item: Item, fields: Mapping[str, Any]) -> None:
        """Set fields of an item whose value was read; all else of it stays.

        Raises `StoreChanged` where it is gone or was updated since it was read, `Unsupported`,
        and `StoreUnavailable`; nothing is changed then.
        """
        ...
