"""Reads the bodies of one thread without building large channel values, for answers without values.

Most values are those of the body before. A value whose bytes were seen there is skipped: msgpack
tells from a value's bytes where it ends, so a value that begins with them is the same. So are the
items at the beginning of a list. All else is decoded once, so that a damaged body is found as by
`decode_checkpoint`.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from ckpt_backends.codec import decode_checkpoint
from ckpt_backends.codec.cursor import (
    ARRAY,
    MAP,
    MARKS,
    MORE_REST,
    STORED_MARKS,
    Cursor,
    end_of,
    read_header,
    write_header,
)
from ckpt_backends.codec.values import CHANNELS, DEFAULT_LIMITS, Cut, PastLimit, Value
from ckpt_backends.model import TypedBytes, is_control

_LEAST = 8 << 10
"""Smaller bodies are decoded as fast as they are skimmed."""
_SMALL = 512
"""Values of up to this many bytes are decoded."""
_LONGEST_PAUSE = 64


@dataclass(slots=True)
class _Seen:
    """A channel's value in the last body that has the channel."""

    data: bytes
    content: int = 0
    """Where the items of a list begin."""
    ends: list[int] | None = None
    """Where each item of a list ends, counted from there; None for other values."""


class BodySkimmer:
    """Decodes bodies of one thread. Those read one after the other should be alike.

    Keeps the values of one body in memory.
    """

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}
        self._long: list[tuple[str, bytes]] = []
        """The large values of the last body that was walked: name and stored key, in order."""
        self._most_rest = 0
        """Bytes of a body without these; where there are more, another value may be large."""
        self._pause = 0
        self._fresh_bodies = 0
        self._fresh_bytes = 0

    def decode(self, body: TypedBytes) -> Value:
        """Decode a body like `decode_checkpoint`, with a `Cut` of None for each large value.

        Values of LangGraph's control channels are always decoded.
        """
        size = len(body.data)
        is_readable = body.type == "msgpack" and not body.problem
        if not is_readable or not _LEAST <= size <= DEFAULT_LIMITS.value_bytes:
            return decode_checkpoint(body)
        if self._pause:
            self._pause -= 1
            return decode_checkpoint(body)
        try:
            found = self._spliced(body.data) or self._walked(body.data)
        except (ValueError, IndexError, PastLimit):
            return decode_checkpoint(body)
        self._watch(size)
        return found

    def _spliced(self, data: bytes) -> dict[Value, Value] | None:
        """Decode a body by the places of the large values before; None if they stand elsewhere."""
        self._fresh_bytes = 0
        try:
            body, found = self._marked(data)
        except (ValueError, IndexError, PastLimit):
            return None
        channels = body.get(CHANNELS) if isinstance(body, dict) else None
        if not found or not isinstance(body, dict) or not isinstance(channels, dict):
            return None
        for text, (name, now) in zip(MARKS, found.items(), strict=False):
            if channels.get(name) != text or len(now.data) <= _SMALL:
                return None
            channels[name] = _unread(len(now.data))
        self._seen |= found
        return body

    def _marked(self, data: bytes) -> tuple[Value, dict[str, _Seen]]:
        """Decode a body with marks in the places of large values, which are returned too.

        Nothing is returned if it cannot be told.
        """
        found: dict[str, _Seen] = {}
        pieces: list[bytes] = []
        pos = 0
        if len(self._long) > len(MARKS):
            return None, found
        for mark, (name, key) in zip(STORED_MARKS, self._long, strict=False):
            at = data.find(key, pos) + len(key)
            now = self._seen[name]
            if at < len(key):
                return None, {}
            if not data.startswith(now.data, at):
                kind, content, count = read_header(data, at)
                if kind != ARRAY:
                    return None, {}
                now = self._list(data, at, content, count, now)
            found[name] = now
            pieces += data[pos:at], mark
            pos = at + len(now.data)
        rest = b"".join([*pieces, data[pos:]])
        return (_decoded(rest), found) if len(rest) <= self._most_rest else (None, {})

    def _walked(self, data: bytes) -> dict[Value, Value]:
        """Decode a body entry by entry."""
        self._fresh_bytes = 0
        self._long, self._most_rest = [], len(data) + MORE_REST
        cursor = Cursor(data)
        body: dict[Value, Value] = {}
        entries = cursor.enter(MAP)
        for number in range(entries):
            key = cursor.text()
            if key == CHANNELS and cursor.kind() == MAP:
                channels: dict[Value, Value] = {}
                for _ in range(cursor.enter(MAP)):
                    start = cursor.pos
                    name = cursor.text()
                    stored_key = data[start : cursor.pos]
                    channels[name] = value = self._value(cursor, name)
                    if type(value) is Cut:
                        self._long.append((name, stored_key))
                        self._most_rest -= value.size
                # What follows is small, and one call decodes it all.
                rest = _decoded(write_header(MAP, entries - number - 1) + data[cursor.pos :])
                assert isinstance(rest, dict)  # noqa: S101 - its header is that of a map
                return {**body, key: channels, **rest}
            body[key] = _decoded(cursor.take())
        raise ValueError("a body without channels")

    def _value(self, cursor: Cursor, name: str) -> Value:
        start, data = cursor.pos, cursor.data
        seen = self._seen.get(name)
        if seen is not None and data.startswith(seen.data, start):
            cursor.pos = start + len(seen.data)
            return _unread(len(seen.data))
        kind, content, count = read_header(data, start)
        if kind == ARRAY:
            now = self._list(data, start, content, count, seen)
        else:
            end = end_of(data, start)
            now = _Seen(data[start:end])
            if is_control(name) or len(now.data) <= _SMALL:
                cursor.pos = end
                return _decoded(now.data)
            _decoded(now.data)
            self._fresh_bytes += len(now.data) if kind == MAP else 0
        cursor.pos = start + len(now.data)
        if is_control(name) or len(now.data) <= _SMALL:
            return _decoded(now.data)
        self._seen[name] = now
        return _unread(len(now.data))

    def _list(self, data: bytes, start: int, content: int, count: int, seen: _Seen | None) -> _Seen:
        """Find the end of a list, and decode the items that are not at the beginning of `seen`."""
        ends: list[int] = []
        pos = content
        if seen is not None and seen.ends is not None:
            ends = seen.ends[: _same_items(data, content, count, seen)]
            pos = content + ends[-1] if ends else content
        first, left = pos, count - len(ends)
        for _ in range(left):
            pos = end_of(data, pos)
            ends.append(pos - content)
        if left:
            _decoded(write_header(ARRAY, left) + data[first:pos])
        self._fresh_bytes += pos - first
        return _Seen(data[start:pos], content - start, ends)

    def _watch(self, size: int) -> None:
        """Pause if skimming did not pay: where each body has other lists and maps, `end_of` takes
        longer than decoding.
        """
        if self._fresh_bytes * 2 < size:
            self._fresh_bodies = 0
            return
        self._fresh_bodies += 1
        if self._fresh_bodies > 2:
            self._pause = min(1 << self._fresh_bodies, _LONGEST_PAUSE)


def _same_items(data: bytes, content: int, count: int, seen: _Seen) -> int:
    """Return how many items at the beginning of a list are those of `seen`."""
    ends = seen.ends or []
    most = min(count, len(ends))

    def differs(number: int) -> bool:
        return not data.startswith(seen.data[seen.content : seen.content + ends[number]], content)

    # Most lists only grow or, from the newest on, lose their last items.
    if most and not differs(most - 1):
        return most
    return bisect_left(range(most), True, key=differs)


def _decoded(data: bytes) -> Value:
    from ckpt_backends.codec.msgpack import decode_msgpack

    return decode_msgpack(data, DEFAULT_LIMITS)


def _unread(size: int) -> Cut:
    return Cut(None, size, "not read")
