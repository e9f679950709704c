"""A checkpoint body read entry by entry, so that one huge channel does not hide the others."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from . import jsonplus, msgpack, scan
from .limits import past_bytes, past_counts
from .values import Cut, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .limits import Limits

CHANNELS = "channel_values"

_SPACE = re.compile(r"[ \t\r\n]*")


def msgpack_body(data: bytes, limits: Limits) -> Value:
    """A body of which each large entry is cut on its own. Raises ValueError and IndexError."""
    left = limits.nodes

    def entry(start: int, span: scan.Span) -> Value:
        nonlocal left
        part = data[start : span.end]
        reason = _past(span, len(part), limits, left)
        bounds = replace(limits, nodes=left)
        left = max(0, left - span.nodes)
        if not reason:
            return msgpack.unpack(part, bounds)
        if not bounds.nodes:
            return Cut(None, len(part), reason)
        return msgpack.cut_msgpack(part, bounds, reason)

    def entries(pos: int) -> Iterator[tuple[Value, int, scan.Span]]:
        kind, pos, pairs = scan.head(data, pos)
        if kind != scan.MAP:
            raise ValueError("not a map")
        for _ in range(pairs):
            start = scan.scan(data, pos, limits).end
            key = msgpack.unpack(data[pos:start], limits)
            if not isinstance(key, str):
                raise ValueError("a key that is not text")
            span = scan.scan(data, start)
            pos = span.end
            yield key, start, span

    body: dict[Value, Value] = {}
    for key, start, span in entries(0):
        if key == CHANNELS and scan.head(data, start)[0] == scan.MAP:
            body[key] = {name: entry(at, inner) for name, at, inner in entries(start)}
        else:
            body[key] = entry(start, span)
    return body


def json_body(data: bytes, limits: Limits) -> Value:
    """A body of which each large entry is cut on its own. Raises ValueError."""
    text = data.removeprefix(jsonplus.BOM).decode("utf-8", "surrogatepass")
    left = limits.nodes

    def entry(pos: int) -> tuple[Value, int]:
        nonlocal left
        span = jsonplus.measure(text, pos)
        size = len(text[pos : span.end].encode(errors="surrogatepass"))
        reason = _past(span, size, limits, left)
        left = max(0, left - span.nodes)
        if reason:
            return Cut(text[pos : min(span.end, pos + limits.value_bytes)], size, reason), span.end
        return jsonplus.DECODER.raw_decode(text, pos)

    def top_entry(key: str, pos: int) -> tuple[Value, int]:
        if key == CHANNELS and text[pos : pos + 1] == "{":
            return _members(text, pos, lambda _, at: entry(at))
        return entry(pos)

    return _members(text, _skip(text, 0), top_entry)[0]


def _members(
    text: str, pos: int, read: Callable[[str, int], tuple[Value, int]]
) -> tuple[dict[Value, Value], int]:
    """The object at `pos` and its end; `read` is given each key and its value's position."""
    if text[pos : pos + 1] != "{":
        raise ValueError("not an object")
    members: dict[Value, Value] = {}
    pos = _skip(text, pos + 1)
    while text[pos : pos + 1] != "}":
        if text[pos : pos + 1] != '"':
            raise ValueError(f"no key at character {pos}")
        key, pos = jsonplus.DECODER.raw_decode(text, pos)
        pos = _skip(text, pos)
        if text[pos : pos + 1] != ":":
            raise ValueError(f"no colon at character {pos}")
        members[key], pos = read(key, _skip(text, pos + 1))
        pos = _skip(text, pos)
        if text[pos : pos + 1] == ",":
            pos = _skip(text, pos + 1)
    return members, pos + 1


def _skip(text: str, pos: int) -> int:
    match = _SPACE.match(text, pos)
    return match.end() if match else pos


def _past(span: scan.Span, size: int, limits: Limits, left: int) -> str:
    if span.nodes > left:
        return f"more than {limits.nodes} nodes"
    return past_bytes(size, limits) or past_counts(span.nodes, span.depth, limits)
