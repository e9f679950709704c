"""Where msgpack values end, and how much is in them, without building any of them.

`ormsgpack` decodes on the C stack and calls back for each ext type, so that nesting which
nobody counted before can overflow it and kill the process. Counting comes first, then.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .limits import Limits, PastLimit, past_counts

STR, BIN, ARRAY, MAP, EXT, SCALAR = range(6)

READ_EXT = range(8)
"""Ext codes whose payload is msgpack."""

_HEADS = bytes([*range(0x80, 0xA0), *range(0xC7, 0xCA), *range(0xD4, 0xD9), *range(0xDC, 0xE0)])
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


@dataclass(frozen=True, slots=True)
class Span:
    """What a scan found out about one value."""

    end: int
    nodes: int
    depth: int


def heads(data: bytes) -> int:
    """Bytes that may start a container or an ext type: no value is nested deeper than that."""
    return len(data) - len(data.translate(None, _HEADS))


def head(data: bytes, pos: int) -> tuple[int, int, int]:
    """Kind of the value at `pos`, start of its content, and the content's length.

    The length is in items for `ARRAY`, in pairs for `MAP`, else in bytes. The content of an
    `EXT` starts at its code byte, which the length leaves out. A byte that starts nothing counts
    as a `SCALAR` that no data is long enough for. Raises IndexError.
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


def scan(data: bytes, pos: int, limits: Limits | None = None) -> Span:
    """The value that starts at `pos`. Never recurses.

    A broken payload of an ext type is passed over, since decoding degrades it alone. Raises
    `PastLimit` where limits are given, and ValueError for a value that is cut off or invalid.
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
        kind, pos, length = head(data, pos)
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
        # A header may claim any number, and what it claims is entered before it is found wrong.
        nodes += max(0, min(left, end - pos))
        depth = max(depth, len(outer))
        if limits and (nodes > limits.nodes or depth > limits.depth):
            raise PastLimit(past_counts(nodes, depth, limits))
        if left >= _WORTH_A_RUN:
            skipped, pos = _skip_run(data, pos, end, left)
            left -= skipped


def _skip_run(data: bytes, pos: int, end: int, left: int) -> tuple[int, int]:
    """How many of the values at `pos` are alike and can be skipped, and where they end."""
    if run := _ONE_BYTE_RUN.match(data, pos, min(end, pos + left)):
        return run.end() - pos, run.end()
    if run := _FLOAT_RUN.match(data, pos, min(end, pos + 9 * left)):
        return (run.end() - pos) // 9, run.end()
    return 0, pos


def _leave_ext(outer: list[tuple[int, int, bool]], end: int) -> tuple[int, int, int]:
    """Items left, position and end after the innermost ext payload, which is broken."""
    while outer:
        left, outer_end, is_ext = outer.pop()
        if is_ext:
            return left, end, outer_end
    raise ValueError("cut off or invalid msgpack")
