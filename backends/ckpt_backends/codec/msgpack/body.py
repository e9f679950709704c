"""Reads a msgpack checkpoint body entry by entry, so one huge channel does not hide the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckpt_backends.codec.limits import Budget, body_budgets
from ckpt_backends.codec.msgpack.cursor import MAP, Cursor
from ckpt_backends.codec.msgpack.decode import cut_msgpack, unpack
from ckpt_backends.codec.values import CHANNELS, Cut, Value

if TYPE_CHECKING:
    from ckpt_backends.codec.limits import Limits


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
