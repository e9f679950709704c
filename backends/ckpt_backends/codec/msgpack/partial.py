"""Decodes the beginning of a msgpack value that exceeds a limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ormsgpack import unpackb

from ckpt_backends.codec.msgpack.cursor import ARRAY, BIN, EXT, MAP, READ_EXT, STR, read_header
from ckpt_backends.codec.values import Tagged, Value

if TYPE_CHECKING:
    from ckpt_backends.codec.limits import Limits

Build = Callable[[int, Any, int], Tagged]
"""Creates the node for an ext type from its code, payload and maximum number of array elements."""


@dataclass(slots=True)
class _Open:
    """A container that is not complete yet."""

    kind: int
    left: int
    end: int
    """Offset at which the innermost ext payload ends, or the data."""
    code: int = 0
    items: list[Any] = field(default_factory=list)


def read_part(data: bytes, limits: Limits, build: Build) -> Value:
    """Decode `data` up to the first limit, including incomplete containers.

    Never recurses. The last text may be cut. Map keys that are arrays become tuples. Raises
    ValueError if a map key is a map or an ext type, or if nothing can be decoded.
    """
    stop = min(len(data), limits.value_bytes)
    pos, nodes = 0, 0
    open_ = [_Open(ARRAY, 1, len(data))]
    while True:
        top = open_[-1]
        if top.left == 0:
            if len(open_) == 1:
                break
            pos = top.end if top.kind == EXT else pos
            _close(open_, build, limits)
            continue
        if pos >= min(stop, top.end) or nodes >= limits.nodes:
            break
        nodes += 1
        top.left -= 1
        first = data[pos]
        if first <= 0x80 or first == 0x90:
            # Fast path for the smallest values: small numbers and empty containers.
            top.items.append({} if first == 0x80 else [] if first == 0x90 else first)
            pos += 1
            continue
        kind, start, length = read_header(data, pos)
        if kind in (ARRAY, MAP, EXT):
            if len(open_) > limits.depth:
                break
            if kind == EXT:
                code, begin = int.from_bytes(data[start : start + 1], "big", signed=True), start + 1
                pos = begin + length
                if code in READ_EXT and pos <= top.end:
                    open_.append(_Open(EXT, 1, pos, code))
                    pos = begin
                else:
                    top.items.append(Tagged(f"ext:{code}", data[begin : min(pos, stop)]))
            else:
                open_.append(_Open(kind, length << (kind == MAP), top.end))
                pos = start
            continue
        end = start + length
        if kind == STR:
            top.items.append(data[start : min(end, stop)].decode(errors="ignore"))
        elif kind == BIN:
            top.items.append(data[start : min(end, stop)])
        elif end <= len(data):
            top.items.append(unpackb(data[pos:end]))
        pos = end
    while len(open_) > 1:
        _close(open_, build, limits)
    if not open_[0].items:
        raise ValueError("cut off or invalid msgpack")
    part: Value = open_[0].items[0]
    return part


def _close(open_: list[_Open], build: Build, limits: Limits) -> None:
    """Build the innermost container from its items so far, and add it to the next outer one."""
    done = open_.pop()
    items = open_[-1].items
    if done.kind == ARRAY:
        items.append(done.items)
    elif done.kind == MAP:
        keys = [_key(item) for item in done.items[::2]]
        items.append(dict(zip(keys, done.items[1::2], strict=False)))
    elif done.items:
        items.append(build(done.code, done.items[0], limits.nodes))


def _key(item: Any) -> Any:
    if isinstance(item, list):
        return tuple(_key(part) for part in item)
    if isinstance(item, dict | Tagged):
        raise ValueError("a map key that is a map or an ext type")
    return item
