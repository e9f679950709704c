"""Measures how many bytes of a checkpoint body each channel uses, without decoding values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckpt_backends.codec.json.body import json_channel_sizes
from ckpt_backends.codec.msgpack.body import msgpack_channel_sizes
from ckpt_backends.codec.values import JSON_TYPES

if TYPE_CHECKING:
    from ckpt_backends.model import TypedBytes


def channel_sizes(body: TypedBytes) -> dict[str, int] | None:
    """Bytes by channel, without the names; None if the body cannot be read. Never raises.

    The remaining bytes of the body are LangGraph's bookkeeping, such as `versions_seen`.
    """
    try:
        if body.type == "msgpack":
            return msgpack_channel_sizes(body.data)
        if body.type in JSON_TYPES:
            return json_channel_sizes(body.data)
    except (ValueError, IndexError, KeyError, RecursionError):
        pass
    return None
