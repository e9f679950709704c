"""Decodes values that come one after another, and of each only the bytes that changed.

The checkpoints of a thread differ little. No msgpack value is the beginning of another one: where a
value may begin and the bytes of a known value stand, that value stands. So the bytes are compared
first; of a list or dict that changed, only the items between those that are equal at its beginning
and at its end are decoded. What stayed equal is the same Python object.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import chain
from os import urandom
from typing import TYPE_CHECKING, Any

from ormsgpack import unpackb

from ckpt_backends.codec.limits import PastLimit, past_bytes
from ckpt_backends.codec.msgpack.cursor import (
    ARRAY,
    EXT,
    MAP,
    Cursor,
    end_of,
    read_header,
    skip,
    write_header,
)
from ckpt_backends.codec.msgpack.decode import decode_msgpack
from ckpt_backends.codec.values import CHANNELS, Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from ckpt_backends.codec.limits import Limits

_LEAST = 512
"""Lists and dicts with fewer bytes are decoded as a whole, which is faster."""
_LEAST_ITEM = 12
"""The same for those with fewer bytes for each item on average."""
_MOST_ITEMS = 50_000
"""Lists and dicts with more items are decoded as a whole: their offsets would take much memory."""
_MOST_BYTES = 32 << 20
"""Maximum stored bytes of the values of channels that are kept; past it, they are forgotten."""
_GUESSES = 3
"""Number of places at which a value is supposed to end before it is walked through."""
_MARK = urandom(16).hex()
_MARK_STORED = b"\xd9\x20" + _MARK.encode()
_PAIR = write_header(ARRAY, 2)
_ARRAY = re.compile(rb"(?:[\xd4-\xd8]|\xc7.|\xc8..|\xc9....)\x06", re.DOTALL)
"""What the header of a numpy array looks like."""
_AROUND = 2
"""Levels of a body around the value of a channel."""


@dataclass(slots=True)
class _Known:
    """A value that was decoded."""

    data: bytes
    value: Value
    ends: list[int] | None = None
    """For a list or dict, where each item or pair ends in the data; None if not known."""
    nodes: int = 0
    """At least the number of its nodes; 0 if not counted, as is only needed for long values."""
    fresh: bytes | None = None
    """What it has that the value before had not, as a list or dict of its own, if that is known."""
    gathered: frozenset[Any] | None = None


class SuccessiveValues:
    """Decodes the bodies of a thread, or values by the names of their channels.

    Callers must not change what it returns. `gather` finds something in the bytes of a value that
    is also found if the bytes are part of a longer value.
    """

    def __init__(self, gather: Callable[[bytes], frozenset[Any]] | None = None) -> None:
        self._gather = gather
        self._fields: dict[str, _Known] = {}
        self._channels: dict[str, _Known] = {}
        """The fields and channels of the last body."""
        self._keys: list[bytes] = []
        """The stored keys of the last body, of channels too, in their order."""
        self._values: dict[str, _Known] = {}
        self._bytes = 0

    def value(self, name: str, data: bytes, limits: Limits) -> Value:
        """Decode a value of a channel. Raises `PastLimit`, and ValueError if it is not valid."""
        known = self._values.get(name)
        if known is not None and known.data == data:
            return known.value
        found = None if known is None else _grown(known, data, limits)
        if found is None:
            found = _Known(data, decode_msgpack(data, limits))
        self._bytes += len(data) - (0 if known is None else len(known.data))
        if self._bytes > _MOST_BYTES:
            self._values.clear()
            self._bytes = len(data)
        self._values[name] = found
        return found.value

    @property
    def gathered(self) -> frozenset[Any]:
        """What was gathered from the last body, and perhaps what was in the bodies before."""
        parts = chain(self._fields.values(), self._channels.values())
        return frozenset().union(*(one.gathered or () for one in parts))

    def body(self, data: bytes, limits: Limits) -> Value:
        """Decode a checkpoint body, a map with texts as keys.

        Raises `PastLimit` if it may exceed a limit, ValueError or IndexError if it may not be
        valid: `decode_msgpack` then tells.
        """
        if reason := past_bytes(len(data), limits):
            raise PastLimit(reason)
        walk = _BodyWalk(data, limits, self._keys, self._gather)
        cursor = walk.cursor
        fields, channels = dict[str, _Known](), dict[str, _Known]()
        body: dict[Value, Value] = {}
        for _ in range(cursor.enter(MAP)):
            key = walk.key()
            if key == CHANNELS and cursor.kind() == MAP:
                channels = {}
                for _ in range(cursor.enter(MAP)):
                    name = walk.key()
                    channels[name] = walk.entry(self._channels.get(name))
                body[key] = {name: known.value for name, known in channels.items()}
            else:
                fields[key] = known = walk.entry(self._fields.get(key))
                body[key] = known.value
        if cursor.pos != len(data):
            raise ValueError("trailing data")
        if walk.nodes > limits.nodes:
            _check_nodes([*fields.values(), *channels.values()], limits)
        self._fields, self._channels, self._keys = fields, channels, walk.keys
        return body


class _BodyWalk:
    """A walk through one body, beside the keys of the body before."""

    def __init__(
        self,
        data: bytes,
        limits: Limits,
        before: list[bytes],
        gather: Callable[[bytes], frozenset[Any]] | None,
    ) -> None:
        self.cursor = Cursor(data)
        self.keys: list[bytes] = []
        self.nodes = 1
        """At least the number of nodes so far, counted if the body is long."""
        self._before = before
        self._gather = gather
        self._limits = limits._replace(depth=limits.depth - _AROUND)
        self._is_long = len(data) > limits.nodes

    def key(self) -> str:
        """Read a key."""
        start = self.cursor.pos
        name = self.cursor.text()
        self.keys.append(self.cursor.data[start : self.cursor.pos])
        return name

    def entry(self, known: _Known | None) -> _Known:
        """Read the value of the last key; `known` is its value in the body before."""
        cursor, start = self.cursor, self.cursor.pos
        if known is not None and cursor.data.startswith(known.data, start):
            cursor.pos += len(known.data)
            found = known
        else:
            found = self._other(known)
            if self._is_long and _ARRAY.search(found.data):
                raise PastLimit("arrays are cut by what stands before them")
            cursor.pos = start + len(found.data)
        if self._is_long:
            found.nodes = found.nodes or skip(found.data, 0).nodes
            self.nodes += 2 + found.nodes
        if self._gather is not None and found.gathered is None:
            earlier = None if known is None or found.fresh is None else known.gathered
            if earlier is None or found.fresh is None:
                found.gathered = self._gather(found.data)
            else:
                found.gathered = earlier | self._gather(found.fresh)
        found.fresh = None
        return found

    def _other(self, known: _Known | None) -> _Known:
        data, start, limits = self.cursor.data, self.cursor.pos, self._limits
        kind = self.cursor.kind()
        if kind not in (ARRAY, MAP):
            part = data[start : end_of(data, start)]
            return _Known(part, decode_msgpack(part, limits) if kind == EXT else unpackb(part))
        after = self._key_after()
        if known is not None and (found := _changed(known, data, start, after, limits)):
            return found
        return _supposed(data, start, after, limits) or _walked(data, start, limits)

    def _key_after(self) -> bytes:
        """Return the key that came next in the body before; empty if it had other keys."""
        place = len(self.keys)
        if place < len(self._before) and self._before[place - 1] == self.keys[-1]:
            return self._before[place]
        return b""


def _check_nodes(parts: list[_Known], limits: Limits) -> None:
    """Count the nodes of a body exactly, as far as the limit allows."""
    nodes = 2
    for one in parts:
        one.nodes = skip(one.data, 0).nodes
        nodes += 1 + one.nodes
    if nodes > limits.nodes:
        raise PastLimit(f"more than {limits.nodes} nodes")


def _grown(known: _Known, data: bytes, limits: Limits) -> _Known | None:
    """Decode a value by the one before it; None if they are not alike."""
    if len(data) > limits.nodes:  # Its nodes have to be counted.
        return None
    try:
        found = _changed(known, data, 0, b"", limits)
    except (ValueError, IndexError, PastLimit):
        return None
    return found if found is not None and len(found.data) == len(data) else None


def _walked(data: bytes, start: int, limits: Limits) -> _Known:
    part = data[start : end_of(data, start)]
    return _Known(part, decode_msgpack(part, limits))


def _supposed(data: bytes, start: int, after: bytes, limits: Limits) -> _Known | None:
    """Decode a value up to the key that is supposed to follow; None if it ends elsewhere.

    Walking through it in Python takes much longer than decoding it. `ormsgpack` ignores what
    follows a value, so the value is decoded as the first of two items; the other one is a text that
    nobody can have stored. It is the second item only if the first ends where it was supposed to.
    """
    end = start
    deeper = limits._replace(depth=limits.depth + 1)
    for _ in range(_GUESSES if after else 0):
        end = data.find(after, end + 1)
        if end < 0:
            break
        try:
            items = decode_msgpack(_PAIR + data[start:end] + _MARK_STORED, deeper)
        except ValueError:
            continue
        if isinstance(items, list) and items[1] == _MARK:
            return _Known(data[start:end], items[0])
    return None


def _changed(known: _Known, data: bytes, start: int, after: bytes, limits: Limits) -> _Known | None:
    """Decode a list or dict with many items that it had before; None if it is something else."""
    old = known.data
    if len(old) < _LEAST or not isinstance(known.value, list | dict):
        return None
    kind, first, count = read_header(data, start)
    old_kind, old_first, old_count = read_header(old, 0)
    if kind != old_kind or old_count > _MOST_ITEMS or len(old) < old_count * _LEAST_ITEM:
        return None
    if known.ends is None:
        if not _is_alike(old, old_first, data, start, first, after):
            return None
        known.ends = _ends(known.value, old, kind, old_first, old_count)
    ends = known.ends
    if len(ends) != old_count:
        return None
    same = _equal_items(old, old_first, ends, data, first, min(count, old_count))
    # Walk through the new items, until the remaining ones are the last of the old ones.
    begin = first + (ends[same - 1] if same else old_first) - old_first
    pos, done, fresh = begin, same, []
    most = same + 16 + count // 8
    while done < count:
        rest = old_count - (count - done)
        if rest >= same:
            at = ends[rest - 1] if rest else old_first
            if data.startswith(old[at : at + 32], pos) and data.startswith(old[at:], pos):
                break
        if done == most:
            return None
        pos = end_of(data, end_of(data, pos) if kind == MAP else pos)
        fresh.append(pos - start)
        done += 1
    rest = old_count - (count - done)
    new = write_header(kind, done - same) + data[begin:pos]
    middle = decode_msgpack(new, limits)
    value = _joined(known.value, same, middle, rest)
    if value is None or len(value) != count:
        return None
    at = ends[rest - 1] if rest else old_first
    end = pos + len(old) - at
    shifted = _moved(ends[:same], first - start - old_first)
    shifted += fresh
    shifted += _moved(ends[rest:], pos - start - at)
    nodes = known.nodes and known.nodes + pos - begin
    return _Known(data[start:end], value, shifted, nodes, fresh=new)


def _is_alike(
    old: bytes, old_first: int, data: bytes, start: int, first: int, after: bytes
) -> bool:
    """Return whether a quarter of a value stayed the same, at its beginning or at its end."""
    quarter = (len(old) - old_first) // 4
    if data.startswith(old[old_first : old_first + quarter], first):
        return True
    end = data.find(after, start) if after else len(data)
    return data[end - quarter : end] == old[-quarter:]


def _ends(value: Value, data: bytes, kind: int, pos: int, count: int) -> list[int]:
    """Return where each item or pair ends; an empty list for keys that are not texts or repeat."""
    ends: list[int] = []
    if isinstance(value, dict) and (len(value) != count or {*map(type, value)} != {str}):
        return ends
    for _ in range(count):
        pos = end_of(data, end_of(data, pos) if kind == MAP else pos)
        ends.append(pos)
    return ends


def _equal_items(
    old: bytes, old_first: int, ends: list[int], data: bytes, first: int, most: int
) -> int:
    """Return how many items at the beginning have the same bytes."""
    shift = first - old_first

    def differs(number: int) -> bool:
        # All before `begin` is known to be equal.
        end = ends[number - 1] if number else old_first
        return not data.startswith(old[begin:end], begin + shift)

    begin = old_first
    if not differs(most):
        return most
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        if differs(middle):
            high = middle
        else:
            low, begin = middle, ends[middle - 1]
    return low


def _joined(
    value: Value, same: int, middle: Value, rest: int
) -> list[Value] | dict[Value, Value] | None:
    """Return the first items of a value, those between, and its last items from `rest` on."""
    if isinstance(value, list) and isinstance(middle, list):
        return [*value[:same], *middle, *value[rest:]]
    if isinstance(value, dict) and isinstance(middle, dict) and {*map(type, middle)} <= {str}:
        pairs = list(value.items())
        return dict(chain(pairs[:same], middle.items(), pairs[rest:]))
    return None


def _moved(ends: list[int], by: int) -> list[int]:
    return [end + by for end in ends] if by else ends
