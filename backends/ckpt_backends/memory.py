"""Long-term memory: items that all threads share, such as those of LangGraph's `BaseStore`.

A namespace is a tuple of labels such as `("users", "anna", "memories")`; an item is a key with a
value in a namespace. DeerFlow's memory files have the same form here: each fact is an item.
"""

from __future__ import annotations

import json
import math
from abc import abstractmethod
from collections.abc import (
    Callable,
    Collection,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Set,
)
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import blake2b
from itertools import groupby
from typing import TYPE_CHECKING, Any, Protocol

from ckpt_backends.changes import UNKNOWN_REMAINS, Remains
from ckpt_backends.codec.values import Cut, Limits, PastLimit, Tagged
from ckpt_backends.errors import Closing, Refused, StoreChanged, Unsupported
from ckpt_backends.model import HiddenRows, Progress, TypedBytes, silent
from ckpt_backends.rows import Restored, Row
from ckpt_backends.transfer.form import CannotHold
from ckpt_backends.url import StoreUrl

if TYPE_CHECKING:
    from ckpt_backends.rows import Row


Namespace = tuple[str, ...]
HINT = "it holds long-term memory: run `ckpt memory list`"
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


# Namespaces of long-term memory as one text: the labels, joined by dots. No label has a dot.
#
# Source: `_namespace_to_text` and `_decode_ns` in `langgraph/store/sqlite/base.py` (3.1.2),
# `postgres/base.py` (3.2.0) and `redis/base.py` (0.5.2).


DOT = "."
STORE, VECTORS = "store", "store_vectors"
"""Table names of a Store, and the default prefixes of its keys."""
COLUMNS = frozenset({"prefix", "key", "value", "created_at", "updated_at"})
LATER = frozenset({"expires_at", "ttl_minutes"})
"""Columns that a later release added, together with times to live."""


def why_unchangeable(columns: Set[str]) -> str:
    """The reason why a table of items is read-only; `''` if it can be changed."""
    unknown = sorted(columns - COLUMNS - LATER)
    return f"unknown columns: {', '.join(unknown)}" if unknown else ""


def joined(namespace: Namespace) -> str | None:
    """A namespace as it is stored; None if it cannot be stored."""
    return None if any(DOT in label for label in namespace) else DOT.join(namespace)


def parted(text: str) -> Namespace:
    """The labels of a stored namespace."""
    return tuple(text.split(DOT))


def key_of_row(row: Row, columns: Mapping[str, Collection[str]]) -> ItemKey:
    """The key of the item of an archived row. Raises `Refused` and `Unsupported`."""
    # Late, since stores of checkpoints need only the names above.
    from ckpt_backends.rows import check_columns

    check_columns(row, columns, {"prefix", "key"})
    # The library of SQLite stores some texts as bytes.
    prefix, key = (
        cell.decode("utf-8", "surrogateescape") if isinstance(cell, bytes) else cell
        for cell in (row.cells["prefix"], row.cells["key"])
    )
    if not isinstance(prefix, str) or not isinstance(key, str):
        raise Refused(f"a row of '{row.table}' is not an item")
    return ItemKey(parted(prefix), key)


def below(text: str) -> tuple[str, str]:
    """The range of texts that begin with a namespace and a dot: from the first, before the last."""
    return f"{text}{DOT}", f"{text}{chr(ord(DOT) + 1)}"


# Items on their way from one Store to another: their values as JSON, and how two items compare.


PLAIN_BSON = "bson-plain"
"""The type of a value that is a BSON document."""
_DEEPEST = 90
"""Levels of nested containers. MongoDB's documents have at most 100."""
_ALL = Limits(value_bytes=1 << 30, nodes=1 << 30)
_MINUTE = 60


