"""Decodes values that come one after another, and of each only the bytes that changed.

The checkpoints of a thread differ little. The long values of a body are looked for where those of
the body before stood, and each is decoded by its bytes there, as `alike` does. A mark takes its
place, and one call decodes all the rest. Only where the marks come out as the values of these
channels did the long values stand there.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ckpt_backends.codec.limits import PastLimit, past_bytes
from ckpt_backends.codec.msgpack.alike import KnownValue, decode_at, grown
from ckpt_backends.codec.msgpack.cursor import MAP, Cursor, skip
from ckpt_backends.codec.msgpack.decode import decode_msgpack
from ckpt_backends.codec.msgpack.marks import MARKS, MORE_REST, STORED_MARKS
from ckpt_backends.codec.values import CHANNELS, Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from ckpt_backends.codec.limits import Limits

_MOST_BYTES = 32 << 20
"""Maximum stored bytes of the values of channels that are kept; past it, they are forgotten."""
_LONG = 512
"""Values of channels with fewer bytes are decoded with the rest of a body."""
_ARRAY = re.compile(rb"(?:[\xd4-\xd8]|\xc7.|\xc8..|\xc9....)\x06", re.DOTALL)
"""What the header of a numpy array looks like."""
_AROUND = 2
"""Levels of a body around the value of a channel."""


class _LongValue(NamedTuple):
    """Where a long value stands in a body."""

    name: str
    key: bytes
    """The stored name."""
    after: bytes
    """The stored key that comes next, or empty."""


class SuccessiveValues:
    """Decodes the bodies of a thread, or values by the names of their channels.

    Callers must not change what it returns. `gather` finds something in the bytes of a value that
    is also found if the bytes are part of a longer value.
    """

    def __init__(self, gather: Callable[[bytes], frozenset[Any]] | None = None) -> None:
        self._gather = gather
        self._fields: dict[str, KnownValue] = {}
        self._channels: dict[str, KnownValue] = {}
        """The fields and channels of the last body."""
        self._keys: list[bytes] = []
        """The stored keys of the last body, of channels too, in their order."""
        self._long: list[_LongValue] = []
        """The long values of channels in the last body, in their order."""
        self._most_rest = 0
        """Bytes of a body without these; where there are more, another value may be long."""
        self._values: dict[str, KnownValue] = {}
        self._bytes = 0
        self.gathered = frozenset[Any]()
        """What was gathered from the last body, and perhaps what was in the bodies before."""

    def value(self, name: str, data: bytes, limits: Limits) -> Value:
        """Decode a value of a channel. Raises `PastLimit`, and ValueError if it is not valid."""
        known = self._values.get(name)
        if known is not None and known.data == data:
            return known.value
        found = None if known is None else grown(known, data, limits)
        if found is None:
            found = KnownValue(data, decode_msgpack(data, limits))
        self._bytes += len(data) - (0 if known is None else len(known.data))
        if self._bytes > _MOST_BYTES:
            self._values.clear()
            self._bytes = len(data)
        self._values[name] = found
        return found.value

    def body(self, data: bytes, limits: Limits) -> Value:
        """Decode a checkpoint body, a map with texts as keys.

        Raises `PastLimit` if it may exceed a limit, ValueError or IndexError if it may not be
        valid: `decode_msgpack` then tells.
        """
        if reason := past_bytes(len(data), limits):
            raise PastLimit(reason)
        if self._long and len(data) <= limits.nodes:
            try:
                found = self._spliced(data, limits)
            except (ValueError, IndexError, PastLimit):
                found = None
            if found is not None:
                return found
        return self._walked(data, limits)

    def _spliced(self, data: bytes, limits: Limits) -> Value:
        """Decode a body by the places of the long values before; None if they stand elsewhere."""
        deep = limits._replace(depth=limits.depth - _AROUND)
        found: dict[str, KnownValue] = {}
        pieces: list[bytes] = []
        pos = 0
        for mark, (name, key, after) in zip(STORED_MARKS, self._long, strict=False):
            at = data.find(key, pos) + len(key)
            if at < len(key):
                return None
            known = self._channels[name]
            if not data.startswith(known.data, at):
                known = self._with_gathered(decode_at(known, data, at, after, deep), known)
            found[name] = known
            pieces += data[pos:at], mark
            pos = at + len(known.data)
        rest = b"".join([*pieces, data[pos:]])
        if len(rest) > self._most_rest:
            return None
        body = decode_msgpack(rest, limits)
        channels = body.get(CHANNELS) if isinstance(body, dict) else None
        if not isinstance(channels, dict):
            return None
        for text, (name, known) in zip(MARKS, found.items(), strict=False):
            if channels.get(name) != text:
                return None
            channels[name] = known.value
        self._channels |= found
        if self._gather is not None:
            parts = (known.gathered or () for known in found.values())
            self.gathered = self._gather(rest).union(*parts)
        return body

    def _walked(self, data: bytes, limits: Limits) -> Value:
        """Decode a body entry by entry."""
        walk = _BodyWalk(data, limits, self._keys)
        cursor = walk.cursor
        fields, channels = dict[str, KnownValue](), dict[str, KnownValue]()
        places: dict[str, int] = {}
        body: dict[Value, Value] = {}
        for _ in range(cursor.enter(MAP)):
            key = walk.key()
            if key == CHANNELS and cursor.kind() == MAP:
                channels, places = {}, {}
                for _ in range(cursor.enter(MAP)):
                    name = walk.key()
                    places[name] = len(walk.keys)
                    known = self._channels.get(name)
                    channels[name] = self._with_gathered(walk.entry(known), known)
                body[key] = {name: known.value for name, known in channels.items()}
            else:
                known = self._fields.get(key)
                fields[key] = found = self._with_gathered(walk.entry(known), known)
                body[key] = found.value
        if cursor.pos != len(data):
            raise ValueError("trailing data")
        parts = [*fields.values(), *channels.values()]
        if walk.nodes > limits.nodes:
            _check_nodes(parts, limits)
        self._fields, self._channels, self._keys = fields, channels, walk.keys
        self._long = [
            _LongValue(name, walk.keys[place - 1], b"".join(walk.keys[place : place + 1]))
            for name, place in sorted(places.items(), key=lambda pair: pair[1])
            if len(channels[name].data) >= _LONG
        ][: len(MARKS)]
        long = sum(len(channels[one.name].data) for one in self._long)
        self._most_rest = len(data) - long + MORE_REST
        self.gathered = frozenset[Any]().union(*(one.gathered or () for one in parts))
        return body

    def _with_gathered(self, found: KnownValue, known: KnownValue | None) -> KnownValue:
        """Gather from a value; `known` is the value before, from which it may have been decoded."""
        if self._gather is not None and found.gathered is None:
            earlier = None if known is None or found.fresh is None else known.gathered
            if earlier is None or found.fresh is None:
                found.gathered = self._gather(found.data)
            else:
                found.gathered = earlier | self._gather(found.fresh)
        found.fresh = None
        return found


class _BodyWalk:
    """A walk through one body, beside the keys of the body before."""

    def __init__(self, data: bytes, limits: Limits, before: list[bytes]) -> None:
        self.cursor = Cursor(data)
        self.keys: list[bytes] = []
        self.nodes = 1
        """At least the number of nodes so far, counted if the body is long."""
        self._before = before
        self._limits = limits._replace(depth=limits.depth - _AROUND)
        self._is_long = len(data) > limits.nodes

    def key(self) -> str:
        """Read a key."""
        start = self.cursor.pos
        name = self.cursor.text()
        self.keys.append(self.cursor.data[start : self.cursor.pos])
        return name

    def entry(self, known: KnownValue | None) -> KnownValue:
        """Read the value of the last key; `known` is its value in the body before."""
        cursor, start = self.cursor, self.cursor.pos
        if known is not None and cursor.data.startswith(known.data, start):
            cursor.pos += len(known.data)
            found = known
        else:
            found = decode_at(known, cursor.data, start, self._key_after(), self._limits)
            if self._is_long and _ARRAY.search(found.data):
                raise PastLimit("arrays are cut by what stands before them")
            cursor.pos = start + len(found.data)
        if self._is_long:
            found.nodes = found.nodes or skip(found.data, 0).nodes
            self.nodes += 2 + found.nodes
        return found

    def _key_after(self) -> bytes:
        """Return the key that came next in the body before; empty if it had other keys."""
        place = len(self.keys)
        if place < len(self._before) and self._before[place - 1] == self.keys[-1]:
            return self._before[place]
        return b""


def _check_nodes(parts: list[KnownValue], limits: Limits) -> None:
    """Count the nodes of a body exactly, as far as the limit allows."""
    nodes = 2
    for one in parts:
        one.nodes = skip(one.data, 0).nodes
        nodes += 1 + one.nodes
    if nodes > limits.nodes:
        raise PastLimit(f"more than {limits.nodes} nodes")
