"""Decodes a checkpoint body entry by entry, so one huge channel does not hide the others."""

from __future__ import annotations

import re
from dataclasses import replace
from json import JSONDecoder
from typing import TYPE_CHECKING, TypeVar, cast

from ckpt_backends.codec.json import json_plus
from ckpt_backends.codec.limits import past_bytes, past_counts
from ckpt_backends.codec.msgpack import decode, scan
from ckpt_backends.codec.values import Cut, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ckpt_backends.codec.limits import Limits

CHANNELS = "channel_values"

_Read = TypeVar("_Read")

_SPACE = re.compile(r"[ \t\r\n]*")


class _Room:
    """Counts how many nodes may still be created for a group of entries."""

    def __init__(self, limits: Limits, nodes: int) -> None:
        self.limits = limits
        self.left = nodes

    def bounds(self) -> Limits:
        """The limits for the next entry."""
        return replace(self.limits, nodes=min(self.limits.nodes, self.left))

    def take(self, span: scan.Span, size: int) -> str:
        """Count an entry. Returns the limit that it exceeds, in words, or `''`."""
        allowed = min(self.limits.nodes, self.left)
        self.left -= min(span.nodes, allowed)
        if span.nodes > allowed:
            return f"more than {allowed} nodes"
        return past_bytes(size, self.limits) or past_counts(span.nodes, span.depth, self.limits)


def _rooms(limits: Limits) -> tuple[_Room, _Room]:
    """Two separate limits: one for the body's entries and one for its channel values."""
    return _Room(limits, limits.nodes), _Room(limits, 4 * limits.nodes)


def msgpack_body(data: bytes, limits: Limits) -> Value:
    """Decode a msgpack body, cutting each large entry separately.

    Raises ValueError or IndexError if it is not valid.
    """

    def entry(room: _Room, start: int, span: scan.Span) -> Value:
        part = data[start : span.end]
        bounds = room.bounds()
        reason = room.take(span, len(part))
        if not reason:
            return decode.unpack(part, bounds)
        if not bounds.nodes:
            return Cut(None, len(part), reason)
        return decode.cut_msgpack(part, bounds, reason)

    def entries(pos: int) -> Iterator[tuple[Value, int, scan.Span]]:
        kind, pos, pairs = scan.head(data, pos)
        if kind != scan.MAP:
            raise ValueError("a checkpoint has to be a map")
        for _ in range(pairs):
            start = scan.scan(data, pos, limits).end
            key = decode.unpack(data[pos:start], limits)
            if not isinstance(key, str):
                raise ValueError("a key is not text")
            span = scan.scan(data, start)
            pos = span.end
            yield key, start, span

    top, channels = _rooms(limits)
    body: dict[Value, Value] = {}
    for key, start, span in entries(0):
        if key == CHANNELS and scan.head(data, start)[0] == scan.MAP:
            body[key] = {name: entry(channels, at, inner) for name, at, inner in entries(start)}
        else:
            body[key] = entry(top, start, span)
    return body


def json_body(data: bytes, limits: Limits, decoder: JSONDecoder = json_plus.DECODER) -> Value:
    """Decode a JSON body, cutting each large entry separately. Raises ValueError if invalid."""
    text = data.removeprefix(json_plus.BOM).decode("utf-8", "surrogatepass")

    def entry(room: _Room, pos: int) -> tuple[Value, int]:
        span = json_plus.measure(text, pos)
        size = len(text[pos : span.end].encode(errors="surrogatepass"))
        if reason := room.take(span, size):
            return Cut(text[pos : min(span.end, pos + limits.value_bytes)], size, reason), span.end
        return decoder.raw_decode(text, pos)

    def top_entry(key: str, pos: int) -> tuple[Value, int]:
        if key == CHANNELS and text[pos : pos + 1] == "{":
            inner, end = members(text, pos, lambda _, at: entry(channels, at))
            return cast("Value", inner), end
        return entry(top, pos)

    top, channels = _rooms(limits)
    return cast("Value", members(text, _skip(text, 0), top_entry)[0])


def members(
    text: str, pos: int, read: Callable[[str, int], tuple[_Read, int]]
) -> tuple[dict[str, _Read], int]:
    """Parse the JSON object at `pos`. Returns its members and its end position.

    `read` is called with each key and the position of its value. It returns the member and its end.
    """
    if text[pos : pos + 1] != "{":
        raise ValueError("a checkpoint has to be an object")
    found: dict[str, _Read] = {}
    pos = _skip(text, pos + 1)
    while text[pos : pos + 1] != "}":
        if text[pos : pos + 1] != '"':
            raise ValueError(f"no key at character {pos}")
        key, pos = json_plus.DECODER.raw_decode(text, pos)
        pos = _skip(text, pos)
        if text[pos : pos + 1] != ":":
            raise ValueError(f"no colon at character {pos}")
        found[key], pos = read(key, _skip(text, pos + 1))
        pos = _skip(text, pos)
        if text[pos : pos + 1] == ",":
            pos = _skip(text, pos + 1)
    return found, pos + 1


def _skip(text: str, pos: int) -> int:
    match = _SPACE.match(text, pos)
    return match.end() if match else pos
