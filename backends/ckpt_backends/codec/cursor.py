"""Reads msgpack headers, and skips values while it counts their nodes and depth.

All modules that walk stored msgpack use it. Nothing here decodes a value.

`ormsgpack` recurses on the C stack and calls back for each ext type. Deep nesting could overflow
the stack and kill the process, so the depth must be checked before decoding.
"""

from __future__ import annotations

import re

from ckpt_backends.codec.values import Limits, PastLimit, Span, past_counts

STR, BIN, ARRAY, MAP, EXT, SCALAR = range(6)

READ_EXT = range(8)
"""Ext codes whose payload is msgpack."""

_CUT_OFF = "cut off or invalid msgpack"
_OPENING = bytes([*range(0x80, 0xA0), *range(0xC7, 0xCA), *range(0xD4, 0xD9), *range(0xDC, 0xE0)])
_SCALARS = {0xC0: 0, 0xC1: 1 << 40, 0xC2: 0, 0xC3: 0, 0xCA: 4, 0xCB: 8} | {
    first + power: 1 << power for first in (0xCC, 0xD0) for power in range(4)
}
_SIZES = tuple(
    0
    if byte < 0x80 or byte >= 0xE0
    else byte & 31
    if 0xA0 <= byte < 0xC0
    else _SCALARS.get(byte, -1)
    for byte in range(256)
)
_SIZED = {
    0xC4: (BIN, 1),
    0xC5: (BIN, 2),
    0xC6: (BIN, 4),
    0xC7: (EXT, 1),
    0xC8: (EXT, 2),
    0xC9: (EXT, 4),
    0xD9: (STR, 1),
    0xDA: (STR, 2),
    0xDB: (STR, 4),
    0xDC: (ARRAY, 2),
    0xDD: (ARRAY, 4),
    0xDE: (MAP, 2),
    0xDF: (MAP, 4),
}
# Long lists of small integers, empty containers or floats are skipped at C speed.
_ONE_BYTE_RUN = re.compile(rb"[\x00-\x80\x90\xa0\xc0\xc2\xc3\xe0-\xff]+")
_FLOAT_RUN = re.compile(rb"(?:\xcb.{8})+", re.DOTALL)
_WORTH_A_RUN = 16


def depth_bound(data: bytes) -> int:
    """An upper bound of the depth: the number of bytes that may start a container or ext type."""
    return len(data) - len(data.translate(None, _OPENING))


def read_header(data: bytes, pos: int) -> tuple[int, int, int]:
    """The kind of the value at `pos`, the start of its content, and the content's length.

    The length is in items for `ARRAY`, in pairs for `MAP`, otherwise in bytes. The content of an
    `EXT` starts at its code byte, which the length does not include. An invalid byte counts as a
    `SCALAR` of 2^40 bytes, which is always cut off. Raises IndexError at the end of the data.
    """
    first = data[pos]
    if 0xA0 <= first < 0xC0:
        return STR, pos + 1, first & 31
    if (size := _SIZES[first]) >= 0:
        return SCALAR, pos + 1, size
    if first < 0x90:
        return MAP, pos + 1, first & 15
    if first < 0xA0:
        return ARRAY, pos + 1, first & 15
    if 0xD4 <= first <= 0xD8:
        return EXT, pos + 1, 1 << (first - 0xD4)
    kind, width = _SIZED[first]
    start = pos + 1 + width
    return kind, start, int.from_bytes(data[pos + 1 : start], "big")


def skip(data: bytes, pos: int, limits: Limits | None = None) -> Span:
    """Measure the value that starts at `pos`. Never recurses.

    A damaged payload of an ext type is skipped, because only that ext type fails to decode. Raises
    `PastLimit` if `limits` is given and exceeded, and ValueError if the value is invalid.
    """
    end = len(data)
    outer: list[tuple[int, int, bool]] = []
    left, nodes, depth = 1, 1, 0
    while True:
        if left == 0 and pos <= end:
            if not outer:
                return Span(pos, nodes, depth)
            left, outer_end, is_ext = outer.pop()
            if is_ext:
                pos, end = end, outer_end
            continue
        if left == 0 or pos >= end:
            left, pos, end = _leave_ext(outer, end)
            continue
        left -= 1
        size = _SIZES[data[pos]]
        if size >= 0:
            pos += 1 + size
            continue
        kind, pos, length = read_header(data, pos)
        if kind in (STR, BIN):
            pos += length
            continue
        if kind == EXT:
            start, pos = pos, pos + 1 + length
            if pos > end or data[start] not in READ_EXT:
                continue
            outer.append((left, end, True))
            left, end, pos = 1, pos, start + 1
        else:
            if length == 0:
                continue
            outer.append((left, end, False))
            left = length << (kind == MAP)
        # A header may claim more items than there are bytes left, so count at most these bytes.
        nodes += max(0, min(left, end - pos))
        depth = max(depth, len(outer))
        if limits and (nodes > limits.nodes or depth > limits.depth):
            raise PastLimit(past_counts(nodes, depth, limits))
        if left >= _WORTH_A_RUN:
            skipped, pos = _skip_run(data, pos, end, left)
            left -= skipped


