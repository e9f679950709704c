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
from collections.abc import Iterator, Sequence
from typing import Any

from redis import exceptions

from ckpt_backends.changes.removal import Inside
from ckpt_backends.redis.engine.connection import Command
from ckpt_backends.redis.engine.keyspace import APART, ZSET, CheckpointKeys, KeysByCheckpoint
from ckpt_backends.redis.engine.layout import KeyFinder
from ckpt_backends.redis.engine.purge_lock import PurgeLock
from ckpt_backends.redis.engine.thread_removal import KEYS_AT_ONCE, Step, ThreadRemoval, run, unlink


class KeyRemoval(ThreadRemoval):
    """The removal for layouts with pointers and lists that name other keys."""

    def __init__(self, finder: KeyFinder, lock: PurgeLock, keys: KeysByCheckpoint) -> None:
        super().__init__(finder.connection, lock, keys)
        self._layout = finder.layout
        self._finder = finder

    def _run_watched(self, pipe: Any, step: Step, rows: Counter[str]) -> None:
        keys = self._keys
        heads = list(keys.heads.values())
        of_namespaces = keys.shared.values()
        watched = [
            name
            for kinds in (*of_namespaces, *(one.names for one in heads))
            for names in kinds.values()
            for name in names
        ]
        if watched:
            pipe.watch(*watched)
        known = {name for _, name in keys.in_order()}
        if any(self._existing(sorted(self._finder.named(keys) - known))):
            raise exceptions.WatchError("something was added")
        names = [self._layout.checkpoint_name(one.key) for one in heads]
        if {place.key for place in self._layout.entries(names)} != {one.key for one in heads}:
            raise exceptions.WatchError("a head is gone, or another one")
        run(pipe, step, rows)

    def _steps(self, inside: Inside | None) -> list[Step]:
        keys = self._keys
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
        for ns, kinds in self._keys.shared.items():
            here = [one for one in self._keys.checkpoints if one.key.checkpoint_ns == ns]
            left = [one for one in here if (ns, one.key.checkpoint_id) not in going]
            head = self._keys.heads.get(ns)
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
