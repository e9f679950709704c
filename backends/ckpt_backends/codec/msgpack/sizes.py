"""Measures how many bytes of a checkpoint body each channel uses, without decoding values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckpt_backends.codec.body import CHANNELS, members
from ckpt_backends.codec.json import json_plus
from ckpt_backends.codec.msgpack import scan
from ckpt_backends.codec.values import JSON_TYPES

if TYPE_CHECKING:
    from ckpt_backends.model import TypedBytes


def channel_sizes(body: TypedBytes) -> dict[str, int] | None:
    """Bytes by channel, without the names; None if the body cannot be read. Never raises.

    The remaining bytes of the body are LangGraph's bookkeeping, such as `versions_seen`.
    """
    try:
        if body.type == "msgpack":
            return _msgpack(body.data)
        if body.type in JSON_TYPES:
            return _json(body.data)
    except (ValueError, IndexError, KeyError, RecursionError):
        pass
    return None


def _msgpack(data: bytes) -> dict[str, int]:
    sizes: dict[str, int] = {}
    kind, pos, pairs = scan.head(data, 0)
    if kind != scan.MAP:
        raise ValueError("not a map, as a checkpoint is")
    for _ in range(pairs):
        name, pos = _text(data, pos)
        kind, inner, channels = scan.head(data, pos)
        if name != CHANNELS or kind != scan.MAP:
            pos = scan.scan(data, pos).end
            continue
        pos = inner
        for _ in range(channels):
            channel, start = _text(data, pos)
            pos = scan.scan(data, start).end
            sizes[channel] = pos - start
    return sizes


def _text(data: bytes, pos: int) -> tuple[str, int]:
    kind, start, length = scan.head(data, pos)
    if kind != scan.STR:
        raise ValueError("a key that is not text")
    return data[start : start + length].decode("utf-8", "surrogateescape"), start + length


def _json(data: bytes) -> dict[str, int]:
    text = data.removeprefix(json_plus.BOM).decode("utf-8", "surrogatepass")

    def skip(_: str, pos: int) -> tuple[None, int]:
        return None, json_plus.measure(text, pos).end

    def size(_: str, pos: int) -> tuple[int, int]:
        end = json_plus.measure(text, pos).end
        return len(text[pos:end].encode(errors="surrogatepass")), end

    def entry(name: str, pos: int) -> tuple[dict[str, int] | None, int]:
        if name == CHANNELS and text[pos : pos + 1] == "{":
            return members(text, pos, size)
        return skip(name, pos)

    found, _ = members(text, len(text) - len(text.lstrip(" \t\r\n")), entry)
    return found.get(CHANNELS) or {}
