"""Decodes a value by the one that stood in its place before, and of it only what changed.

No msgpack value is the beginning of another one: where a value may begin and the bytes of a known
value stand, that value stands. So bytes are compared first; of a list or dict that changed, only
the items between those that are equal at its beginning and at its end are decoded. What stayed
equal is the same Python object.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, islice
from os import urandom
from typing import TYPE_CHECKING, Any

from ormsgpack import unpackb

from ckpt_backends.codec.limits import PastLimit
from ckpt_backends.codec.msgpack.cursor import ARRAY, EXT, MAP, end_of, read_header, write_header
from ckpt_backends.codec.msgpack.decode import decode_msgpack
from ckpt_backends.codec.values import Value

if TYPE_CHECKING:
    from ckpt_backends.codec.limits import Limits

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
