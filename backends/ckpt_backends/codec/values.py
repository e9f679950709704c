"""The inert values that decoding returns: plain Python values and three kinds of node.

A class that a store names is never imported; it is represented by its name.

The nodes are no tuples, which would be taken for values of the store.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from ckpt_backends.model import TypedBytes

Value: TypeAlias = (
    "bool | int | float | str | bytes | list[Value] | dict[Value, Value]"
    " | Tagged | Opaque | Cut | None"
)


@dataclass(slots=True)
class Tagged:
    """An object, with the name of its class.

    `payload` is a dict of its fields by name, a list of positional arguments, or the single
    argument of its constructor. `builtins.set` and `datetime.datetime` (ISO 8601 text) are
    `Tagged` too.
    """

    type: Final[str]
    """`module.Class`."""
    payload: Final[Value]

    def __hash__(self) -> int:
        return hash(self.type)


@dataclass(slots=True, unsafe_hash=True)
class Opaque:
    """A value that could not be read or has an unknown type."""

    type: Final[str]
    """The type tag of the stored value."""
    size: Final[int]
    """Stored bytes."""
    sha256: Final[str]
    """SHA-256 of the stored bytes in hex; empty if they were not read or must not be shown."""
    reason: Final[str]


Unit: TypeAlias = Literal["byte", "character", "item", "key"]


@dataclass(slots=True)
class Cut:
    """The beginning of a value that exceeds a limit."""

    kept: Final[Value]
    size: Final[int]
    """Size of the whole value in `unit`; stored bytes, if a store was read only in part."""
    reason: Final[str]
    unit: Final[Unit] = "byte"

    def __hash__(self) -> int:
        return hash((self.size, self.reason))

    def with_kept(self, kept: Value) -> Cut:
        """Return the same with another value in place of the one that was kept."""
        return Cut(kept, self.size, self.reason, self.unit)


TUPLE = "builtins.tuple"
"""Type of a `Tagged` tuple. Only pickles distinguish tuples from lists."""


def items_of(value: Value) -> list[Value] | None:
    """The items of a list or tuple; None for any other value."""
    if isinstance(value, Tagged) and value.type == TUPLE:
        value = value.payload
    return value if isinstance(value, list) else None


def inner_values(root: Any) -> Iterator[Any]:
    """A value and all that are inside its dicts and lists, without keys. Never recurses."""
    todo = [root]
    while todo:
        item = todo.pop()
        yield item
        if isinstance(item, dict):
            todo.extend(item.values())
        elif isinstance(item, list):
            todo.extend(item)


CHANNELS = "channel_values"
"""Key of the channel values in a checkpoint body."""

REDIS_JSON = "redis-json"
"""Type tag of JSON with markers of LangGraph's Redis saver, such as `__interrupt__`."""
JSON_TYPES = frozenset({"json", REDIS_JSON})
"""The type tags of JSON texts. They differ in the markers for types that JSON does not have."""

UNDEFINED = Tagged("javascript.undefined", None)
"""JavaScript's `undefined`, which differs from its `null`."""

DELTA_SNAPSHOT = "langgraph.DeltaSnapshot"
"""Type of the `Tagged` that wraps the snapshot of a DeltaChannel."""


# Limits on how much of one value is read and decoded.


MOST_BYTES = 256 << 20
"""Values with more bytes are not read. In practice, savers store bodies of up to about 80 MB."""


class PastLimit(Exception):
    """A value exceeds a limit; the message says which one."""


class Limits(NamedTuple):
    """The limits of every decoder. A value that exceeds one of them is cut."""

    value_bytes: int = 16 * 1024 * 1024
    """Stored bytes of one value: of a channel, a write or metadata."""
    depth: int = 200
    """Levels of nested containers and ext types. A level takes about 1 KiB of C stack."""
    nodes: int = 500_000
    """Number of values inside a value, including map keys; about 50 MB as Python objects."""


DEFAULT_LIMITS = Limits()
WHOLE_LIMITS = Limits(value_bytes=MOST_BYTES, nodes=10_000_000)
"""The limits of a search that has to read all of a value, and shows none of it: at most about 1 GB
as Python objects."""


class Span(NamedTuple):
    """The measure of one value: its end offset, number of nodes and depth."""

    end: int
    nodes: int
    depth: int


class Budget:
    """Counts how many nodes may still be created for a group of values."""

    def __init__(self, limits: Limits, nodes: int) -> None:
        self._limits = limits
        self._left = nodes

    def limits(self) -> Limits:
        """The limits for the next value."""
        return self._limits._replace(nodes=min(self._limits.nodes, self._left))

    def spend(self, span: Span, size: int) -> str:
        """Count a value of `size` bytes. Returns the limit that it exceeds, in words, or `''`."""
        allowed = min(self._limits.nodes, self._left)
        self._left -= min(span.nodes, allowed)
        if span.nodes > allowed:
            return f"more than {allowed} nodes"
        return past_bytes(size, self._limits) or past_counts(span.nodes, span.depth, self._limits)


def body_budgets(limits: Limits) -> tuple[Budget, Budget]:
    """The budgets of a checkpoint body: of its entries, and of its channel values."""
    return Budget(limits, limits.nodes), Budget(limits, 4 * limits.nodes)


def past_bytes(size: int, limits: Limits) -> str:
    """The limit that a value of `size` bytes exceeds, in words, or `''`."""
    return f"longer than {limits.value_bytes} bytes" if size > limits.value_bytes else ""


def past_counts(nodes: int, depth: int, limits: Limits) -> str:
    """The limit that a value with these counts exceeds, in words, or `''`."""
    if depth > limits.depth:
        return f"nested deeper than {limits.depth} levels"
    return f"more than {limits.nodes} nodes" if nodes > limits.nodes else ""


def unread(tag: str, size: int) -> TypedBytes:
    """A placeholder for a value of `size` bytes that was not read."""
    return TypedBytes(tag, b"", problem=f"longer than {MOST_BYTES >> 20} MiB, not read", whole=size)


def typed(tag: str, size: int, data: bytes | None) -> TypedBytes:
    """A value as stored, or a placeholder if it is longer than `MOST_BYTES`."""
    return unread(tag, size) if size > MOST_BYTES else TypedBytes(tag, data or b"")
