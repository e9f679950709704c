"""Removes several threads with few keys in one transaction, which saves most of the waiting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from typing import NamedTuple

from redis import exceptions

from ckpt_backends.changes.removal import MOVED, Removal, Removed
from ckpt_backends.redis.engine.connection import RedisConnection
from ckpt_backends.redis.engine.key_removal import KeyRemoval
from ckpt_backends.redis.engine.purge_lock import PurgeLock
from ckpt_backends.redis.engine.thread_removal import (
    KEYS_AT_ONCE,
    Step,
    ThreadRemoval,
    removed,
    run_together,
)


class _Part(NamedTuple):
    """A thread that is removed together with others."""

    removal: Removal
    thread: KeyRemoval
    step: Step


def carry_out_all(
    connection: RedisConnection,
    lock: PurgeLock,
    removals: Sequence[Removal],
    threads: Iterable[ThreadRemoval],
) -> Iterator[Removed]:
    """Remove each thread, those with few keys in common transactions.

    On a cluster, each thread has a transaction of its own: a common one must not span its servers.
    """
    some: list[_Part] = []
    number = 0
    for removal, thread in zip(removals, threads, strict=True):
        step = None
        if isinstance(thread, KeyRemoval) and not connection.is_cluster:
            step = thread.only_step(removal)
        size = sum(len(command) for _, command in step or ())
        is_double = any(one.removal.thread_id == removal.thread_id for one in some)
        if some and (step is None or is_double or number + size > KEYS_AT_ONCE):
            yield from _together(connection, lock, some)
            some, number = [], 0
        if step is None or not isinstance(thread, KeyRemoval):
            yield thread.carry_out(removal)
        else:
            some.append(_Part(removal, thread, step))
            number += size
    if some:
        yield from _together(connection, lock, some)


def _together(connection: RedisConnection, lock: PurgeLock, some: Sequence[_Part]) -> list[Removed]:
    """Remove these threads in one transaction, without those that an agent has continued."""
    lock.keep()
    parts: list[tuple[Step, Counter[str]]] = [(one.step, Counter()) for one in some]
    try:
        with connection.transaction([]) as pipe:
            if watched := [name for one in some for name in one.thread.watched]:
                pipe.watch(*watched)
            unchanged = some[0].thread.are_unchanged([one.thread for one in some])
            lock.keep()
            run_together(pipe, list(compress(parts, unchanged)))
    except exceptions.WatchError:
        # One of them was continued just now, and alone each tells whether it was.
        return [one.thread.carry_out(one.removal) for one in some]
    return [
        removed(one.removal, rows) if goes else Removed(one.removal.thread_id, skipped=MOVED)
        for one, (_, rows), goes in zip(some, parts, unchanged, strict=True)
    ]
