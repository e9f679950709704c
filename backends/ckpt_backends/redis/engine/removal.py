"""The order of removal for layouts in which each checkpoint and each write is a key:

* The pointers to the heads are removed first, the head of the root namespace last. So after an
  interruption, the rest of the thread is still listed with the same status, and the next run
  removes it in the same way.
* If a part of a thread is removed, a checkpoint is removed after its parent and after the subgraphs
  that it called. So no remaining checkpoint looks like the end of a branch.
* Separate values are removed before the checkpoints of a whole thread, but after the checkpoints if
  only a part of a thread is removed.

The keys that an agent changes when it continues a thread are watched. Keys that it added between
the reading of the thread and the WATCH are found through the watched keys, which name them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from typing import Any, ClassVar, NamedTuple

from redis import exceptions

from ckpt_backends.changes import MOVED, Inside, Removal, Removed
from ckpt_backends.redis.engine.commands import (
    KEYS_AT_ONCE,
    PurgeLock,
    Step,
    ThreadRemoval,
    removed,
    run,
    run_together,
    unlink,
)
from ckpt_backends.redis.engine.connection import Command, RedisConnection, keys_of
from ckpt_backends.redis.engine.keyspace import APART, ZSET, CheckpointKeys, KeysByCheckpoint
from ckpt_backends.redis.engine.layout import KeyFinder


class KeyRemoval(ThreadRemoval):
    """The removal for layouts with pointers and lists that name other keys."""

    goes_together: ClassVar[bool] = True
    """Whether `are_unchanged` checks all that a removal depends on."""

    def __init__(self, finder: KeyFinder[Any], lock: PurgeLock, keys: KeysByCheckpoint) -> None:
        super().__init__(finder.connection, lock, keys)
        self._layout = finder.layout
        self._finder = finder

    def _run_watched(self, pipe: Any, step: Step, rows: Counter[str]) -> None:
        if watched := self.watched:
            pipe.watch(*watched)
        if self.are_unchanged([self]) != [True]:
            raise exceptions.WatchError("something was added, or a head is gone")
        run(pipe, step, rows)

    @property
    def watched(self) -> list[bytes]:
        """The keys that an agent changes when it continues the thread."""
        keys = self.keys
        return [
            name
            for kinds in (*keys.shared.values(), *(one.names for one in keys.heads.values()))
            for names in kinds.values()
            for name in names
        ]

    def are_unchanged(self, some: Sequence[KeyRemoval]) -> list[bool]:
        """Whether each thread is as its keys were found. Its keys are watched already."""
        heads = [[head.key for head in one.keys.heads.values()] for one in some]
        named = self._finder.named([one.keys for one in some])
        for one, names in zip(some, named, strict=True):
            names.difference_update(name for _, name in one.keys.in_order())
        added = sorted(set().union(*named))
        exist = {name for name, there in zip(added, self._existing(added), strict=True) if there}
        stored = [self._layout.checkpoint_name(key) for keys in heads for key in keys]
        there = {place.key for place in self._layout.entries(stored)}
        return [
            names.isdisjoint(exist) and there.issuperset(keys)
            for names, keys in zip(named, heads, strict=True)
        ]

    def only_step(self, removal: Removal) -> Step | None:
        """The step that removes a whole thread, for a transaction that it shares with others.

        None if it must be removed alone: it takes more steps, or it is skipped.
        """
        layout = self._layout
        # What no list names, an agent may have added while others were found for the transaction.
        waits = layout.lists_additions or not layout.is_indexed()
        if not (self.goes_together and waits and self.keys.checkpoints) or removal.inside:
            return None
        steps = self._steps(None) if self._is_as_planned(removal) else []
        if len(steps) != 1:
            return None
        names: dict[str, list[bytes]] = {}
        for kind, command in steps[0]:
            names.setdefault(kind, []).extend(keys_of(command))
        return [unlink(kind, some) for kind, some in names.items()]

    def _steps(self, inside: Inside | None) -> list[Step]:
        keys = self.keys
        owners = list(keys.groups.values())
        if inside is None:
            step = [
                unlink(kind, names)
                for kinds in keys.shared.values()
                for kind, names in kinds.items()
            ]
        else:
            named = {(ns, one) for ns, ids in inside.checkpoints.items() for one in ids}
            owners = [one for at, one in keys.groups.items() if at in named]
            step = list(self._lists_without(owners))
        groups = [owner.names for owner in sorted(owners, key=_order)]
        if inside is None:
            groups = [*({APART: [name]} for name in keys.blobs.values()), *groups]
        steps, number = [step], 0
        for names in groups:
            size = sum(map(len, names.values()))
            if number + size > KEYS_AT_ONCE and number:
                steps.append([])
                number = 0
            number += size
            steps[-1] += [unlink(kind, some) for kind, some in names.items() if some]
        return steps

    def _lists_without(self, owners: Sequence[CheckpointKeys]) -> Iterator[tuple[str, Command]]:
        """Commands that remove these checkpoints and their writes from pointers and lists."""
        going = {(one.key.checkpoint_ns, one.key.checkpoint_id) for one in owners}
        for ns, kinds in self.keys.shared.items():
            here = [one for one in self.keys.checkpoints if one.key.checkpoint_ns == ns]
            left = [one for one in here if (ns, one.key.checkpoint_id) not in going]
            head = self.keys.heads.get(ns)
            for kind, names in kinds.items():
                if self._finder.types[kind] == ZSET:
                    writes = [
                        name
                        for one in owners
                        if one.key.checkpoint_ns == ns
                        for name in one.names[self._finder.kind_of_writes]
                    ]
                    for name in names if writes else ():
                        if set(writes).issuperset(self._connection.ask("ZRANGE", name, 0, -1)):
                            yield unlink(kind, [name])
                        else:
                            yield "", ("ZREM", name, *writes)
                elif here and not left:
                    yield unlink(kind, names)
                elif head is not None and head in owners:
                    newest = self._layout.checkpoint_name(max(one.key for one in left))
                    for name in names:
                        yield "", ("SET", name, newest, "XX", "KEEPTTL")


def _order(owner: CheckpointKeys) -> tuple[bool, bool, str]:
    """The order of removal: orphaned writes, subgraphs, root namespace; each oldest first."""
    return owner.is_there, not owner.key.checkpoint_ns, owner.key.checkpoint_id


# Removes several threads with few keys in one transaction, which saves most of the waiting.


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
