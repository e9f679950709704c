"""Caches decoded values and objects that occur many times, such as the messages of a growing list.

Equal objects then are the same Python object, so code that uses the cache must not change values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from ckpt_backends.codec.cursor import ARRAY, MAP, read_header, skip, write_header
from ckpt_backends.codec.values import CHANNELS, Limits, PastLimit, Tagged, Value, past_bytes

if TYPE_CHECKING:
    from msgspec import Raw


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
            self._channels = SuccessiveValues(decode)
        return self._channels.value(name, data, limits)

    def body(self, data: bytes, limits: Limits, decode: Decode) -> Value:
        """Decode a msgpack body by the one before, as `SuccessiveValues.body` does."""
        if self._bodies is None:
            self._bodies = SuccessiveValues(decode, self._gather)
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
            self._bytes = len(data)
        self._known[code, data] = node

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


def note_unreadable() -> None:
    """Count a value, or an object inside a value, that cannot be read."""
    memo = CURRENT.get()
    if memo is not None:
        memo.unreadable += 1


# Decodes values that come one after another, and of each only what changed.
#
# The checkpoints of a thread differ little. `msgspec` tells where each entry of a body and each
# item of a value ends, without decoding it. What has the bytes that it had before is the same
# Python object.


Decode: TypeAlias = Callable[[bytes, Limits], Value]
_Pairs: TypeAlias = dict[Value, Value]
Gather: TypeAlias = Callable[[bytes], frozenset[Any]]

WORTH_BYTES = 2 << 20
"""Bytes that are decoded in the time in which `msgspec` is loaded."""
_MOST_SUCCESSIVE_BYTES = 32 << 20
"""Maximum stored bytes of the values of channels that are kept; past it, they are forgotten."""
_LEAST = 512
"""Lists and maps with fewer bytes are decoded as a whole, which is faster."""
_LEAST_ITEM = 12
"""The same for those with fewer bytes for each item on average."""
_AROUND = 2
"""Levels of a body around the value of a channel."""
_ARRAY = re.compile(
    rb"\x06(?:(?<=[\xd4-\xd8].)|(?<=\xc7..)|(?<=\xc8...)|(?<=\xc9.....))", re.DOTALL
)
"""The end of what looks like the header of a numpy array."""


class _Known:
    """A value that was decoded."""

    __slots__ = ("data", "gathered", "nodes", "value")

    def __init__(self, data: bytes, value: Value, nodes: int, gathered: frozenset[Any]) -> None:
        self.data = data
        self.value = value
        self.nodes = nodes
        """At least the number of its nodes."""
        self.gathered = gathered


class SuccessiveValues:
    """Decodes the bodies of a thread, or values by the names of their channels, with `decode`.

    Callers must not change what it returns. `gather` finds something in the bytes of a value that
    is also found if the bytes are part of a longer value.
    """

    def __init__(self, decode: Decode, gather: Gather | None = None) -> None:
        self._decode = decode
        self._gather = gather
        self._fields: dict[str, _Known] = {}
        self._channels: dict[str, _Known] = {}
        """The fields and channels of the last body."""
        self._values: dict[str, _Known] = {}
        self._bytes = self._seen_bytes = 0
        self.gathered = frozenset[Any]()
        """What was gathered from the last body, and perhaps what was in the bodies before."""

    def value(self, name: str, data: bytes, limits: Limits) -> Value:
        """Decode a value of a channel. Raises `PastLimit`, and ValueError if it is not valid."""
        known = self._values.get(name)
        found = self._next(known, data, limits)
        _check_nodes([found], limits)
        self._bytes += len(data) - (0 if known is None else len(known.data))
        if self._bytes > _MOST_SUCCESSIVE_BYTES:
            self._values.clear()
            self._bytes = len(data)
        self._values[name] = found
        return found.value

    def body(self, data: bytes, limits: Limits) -> dict[Value, Value] | None:
        """Decode a checkpoint body, a map with texts as keys; None for the first ones.

        Raises `PastLimit` if it may exceed a limit, ValueError if it may not be valid: decoding it
        alone then tells.
        """
        if not self._pays(data):
            return None
        if reason := past_bytes(len(data), limits):
            raise PastLimit(reason)
        if len(data) > limits.nodes and _ARRAY.search(data):
            raise PastLimit("arrays are cut by what stands before them")
        inside = limits._replace(depth=limits.depth - _AROUND)
        stored = _pairs(data)
        fields, channels = dict[str, _Known](), dict[str, _Known]()
        body: dict[Value, Value] = {}
        for key, raw in stored.items():
            one = bytes(raw)
            if key == CHANNELS and read_header(one, 0)[0] == MAP:
                for name, value in _pairs(one).items():
                    known = self._channels.get(name)
                    channels[name] = self._next(known, bytes(value), inside)
                body[key] = {name: known.value for name, known in channels.items()}
            else:
                fields[key] = found = self._next(self._fields.get(key), one, inside)
                body[key] = found.value
        parts = [*fields.values(), *channels.values()]
        _check_nodes(parts, limits)
        self._fields, self._channels = fields, channels
        self.gathered = frozenset[Any]().union(*(one.gathered for one in parts))
        return body

    def size(self, channel: str) -> int:
        """The stored bytes of a channel's value in the last body."""
        return len(self._channels[channel].data)

    def _next(self, known: _Known | None, data: bytes, limits: Limits) -> _Known:
        """Decode a value by the one that stood in its place before."""
        if known is not None and known.data == data:
            return known
        if known is not None and self._pays(data) and _may_be_alike(known, data):
            try:
                return self._changed(known, data, limits)
            except ValueError:
                pass  # such as a map with other keys than texts
        return _Known(data, self._decode(data, limits), len(data), self._gathered(data))

    def _changed(self, known: _Known, data: bytes, limits: Limits) -> _Known:
        """Decode what a list or map has not from the one before. Raises as `body` does."""
        old = known.value
        value: Value
        if isinstance(old, list):
            first, fresh, last = _changed_items(known.data, data)
            items = cast("list[Value]", self._decode(fresh, limits))
            value = [*old[:first], *items, *old[len(old) - last :]]
        else:
            names, fresh = _changed_pairs(known.data, data)
            pairs = cast("_Pairs", old) | cast("_Pairs", self._decode(fresh, limits))
            value = {name: pairs[name] for name in names}
        gathered = known.gathered | self._gathered(fresh)
        return _Known(data, value, known.nodes + len(fresh), gathered)

    def _pays(self, data: bytes) -> bool:
        """Whether so many bytes were seen that it pays to load what compares them."""
        self._seen_bytes += len(data)
        return self._seen_bytes >= WORTH_BYTES

    def _gathered(self, data: bytes) -> frozenset[Any]:
        return frozenset() if self._gather is None else self._gather(data)


