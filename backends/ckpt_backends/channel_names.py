"""Tells from a channel's name whether its value is read with its checkpoint."""

from __future__ import annotations

import re
from collections.abc import Collection

from ckpt_backends.model import USERS, Blob

_CONTROL = re.compile(r"__|branch:|join:|start:")


def is_read(channel: str, values: bool | Collection[str]) -> bool:
    """Whether the value of a channel is read with its checkpoint.

    `values` is the parameter of `Store.checkpoints`.
    """
    if values is True or (values is not False and channel in values):
        return True
    return is_control(channel)


def is_control(channel: str) -> bool:
    """Whether LangGraph uses a channel for its own control flow, such as `branch:to:NODE`."""
    return is_reserved(channel) and channel not in USERS


def is_reserved(channel: str) -> bool:
    """Whether a channel is named like LangGraph's channels, also one of `USERS`."""
    return _CONTROL.match(channel) is not None


_MARGIN = 6
"""Before format 4 each node has a channel of the same name, with the node's name as its value.
Such a value is at most this many bytes longer than the channel's name when serialised."""


def is_wanted(channel: str, blob: Blob, values: bool | Collection[str], *, is_old: bool) -> bool:
    """Whether a channel's value is read with its checkpoint.

    `values` is the parameter of `Store.checkpoints`; `is_old` means a checkpoint format before 4.
    """
    margin = len(channel.encode("utf-8", "surrogatepass")) + _MARGIN
    return is_read(channel, values) or (is_old and blob.size < margin)
