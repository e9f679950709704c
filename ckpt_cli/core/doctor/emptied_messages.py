"""Tell an update that lost all messages from one that removed them."""

from __future__ import annotations

from collections.abc import Iterable

from ckpt_backends.codec.values import Value, items_of
from ckpt_cli.core.conversation.messages import as_message
from ckpt_cli.core.replay.reducers import overwrite


def are_messages(value: Value) -> bool:
    """Return whether a value is a list of one message or more."""
    items = items_of(value)
    return bool(items) and all(as_message(item) is not None for item in items or ())


def may_remove(writes: Iterable[Value]) -> bool:
    """Return whether one of these writes may empty a list of messages.

    A write that only adds messages cannot; any other might, such as an empty list for a channel
    without a reducer.
    """
    return not all(map(_adds, writes))


def _adds(write: Value) -> bool:
    if overwrite(write)[0]:
        return False
    items = items_of(write)
    found = [as_message(item) for item in ([write] if items is None else items)]
    return bool(found) and all(one is not None and one.role != "remove" for one in found)
