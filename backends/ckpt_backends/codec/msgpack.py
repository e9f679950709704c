"""Decodes msgpack. Ext types become `Tagged` nodes; no class that they name is imported."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

from ormsgpack import OPT_NON_STR_KEYS, unpackb

from ckpt_backends.codec.cursor import (
    ARRAY,
    BIN,
    EXT,
    MAP,
    READ_EXT,
    STR,
    Cursor,
    depth_bound,
    read_header,
    skip,
)
from ckpt_backends.codec.memo import CURRENT, note_unreadable
from ckpt_backends.codec.values import (
    CHANNELS,
    DELTA_SNAPSHOT,
    Budget,
    Cut,
    PastLimit,
    Tagged,
    Value,
    body_budgets,
    past_bytes,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ckpt_backends.codec.values import Limits


# Decodes numpy arrays to nested lists without importing numpy.


NDARRAY = "numpy.ndarray"

_DTYPE = re.compile(r"([<>|=])([biufcSU])(\d{1,9})")
_CODES = {
    "b1": "?",
    **{f"i{1 << power}": code for power, code in enumerate("bhiq")},
    **{f"u{1 << power}": code for power, code in enumerate("BHIQ")},
    "f2": "e",
    "f4": "f",
    "f8": "d",
    "c8": "f",
    "c16": "d",
}
_MAX_DIMENSIONS = 32


def ndarray(dtype: str, shape: Sequence[int], order: str, data: bytes, room: int) -> Tagged:
    """A `Tagged` array with its data as nested lists, or as bytes if they cannot be decoded.

    `room` is the maximum number of elements and lists to create. `order` is `C` or `F`.
    """
    lists = sum(prod(shape[:axis]) for axis in range(len(shape) + 1))
    content: Value = data
    if len(shape) <= _MAX_DIMENSIONS and lists <= room and order in ("C", "F"):
        flat = _elements(dtype, data)
        if flat is not None and len(flat) == prod(shape):
            content = _nested(flat, shape, order)
    return Tagged(NDARRAY, {"dtype": dtype, "shape": list(shape), "order": order, "data": content})


def _elements(dtype: str, data: bytes) -> list[Value] | None:
    match = _DTYPE.fullmatch(dtype)
    if match is None:
        return None
    mark, kind, size = match[1], match[2], int(match[3])
    little = mark != ">"
    width = size * 4 if kind == "U" else size
    if width == 0 or len(data) % width:
        return None
    if kind in "SU":
        cells = [data[at : at + width] for at in range(0, len(data), width)]
        if kind == "S":
            return [cell.rstrip(b"\0") for cell in cells]
        try:
            return [
                cell.decode("utf-32-le" if little else "utf-32-be").rstrip("\0") for cell in cells
            ]
        except UnicodeDecodeError:
            return None
    code = _CODES.get(f"{kind}{size}")
    if code is None:
        return None
    numbers = struct.unpack(
        f"{'<' if little else '>'}{len(data) // struct.calcsize('=' + code)}{code}", data
    )
    if kind == "c":
        pairs = zip(numbers[::2], numbers[1::2], strict=True)
        return [Tagged("builtins.complex", [real, imaginary]) for real, imaginary in pairs]
    return list(numbers)


def _nested(flat: list[Value], shape: Sequence[int], order: str) -> Value:
    strides = [
        prod(shape[axis + 1 :] if order == "C" else shape[:axis]) for axis in range(len(shape))
    ]

    def part(axis: int, start: int) -> Value:
        if axis == len(shape):
            return flat[start]
        return [part(axis + 1, start + i * strides[axis]) for i in range(shape[axis])]

    return part(0, 0)


_ONE_ARGUMENT, _ARGUMENTS, _FIELDS, _METHOD, _PYDANTIC_1, _PYDANTIC_2, _NUMPY, _SNAPSHOT = READ_EXT

_CONTAINERS = frozenset((dict, list))
_WITH_FIELDS = (_PYDANTIC_2, _PYDANTIC_1, _FIELDS)
_MAX_TUPLE_KEYS = 2000


def decode_msgpack(data: bytes, limits: Limits) -> Value:
    """Decode a value. Raises `PastLimit`, and ValueError if it is not valid msgpack."""
    if len(data) <= min(limits):  # It has no more levels and nodes than bytes.
        try:
            plain: Value = unpackb(data)
        except ValueError:
            return unpack(data, limits)
        return plain
    if reason := past_bytes(len(data), limits):
        raise PastLimit(reason)
    if len(data) > limits.nodes:
        skip(data, 0, limits)
    elif depth_bound(data) > limits.depth:
        return _unpack_checked(data, limits)
    return unpack(data, limits)


def cut_msgpack(data: bytes, limits: Limits, reason: str) -> Cut:
    """Decode the beginning of a value, as much as the limits allow. Raises ValueError."""

    return Cut(plain_keys(read_part(data, limits, build)), len(data), reason)


def unpack(data: bytes, limits: Limits) -> Value:
    """Decode a value that the caller has checked against the limits. Raises ValueError."""
    # Almost all maps have text keys only, and then `plain_keys` is not needed.
    try:
        value: Value = unpackb(data, ext_hook=_ExtReader(limits, 0).on_ext)
    except ValueError:
        reader = _ExtReader(limits, OPT_NON_STR_KEYS)
        value = plain_keys(unpackb(data, ext_hook=reader.on_ext, option=OPT_NON_STR_KEYS))
    return value


def _unpack_checked(data: bytes, limits: Limits) -> Value:
    """Decode a value that may be nested too deeply, and scan it only if that is still possible.

    Decoding before the depth is known is safe: ormsgpack limits the levels outside of ext types to
    1022, and the depth inside an ext type is checked before its payload is decoded. Together they
    take at most 600 KiB of C stack. Raises ValueError and `PastLimit`.
    """
    reader = _ExtReader(limits, 0)
    try:
        value: Value = unpackb(data, ext_hook=reader.on_outer_ext)
        if levels_of(value) + reader.depth <= limits.depth:
            return value
    except ValueError:
        pass  # such as a key that is no text, or an object that may be nested too deeply
    skip(data, 0, limits)
    return unpack(data, limits)


def levels_of(value: Value) -> int:
    """The levels of nested containers, empty ones and those inside of objects not counted.

    A decoded value is looked through in a tenth of the time that its bytes take.
    """
    inside: list[Iterable[Value]] = [[value]]
    levels = -1
    while inside:
        levels += 1
        filled: list[Any] = [
            one for some in inside for one in some if type(one) in _CONTAINERS and one
        ]
        inside = [one.values() if type(one) is dict else one for one in filled]
    return levels


class _ExtReader:
    """Creates the nodes for the ext types of one value."""

    __slots__ = ("depth", "limits", "memo", "option", "room")

    def __init__(self, limits: Limits, option: int) -> None:
        self.limits = limits
        self.option = option
        self.room = limits.nodes
        # With keys that are not text, `plain_keys` changes values later: they cannot be cached.
        self.memo = None if option else CURRENT.get()
        self.depth = 0

    def on_ext(self, code: int, data: bytes) -> Tagged:
        if code not in READ_EXT:
            return Tagged(f"ext:{code}", data)
        if self.memo is not None and (known := self.memo.get(code, data)) is not None:
            return known
        room = self.room
        try:
            parts = unpackb(data, ext_hook=self.on_ext, option=self.option)
        except ValueError:
            # Let `unpack` try again with all keys. A retry here would double with each level.
            if not self.option:
                raise
            return _unreadable(code, data)
        node = build(code, parts, self.room)
        if code == _NUMPY:
            self.room = max(0, self.room - len(data))
        if self.memo is not None and self.room == room:  # arrays depend on the remaining room
            self.memo.put(code, data, node)
        return node

    def on_outer_ext(self, code: int, data: bytes) -> Tagged:
        """The node for an ext type that is in no other, unless it may be nested too deeply."""
        depth = depth_bound(data)
        if depth > self.limits.depth // 2:
            raise PastLimit("perhaps nested too deeply")
        self.depth = max(self.depth, 1 + depth)
        return self.on_ext(code, data)


def build(code: int, parts: Any, room: int) -> Tagged:
    """The node for an ext type with this payload; type `ext:CODE` if its shape is unknown.

    `room` is the maximum number of array elements to create.
    """
    if code == _SNAPSHOT:
        return Tagged(DELTA_SNAPSHOT, parts)
    if code == _NUMPY:
        return _array(parts, room)
    # No `match` here: this runs for each ext type, and patterns are much slower.
    if type(parts) is list and len(parts) in (3, 4):
        module, name, content, *rest = parts
        if type(module) is str and type(name) is str:
            if code in _WITH_FIELDS:
                if type(content) is dict and (not rest or code != _FIELDS):
                    return Tagged(f"{module}.{name}", content)
            elif code == _METHOD:
                if rest and type(rest[0]) is str:
                    known = parts[:2] == ["datetime"] * 2 and rest[0] == "fromisoformat"
                    return Tagged(f"{module}.{name}" + ("" if known else f".{rest[0]}"), content)
            elif not rest and (code == _ONE_ARGUMENT or type(content) is list):
                return Tagged(f"{module}.{name}", content)
    return _unreadable(code, parts)


def _unreadable(code: int, parts: Any) -> Tagged:
    """The node for an ext type that LangGraph has, but not with this payload."""
    note_unreadable()
    return Tagged(f"ext:{code}", parts)


def _array(parts: Any, room: int) -> Tagged:
    match parts:
        case [str(dtype), [*shape], str(order), bytes(data)] if all(
            type(size) is int and size >= 0 for size in shape
        ):
            return ndarray(dtype, shape, order, data, room)
    return _unreadable(_NUMPY, parts)


def plain_keys(root: Value) -> Value:
    """Replace, in place, map keys that are tuples by `Tagged`, and return the same value.

    Raises ValueError if a map has more than `_MAX_TUPLE_KEYS` of them.
    """
    todo: list[Value] = [root]
    while todo:
        item = todo.pop()
        if isinstance(item, Tagged):
            todo.append(item.payload)
        elif isinstance(item, list):
            todo += item
        elif isinstance(item, dict):
            todo += item.values()
            tuples = sum(isinstance(key, tuple) for key in item)
            # All such keys have the same hash, so many in one dict take quadratic time.
            if tuples > _MAX_TUPLE_KEYS:
                raise ValueError(f"a map with {tuples} keys that are tuples")
            if tuples:
                renamed = {_plain_key(key): part for key, part in item.items()}
                item.clear()
                item.update(renamed)
    return root


def _plain_key(key: object) -> Any:
    if isinstance(key, tuple):
        return Tagged("builtins.tuple", [_plain_key(part) for part in key])
    return key


# Decodes the beginning of a msgpack value that exceeds a limit.


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


# Reads a msgpack checkpoint body entry by entry, so one huge channel does not hide the others.


def msgpack_body(data: bytes, limits: Limits) -> Value:
    """Decode a body, cutting each large entry separately.

    Raises ValueError if it is not valid.
    """

    def entry(budget: Budget) -> Value:
        bounds = budget.limits()
        start, span = cursor.pos, cursor.skip()
        part = data[start : span.end]
        reason = budget.spend(span, len(part))
        if not reason:
            return unpack(part, bounds)
        if not bounds.nodes:
            return Cut(None, len(part), reason)
        return cut_msgpack(part, bounds, reason)

    cursor = Cursor(data)
    top, channels = body_budgets(limits)
    body: dict[Value, Value] = {}
    for _ in range(cursor.enter(MAP, "a checkpoint has to be a map")):
        key = cursor.text()
        if key == CHANNELS and cursor.kind() == MAP:
            pairs = cursor.enter(MAP)
            body[key] = {cursor.text(): entry(channels) for _ in range(pairs)}
        else:
            body[key] = entry(top)
    return body


def msgpack_channel_sizes(data: bytes) -> dict[str, int]:
    """Stored bytes by channel. Raises ValueError if the body is not valid."""
    sizes: dict[str, int] = {}
    cursor = Cursor(data)
    for _ in range(cursor.enter(MAP)):
        if cursor.text("surrogateescape") != CHANNELS or cursor.kind() != MAP:
            cursor.skip()
            continue
        for _ in range(cursor.enter(MAP)):
            channel, start = cursor.text("surrogateescape"), cursor.pos
            sizes[channel] = cursor.skip().end - start
    return sizes
