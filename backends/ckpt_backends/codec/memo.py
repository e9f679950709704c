"""Caches decoded values and objects that occur many times, such as the messages of a growing list.

Equal objects then are the same Python object, so code that uses the cache must not change values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from ckpt_backends.codec.values import Tagged, Value

if TYPE_CHECKING:
    from ckpt_backends.codec.successive import Decode, SuccessiveValues
    from ckpt_backends.codec.values import Limits

_MOST_BYTES, _MOST_VALUE_BYTES = 32 << 20, 4 << 20
"""Maximum stored bytes of the cached objects, and of all cached values. If it is exceeded, these
are forgotten. Lists of small items take ten times their stored bytes."""
_SMALL = 100
"""Values of up to this many bytes are decoded faster than they are looked up."""


class Memo:
    """A cache of decoded values by their type tag and bytes, and of objects by their ext code.

    With `gather`, also what that finds in the bytes of long msgpack bodies: see `SuccessiveValues`.
    """

    def __init__(self, gather: Callable[[bytes], frozenset[Any]] | None = None) -> None:
        self._gather = gather
        self._gathered: dict[int, tuple[bytes, frozenset[Any]]] = {}
        """By the `id` of a body's bytes, which are kept so that no others get this id."""
        self._gathered_bytes = 0
        self._known: dict[tuple[int, bytes], Tagged] = {}
        self._outer: dict[tuple[int, bytes], tuple[Tagged, int, int]] = {}
        self._values: dict[tuple[str, bytes], tuple[Value]] = {}
        self._bytes = self._value_bytes = 0
        self.unreadable = 0
        """Number of values, and of objects inside values, that could not be read."""
        self._channels: SuccessiveValues | None = None
        self._bodies: SuccessiveValues | None = None

    def channel(self, name: str, data: bytes, limits: Limits, decode: Decode) -> Value:
        """Decode a msgpack value by the one that this channel had before.

        Raises what `SuccessiveValues.value` does.
        """
        if self._channels is None:
            self._channels = _successive()(decode)
        return self._channels.value(name, data, limits)

    def body(self, data: bytes, limits: Limits, decode: Decode) -> Value:
        """Decode a msgpack body by the one before, as `SuccessiveValues.body` does."""
        if self._bodies is None:
            self._bodies = _successive()(decode, self._gather)
        body = self._bodies.body(data, limits)
        if body is not None and self._gather is not None:
            self._gathered_bytes += len(data)
            if self._gathered_bytes > _MOST_BYTES:
                self._gathered.clear()
                self._gathered_bytes = len(data)
            self._gathered[id(data)] = data, self._bodies.gathered
        return body

    def take_gathered(self, data: bytes) -> frozenset[Any] | None:
        """Return once what was gathered from a body: all that is in it, and perhaps more.

        Returns None if nothing is known of it.
        """
        known = self._gathered.pop(id(data), None)
        if known is None:
            return None
        self._gathered_bytes -= len(data)
        return known[1]

    def get(self, code: int, data: bytes) -> Tagged | None:
        """The object that was decoded from these bytes before, or None."""
        return self._known.get((code, data))

    def put(self, code: int, data: bytes, node: Tagged) -> None:
        """Cache an object."""
        self._bytes += len(data)
        if self._bytes > _MOST_BYTES:
            self._known.clear()
            self._outer.clear()
            self._bytes = len(data)
        self._known[code, data] = node

    def outer(self, code: int, data: bytes) -> tuple[Tagged, int, int] | None:
        """The same for an object that is in no other: also its depth, and what it adds to the
        depth that its bytes seem to have.
        """
        return self._outer.get((code, data))

    def put_outer(self, code: int, data: bytes, node: Tagged, depth: int, heads: int) -> None:
        """Cache such an object, unless it is not in the cache of objects."""
        if (code, data) in self._known:
            self._outer[code, data] = node, depth, heads

    def value(self, tag: str, data: bytes) -> tuple[Value] | None:
        """The value that was decoded from these bytes before, in a tuple, or None."""
        return None if len(data) <= _SMALL else self._values.get((tag, data))

    def put_value(self, tag: str, data: bytes, value: Value) -> None:
        """Cache a value, unless it is small."""
        if len(data) > _SMALL:
            self._value_bytes += len(data)
            if self._value_bytes > _MOST_VALUE_BYTES:
                self._values.clear()
                self._value_bytes = len(data)
            self._values[tag, data] = (value,)

    def clear(self) -> None:
        """Empty the cache; `unreadable` stays."""
        self._known.clear()
        self._outer.clear()
        self._values.clear()
        self._gathered.clear()
        self._channels = self._bodies = None
        self._bytes = self._value_bytes = self._gathered_bytes = 0


CURRENT: ContextVar[Memo | None] = ContextVar("memo", default=None)
"""The active cache, set by `remembering`."""


@contextmanager
def remembering(gather: Callable[[bytes], frozenset[Any]] | None = None) -> Iterator[Memo]:
    """Inside the `with` block, equal values and objects are decoded once."""
    memo = Memo(gather)
    token = CURRENT.set(memo)
    try:
        yield memo
    finally:
        CURRENT.reset(token)


def _successive() -> type[SuccessiveValues]:
    # Late: few values are long.
    from ckpt_backends.codec.successive import SuccessiveValues

    return SuccessiveValues


def note_unreadable() -> None:
    """Count a value, or an object inside a value, that cannot be read."""
    memo = CURRENT.get()
    if memo is not None:
        memo.unreadable += 1
