"""Faults of the lists by which savers find the checkpoints of a namespace, the head first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ckpt_backends.model import CheckpointKey, Fault
from ckpt_backends.redis.engine.connection import RedisConnection
from ckpt_backends.redis.engine.keyspace import quoted
from ckpt_backends.redis.engine.layout import RedisLayout

_STAYS = -1
"""The answer of PTTL for a key without an expiry."""


def gone_from_list(
    layout: RedisLayout, name: bytes, keys: Sequence[CheckpointKey], remove: str
) -> Iterator[Fault]:
    """`index-stale`, if checkpoints are gone that the list with this name contains, newest first.

    An expired checkpoint leaves its id in the list. If it was the head, the saver finds none.
    `remove` is the beginning of the command that removes an id from a list, up to the list's name
    as `{}`.
    """
    connection = layout.connection
    answers = connection.ask_all(("EXISTS", layout.checkpoint_name(one)) for one in keys)
    gone = [key for key, is_there in zip(keys, answers, strict=True) if not is_there]
    if not gone or len(gone) == len(keys):
        return
    is_headless = keys[0] in gone
    if not is_headless and not stays(connection, name):
        return
    detail = f"{len(gone)} of {len(keys)} checkpoints in the list of the namespace are not stored"
    if is_headless:
        detail += "; one of them is the head, so the saver finds no checkpoint here"
    own, fix = None, ""
    if len(gone) == 1:
        own = gone[0].checkpoint_id
        fix = f"{remove.format(quoted(name))} {quoted(own.encode())}"
    yield Fault("index-stale", detail, keys[0].thread_id, keys[0].checkpoint_ns, own, fix=fix)


def stays(connection: RedisConnection, name: bytes) -> bool:
    """Whether a key exists and does not expire."""
    return bool(connection.ask("PTTL", name) == _STAYS)