def end_of(data: bytes, pos: int) -> int:
    """The end of the value that starts at `pos`. Enters no ext type, so it is faster than `skip`.

    Raises ValueError if the value is cut off.
    """
    end, left = len(data), 1
    try:
        while left:
            left -= 1
            size = _SIZES[data[pos]]
            if size >= 0:
                pos += 1 + size
                continue
            kind, pos, length = read_header(data, pos)
            if kind in (ARRAY, MAP):
                left += length << (kind == MAP)
                if left >= _WORTH_A_RUN:
                    skipped, pos = _skip_run(data, pos, end, left)
                    left -= skipped
            else:
                pos += length + (kind == EXT)
    except IndexError:
        raise ValueError(_CUT_OFF) from None
    if pos > end:
        raise ValueError(_CUT_OFF)
    return pos


def _skip_run(data: bytes, pos: int, end: int, left: int) -> tuple[int, int]:
    """The number of one-byte values or floats at `pos` that can be skipped, and their end."""
    if run := _ONE_BYTE_RUN.match(data, pos, min(end, pos + left)):
        return run.end() - pos, run.end()
    if run := _FLOAT_RUN.match(data, pos, min(end, pos + 9 * left)):
        return (run.end() - pos) // 9, run.end()
    return 0, pos


def _leave_ext(outer: list[tuple[int, int, bool]], end: int) -> tuple[int, int, int]:
    """Leave the innermost ext payload, which is damaged.

    Returns the items left, the position and the end of the container around it.
    """
    while outer:
        left, outer_end, is_ext = outer.pop()
        if is_ext:
            return left, end, outer_end
    raise ValueError(_CUT_OFF)


def write_header(kind: int, count: int) -> bytes:
    """The shortest header of an `ARRAY` of `count` items or a `MAP` of `count` pairs."""
    short, wide = (0x90, 0xDC) if kind == ARRAY else (0x80, 0xDE)
    if count < 16:
        return bytes([short | count])
    if count < 1 << 16:
        return bytes([wide]) + count.to_bytes(2, "big")
    return bytes([wide + 1]) + count.to_bytes(4, "big")


class Cursor:
    """A position in msgpack bytes. All methods raise ValueError if the data is cut off or invalid.

    They move behind what they read, except for `kind`.
    """

    __slots__ = ("data", "pos")

    def __init__(self, data: bytes, pos: int = 0) -> None:
        self.data = data
        self.pos = pos

    def kind(self) -> int:
        """The kind of the next value."""
        return self._header()[0]

    def enter(self, kind: int, problem: str = "not a map") -> int:
        """Read the header of a container and return its items or pairs.

        Raises ValueError with `problem` if it is of another kind.
        """
        found, start, count = self._header()
        if found != kind:
            raise ValueError(problem)
        self.pos = start
        return count

    def text(self, errors: str = "strict") -> str:
        """Read a text, such as the key of a map. `errors` is that of `bytes.decode`."""
        # Reads the header itself: this runs for each key.
        data, pos = self.data, self.pos
        try:
            first = data[pos]
            if 0xA0 <= first < 0xC0 and (end := pos + 1 + (first & 31)) <= len(data):
                self.pos = end
                return data[pos + 1 : end].decode("utf-8", errors)
            kind, start, length = read_header(data, pos)
        except IndexError:
            raise ValueError(_CUT_OFF) from None
        if kind != STR:
            raise ValueError("a key is not text")
        end = start + length
        if end > len(data):
            raise ValueError(_CUT_OFF)
        self.pos = end
        return data[start:end].decode("utf-8", errors)

    def skip(self) -> Span:
        """Measure the next value."""
        span = skip(self.data, self.pos)
        self.pos = span.end
        return span

    def take(self) -> bytes:
        """The bytes of the next value."""
        start = self.pos
        self.pos = end_of(self.data, start)
        return self.data[start : self.pos]

    def _header(self) -> tuple[int, int, int]:
        try:
            return read_header(self.data, self.pos)
        except IndexError:
            raise ValueError(_CUT_OFF) from None
