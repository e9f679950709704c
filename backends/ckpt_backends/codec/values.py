"""The inert values that decoding returns: plain Python values and three kinds of node.

A class that a store names is never imported; it is represented by its name.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from ckpt_backends.statically_frozen import statically_frozen

Value: TypeAlias = (
    "bool | int | float | str | bytes | list[Value] | dict[Value, Value]"
    " | Tagged | Opaque | Cut | None"
)


@statically_frozen
class Tagged:
    """An object, with the name of its class.

    `payload` is a dict of its fields by name, a list of positional arguments, or the single
    argument of its constructor. `builtins.set` and `datetime.datetime` (ISO 8601 text) are
    `Tagged` too.
    """

    type: str
    """`module.Class`."""
    payload: Value

    def __hash__(self) -> int:
        return hash(self.type)


@statically_frozen
class Opaque:
    """A value that could not be read or has an unknown type."""

    type: str
    """The type tag of the stored value."""
    size: int
    """Stored bytes."""
    sha256: str
    """SHA-256 of the stored bytes in hex; empty if they were not read or must not be shown."""
    reason: str


@statically_frozen
class Cut:
    """The beginning of a value that exceeds a limit."""

    kept: Value
    size: int
    """Size of the whole value in `unit`; stored bytes, if a store was read only in part."""
    reason: str
    unit: Literal["byte", "character", "item", "key"] = "byte"

    def __hash__(self) -> int:
        return hash((self.size, self.reason))


TUPLE = "builtins.tuple"
"""Type of a `Tagged` tuple. Only pickles distinguish tuples from lists."""


def items_of(value: Value) -> list[Value] | None:
    """The items of a list or tuple; None for any other value."""
    if isinstance(value, Tagged) and value.type == TUPLE:
        value = value.payload
    return value if isinstance(value, list) else None


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
