"""The inert values that decoding returns: plain Python values and three kinds of node.

A class that a store names is never imported; it is represented by its name.

The nodes are plain classes: a tuple would be taken for a value of the store, and a dataclass takes
half a millisecond to declare, at each start.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

Value: TypeAlias = (
    "bool | int | float | str | bytes | list[Value] | dict[Value, Value]"
    " | Tagged | Opaque | Cut | None"
)


class Tagged:
    """An object, with the name of its class.

    `payload` is a dict of its fields by name, a list of positional arguments, or the single
    argument of its constructor. `builtins.set` and `datetime.datetime` (ISO 8601 text) are
    `Tagged` too.
    """

    __slots__ = ("payload", "type")
    __match_args__ = ("type", "payload")

    def __init__(self, type: str, payload: Value) -> None:  # noqa: A002
        self.type: Final = type
        """`module.Class`."""
        self.payload: Final = payload

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tagged) or other.__class__ is not self.__class__:
            return NotImplemented
        return (self.type, self.payload) == (other.type, other.payload)

    def __hash__(self) -> int:
        return hash(self.type)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}(type={self.type!r}, payload={self.payload!r})"


class Opaque:
    """A value that could not be read or has an unknown type."""

    __slots__ = ("reason", "sha256", "size", "type")
    __match_args__ = ("type", "size", "sha256", "reason")

    def __init__(self, type: str, size: int, sha256: str, reason: str) -> None:  # noqa: A002
        self.type: Final = type
        """The type tag of the stored value."""
        self.size: Final = size
        """Stored bytes."""
        self.sha256: Final = sha256
        """SHA-256 of the stored bytes in hex; empty if they were not read or must not be shown."""
        self.reason: Final = reason

    def __eq__(self, other: object) -> bool:
        return self._fields() == other._fields() if isinstance(other, Opaque) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._fields())

    def __repr__(self) -> str:
        return (
            f"Opaque(type={self.type!r}, size={self.size!r}, sha256={self.sha256!r},"
            f" reason={self.reason!r})"
        )

    def _fields(self) -> tuple[str, int, str, str]:
        return self.type, self.size, self.sha256, self.reason


Unit: TypeAlias = Literal["byte", "character", "item", "key"]


class Cut:
    """The beginning of a value that exceeds a limit."""

    __slots__ = ("kept", "reason", "size", "unit")
    __match_args__ = ("kept", "size", "reason", "unit")

    def __init__(self, kept: Value, size: int, reason: str, unit: Unit = "byte") -> None:
        self.kept: Final = kept
        self.size: Final = size
        """Size of the whole value in `unit`; stored bytes, if a store was read only in part."""
        self.reason: Final = reason
        self.unit: Final[Unit] = unit

    def with_kept(self, kept: Value) -> Cut:
        """Return the same with another value in place of the one that was kept."""
        return Cut(kept, self.size, self.reason, self.unit)

    def __eq__(self, other: object) -> bool:
        return self._fields() == other._fields() if isinstance(other, Cut) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.size, self.reason))

    def __repr__(self) -> str:
        return (
            f"Cut(kept={self.kept!r}, size={self.size!r}, reason={self.reason!r},"
            f" unit={self.unit!r})"
        )

    def _fields(self) -> tuple[Value, int, str, str]:
        return self.kept, self.size, self.reason, self.unit


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
