"""Decodes msgpack. Ext types become `Tagged` nodes; no class that they name is imported."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain, islice
from os import urandom
from typing import TYPE_CHECKING, Any, NamedTuple

from ormsgpack import OPT_NON_STR_KEYS, unpackb

from ckpt_backends.codec.cursor import (
    ARRAY,
    BIN,
    EXT,
    MAP,
    MARKS,
    MORE_REST,
    READ_EXT,
    STORED_MARKS,
    STR,
    Cursor,
    depth_bound,
    end_of,
    read_header,
    skip,
    write_header,
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
    from collections.abc import Callable, Iterable

    from ckpt_backends.codec.values import Limits


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
    for option in (0, OPT_NON_STR_KEYS):
        reader = _ExtReader(limits, option)
        try:
            value: Value = unpackb(data, ext_hook=reader.on_outer_ext, option=option)
        except ValueError:
            if reader.unsure:
                break
            if option:
                raise
            continue
        if depth_bound(data) - reader.heads + reader.depth <= limits.depth:
            return plain_keys(value) if option else value
        if not option and levels_of(value) + reader.depth <= limits.depth:
            return value
        break
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

    __slots__ = ("depth", "heads", "limits", "memo", "option", "room", "unsure")

    def __init__(self, limits: Limits, option: int) -> None:
        self.limits = limits
        self.option = option
        self.room = limits.nodes
        # With keys that are not text, `plain_keys` changes values later: they cannot be cached.
        self.memo = None if option else CURRENT.get()
        self.heads = 0
        self.depth = 0
        self.unsure = False

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
        memo = self.memo
        if memo is not None and (known := memo.outer(code, data)) is not None:
            node, depth, heads = known
            self.heads += heads
            self.depth = max(self.depth, 1 + depth)
            return node
        depth = depth_bound(data)
        if depth > self.limits.depth // 2:
            self.unsure = True
            raise PastLimit("perhaps nested too deeply")
        heads = 1 + depth_bound(len(data).to_bytes(4, "big")) + depth
        self.heads += heads
        self.depth = max(self.depth, 1 + depth)
        node = self.on_ext(code, data)
        if memo is not None:
            memo.put_outer(code, data, node, depth, heads)
        return node


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
            from ckpt_backends.codec.arrays import ndarray  # late: few values are arrays

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


# Decodes a value by the one that stood in its place before, and of it only what changed.
#
# No msgpack value is the beginning of another one: where a value may begin and the bytes of a
# known value stand, that value stands. So bytes are compared first; of a list or dict that
# changed, only the items between those that are equal at its beginning and at its end are
# decoded. What stayed equal is the same Python object.


_LEAST = 512
"""Lists and dicts with fewer bytes are decoded as a whole, which is faster."""
_LEAST_ITEM = 12
"""The same for those with fewer bytes for each item on average."""
_MOST_ITEMS = 50_000
"""Lists and dicts with more items are decoded as a whole: their offsets would take much memory."""
_GUESSES = 3
"""Number of places at which a value is supposed to end before it is walked through."""
_MARK = urandom(16).hex()
_MARK_STORED = b"\xd9\x20" + _MARK.encode()
_PAIR = write_header(ARRAY, 2)


@dataclass(slots=True)
class KnownValue:
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


def decode_at(
    known: KnownValue | None, data: bytes, start: int, after: bytes, limits: Limits
) -> KnownValue:
    """Decode the value that begins at `start`; `known` stood there before.

    `after` is the key that is supposed to follow, or empty. Raises `PastLimit`, and ValueError or
    IndexError if the value is not valid.
    """
    kind, _, _ = read_header(data, start)
    if kind not in (ARRAY, MAP):
        part = data[start : end_of(data, start)]
        return KnownValue(part, decode_msgpack(part, limits) if kind == EXT else unpackb(part))
    if known is not None and (found := _changed(known, data, start, after, limits)):
        return found
    return _supposed(data, start, after, limits) or _walked(data, start, limits)


def grown(known: KnownValue, data: bytes, limits: Limits) -> KnownValue | None:
    """Decode a value by the one before it; None if they are not alike."""
    if len(data) > limits.nodes:  # Its nodes have to be counted.
        return None
    try:
        found = _changed(known, data, 0, b"", limits)
    except (ValueError, IndexError, PastLimit):
        return None
    return found if found is not None and len(found.data) == len(data) else None


def _walked(data: bytes, start: int, limits: Limits) -> KnownValue:
    part = data[start : end_of(data, start)]
    return KnownValue(part, decode_msgpack(part, limits))


def _supposed(data: bytes, start: int, after: bytes, limits: Limits) -> KnownValue | None:
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
            return KnownValue(data[start:end], items[0])
    return None


def _changed(
    known: KnownValue, data: bytes, start: int, after: bytes, limits: Limits
) -> KnownValue | None:
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
    return KnownValue(data[start:end], value, shifted, nodes, fresh=new)


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
        if [*islice(value, same, rest)] == [*middle]:
            return value | middle
        pairs = list(value.items())
        return dict(chain(pairs[:same], middle.items(), pairs[rest:]))
    return None


def _moved(ends: list[int], by: int) -> list[int]:
    return [end + by for end in ends] if by else ends


# Decodes values that come one after another, and of each only the bytes that changed.
#
# The checkpoints of a thread differ little. The long values of a body are looked for where those
# of the body before stood, and each is decoded by its bytes there, as `alike` does. A mark takes
# its place, and one call decodes all the rest. Only where the marks come out as the values of
# these channels did the long values stand there.


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