def _may_be_alike(known: _Known, data: bytes) -> bool:
    """Whether a value is a list or map with long items, as the one before."""
    kind, _, count = read_header(data, 0)
    old_kind, _, old_count = read_header(known.data, 0)
    return (
        kind == old_kind
        and kind in (ARRAY, MAP)
        and len(known.data) >= _LEAST
        and max(count, old_count) * _LEAST_ITEM <= len(known.data)
    )


def _changed_items(old: bytes, data: bytes) -> tuple[int, bytes, int]:
    """How many items a list has at its beginning as before, the others as a list, how many at its
    end.
    """
    _, old_start, old_count = read_header(old, 0)
    _, start, count = read_header(data, 0)
    # Most lists only grow or, from the newest on, lose their last items. No value is the
    # beginning of another one, so items with the same bytes are the same.
    if data.startswith(old[old_start:], start):
        added = data[start + len(old) - old_start :]
        return old_count, write_header(ARRAY, count - old_count) + added, 0
    if old.startswith(data[start:], old_start):
        return count, write_header(ARRAY, 0), 0
    before, after = _splitter(list)(old), _splitter(list)(data)
    first = _same(before, after, min(old_count, count))
    last = _same(before[::-1], after[::-1], min(old_count, count) - first)
    between = after[first : count - last]
    return first, write_header(ARRAY, len(between)) + b"".join(between), last


def _same(before: list[Raw], after: list[Raw], most: int) -> int:
    """How many items at the beginning are equal."""
    return next((at for at in range(most) if before[at] != after[at]), most)


def _changed_pairs(old: bytes, data: bytes) -> tuple[Collection[str], bytes]:
    """The keys of a map, and the pairs that it had not before, as a map."""
    from ormsgpack import packb

    before, after = _pairs(old), _pairs(data)
    changed = [(key, one) for key, one in after.items() if before.get(key) != one]
    pairs = b"".join(part for key, one in changed for part in (packb(key), one))
    return after, write_header(MAP, len(changed)) + pairs


def _pairs(data: bytes) -> Mapping[str, Raw]:
    """The stored values of a map by key. Raises ValueError if it has other keys than texts."""
    found: Mapping[str, Raw] = _splitter(dict)(data)
    return found


@cache
def _splitter(kind: type) -> Callable[[bytes], Any]:
    """What splits a stored list or map. Raises ValueError for anything else."""
    # Late: loading it takes as long as decoding a hundred bodies.
    from msgspec import MsgspecError, Raw
    from msgspec.msgpack import Decoder

    decoder = Decoder(list[Raw] if kind is list else dict[str, Raw])

    def split(data: bytes) -> Any:
        try:
            return decoder.decode(data)
        except (MsgspecError, RecursionError) as error:
            raise ValueError("cut off, invalid or nested too deeply") from error

    return split


def _check_nodes(parts: Collection[_Known], limits: Limits) -> None:
    """Count the nodes of a body if they may be too many. Raises `PastLimit`."""
    for is_counted in (False, True):
        if is_counted:
            for one in parts:
                one.nodes = skip(one.data, 0).nodes
        if 2 + sum(1 + one.nodes for one in parts) <= limits.nodes:
            return
    raise PastLimit(f"more than {limits.nodes} nodes")