def as_json(value: TypedBytes | None) -> dict[str, Any]:
    """A value as plain Python objects. Raises `CannotHold` if JSON cannot represent it."""
    if value is None or value.problem:
        raise CannotHold(f"its value cannot be read: {value.problem if value else 'it is missing'}")
    try:
        if value.type == "json":
            found = json.loads(value.data, parse_constant=_no_constant)
        elif value.type == PLAIN_BSON:
            from ckpt_backends.codec.bson import decode_bson

            found = decode_bson(value.data, _ALL, None)
        else:
            raise CannotHold(
                f"its value is of the type '{value.type}', which only RedisStore can hold"
            )
    except (ValueError, PastLimit, RecursionError) as error:
        raise CannotHold(f"its value cannot be read: {error}") from None
    if isinstance(found, Cut) or not isinstance(found, dict):
        raise CannotHold("its value is not a JSON object")
    check_leaves(found, _problem_of_json)
    return found


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _problem_of_json(leaf: object) -> str:
    match leaf:
        case float():
            return "" if math.isfinite(leaf) else f"has the number {leaf}, which JSON lacks"
        case str():
            return "" if is_unicode(leaf) else "has a text that is not Unicode"
        case None | bool() | int():
            return ""
    name = leaf.type if isinstance(leaf, Tagged) else type(leaf).__name__
    return f"has a value of the type '{name}', which JSON lacks"


def is_unicode(text: str) -> bool:
    """Whether a text can be encoded: it has no lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_leaves(value: object, problem_of: Callable[[object], str]) -> None:
    """Raise `CannotHold` at the first leaf or key of an object that a function objects to."""
    for leaf in _leaves(value):
        if problem := problem_of(leaf):
            raise CannotHold(f"its value {problem}")


def _leaves(value: object) -> Iterator[object]:
    left: list[tuple[object, int]] = [(value, 1)]
    while left:
        one, depth = left.pop()
        if isinstance(one, dict | list) and depth > _DEEPEST:
            raise CannotHold(f"its value is nested deeper than {_DEEPEST} levels")
        if isinstance(one, dict):
            yield from one
            left += [(inner, depth + 1) for inner in one.values()]
        elif isinstance(one, list):
            left += [(inner, depth + 1) for inner in one]
        else:
            yield one


def compact(value: object) -> TypedBytes:
    """A value as JSON text, as the library of SQLite writes it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return TypedBytes("json", text.encode())


def check_whole(value: object, first: int, last: int) -> None:
    """Raise `CannotHold` for a whole number outside of a range."""

    def problem_of(leaf: object) -> str:
        if not isinstance(leaf, int) or first <= leaf <= last:
            return ""
        return "has a number of more than 64 bits"

    check_leaves(value, problem_of)


def check_labels(namespace: Namespace, separator: str) -> None:
    """Raise `CannotHold` for a namespace that LangGraph's Stores refuse, or cannot tell apart."""
    if not namespace or not all(namespace):
        raise CannotHold("its namespace has an empty label")
    for label in namespace:
        if separator in label:
            raise CannotHold(f"label '{label}' has a '{separator}', which separates labels there")
        if "\0" in label:
            raise CannotHold(f"label '{label}' has a NUL byte")


def lifetime_of(item: Item) -> float | None:
    """The time to live of an item in minutes: as stored, else from its times; None if unknown."""
    if item.expires_at is None or item.lifetime is not None:
        return None if item.expires_at is None else item.lifetime
    if item.updated_at is None:
        return None
    return round((item.expires_at - item.updated_at).total_seconds()) / _MINUTE


def digest_of(item: Item) -> bytes:
    """A digest of an item's value and times; equal JSON values have equal digests.

    The time of expiry is left out: servers report it a little differently each time.
    """
    value = item.value
    if value is not None and value.type == "json" and not value.problem:
        try:
            text = json.dumps(json.loads(value.data), sort_keys=True)
        except (ValueError, RecursionError):
            text = repr(value.data)
    else:
        text = repr(value)
    return blake2b(f"{item.created_at} {item.updated_at} {text}".encode(), digest_size=16).digest()


def whole_milliseconds(at: datetime) -> datetime:
    """A time without the digits after its milliseconds."""
    return at - timedelta(microseconds=at.microsecond % 1000)
