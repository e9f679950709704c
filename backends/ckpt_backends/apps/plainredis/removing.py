"""Removes keys of threads of langgraph-checkpoint-plainredis.

A thread with few keys is removed in one transaction. A thread with many keys is removed in several,
oldest checkpoint first. Each checkpoint is removed together with its writes, its entry in the
timeline, and the values that no remaining checkpoint names. So an interrupted removal leaves the
newest checkpoints intact. They are still listed, and the next run removes them in the same way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from redis import exceptions

from ckpt_backends.apps.plainredis.layout import Plain
from ckpt_backends.apps.plainredis.thread_keys import (
    BLOBS,
    THREADS,
    WRITES,
    PlainOwned,
    PlainOwning,
)
from ckpt_backends.changes.removal import Inside, Removal, Removed
from ckpt_backends.model import CheckpointKey
from ckpt_backends.redis.engine.connect import Command, RedisConnection
from ckpt_backends.redis.engine.purge_lock import PurgeLock, purge_lock
from ckpt_backends.redis.engine.removing import KEYS_AT_ONCE, Step, ThreadRemoval, run, unlink
from ckpt_backends.redis.engine.thread_keys import CHECKPOINT, Owner
from ckpt_backends.url import StoreUrl


def remove_plain_threads(
    connection: RedisConnection, url: StoreUrl, layout: Plain, removals: Sequence[Removal]
) -> list[Removed]:
    """Remove the planned keys of each thread that has not changed.

    Raises `Refused` if another purge is running.
    """
    owning = PlainOwning(connection, layout)
    with purge_lock(connection, url) as lock:
        found = owning.of([one.thread_id for one in removals])
        return [
            _PlainRemoving(connection, layout, owning, lock, owned).carry_out(one)
            for one, owned in zip(removals, found, strict=True)
        ]


class _PlainRemoving(ThreadRemoval):
    """The removal of one thread, or of a part of it."""

    def __init__(
        self,
        connection: RedisConnection,
        layout: Plain,
        owning: PlainOwning,
        lock: PurgeLock,
        owned: PlainOwned,
    ) -> None:
        super().__init__(connection, lock, owned)
        self._layout = layout
        self._owning = owning
        self._keys = owned
        self._left = {one.at for one in owned.checkpoints}
        """The checkpoints that must exist when the next step runs."""
        self._going: list[set[tuple[str, str]]] = [set()]
        """For each step, the checkpoints that it removes."""

    def _run_watched(self, pipe: Any, step: Step, rows: Counter[str]) -> None:
        heads = self._keys.writes_of_heads
        watched = [*(one.name for one in self._keys.timelines), *heads]
        if watched:
            pipe.watch(*watched)
        if self._owning.remaining(self._keys.thread_id) != self._left:
            raise exceptions.WatchError("a checkpoint was added, or is gone")
        if list(self._owning.numbers(heads)) != list(heads.values()):
            raise exceptions.WatchError("a task went on")
        run(pipe, step, rows)
        self._left -= self._going.pop(0)

    def _run_next(self, pipe: Any, step: Step, rows: Counter[str]) -> None:
        # The head exists until the last step, so an agent may continue the thread meanwhile.
        self._run_watched(pipe, step, rows)

    def _run_last(self, inside: Inside | None, rows: Counter[str]) -> None:
        """Nothing to do: each value was removed with the last checkpoint that named it."""

    def _steps(self, inside: Inside | None) -> list[Step]:
        owners, going = (
            list(self._keys.owners.values()),
            [one.name for one in self._keys.blob_places],
        )
        if inside is not None:
            wanted = {(ns, one) for ns, ids in inside.checkpoints.items() for one in ids}
            owners = [one for one in owners if one.at in wanted]
            going = [self._layout.blob_name(self._keys.thread_id, key) for key in inside.blobs]
        ranks = {one.key: one.rank for one in self._keys.places}
        owners.sort(
            key=lambda one: (one.is_there, not one.key.checkpoint_ns, ranks.get(one.key, 0.0))
        )
        last = self._last_to_name(owners, set(going))
        first = [name for name in going if name not in last]
        steps: list[Step] = [[unlink(BLOBS, first)] if first else []]
        number = len(first)
        for owner in owners:
            blobs = [name for name in going if last.get(name) == owner.key]
            size = sum(map(len, owner.names.values())) + len(blobs)
            if number + size > KEYS_AT_ONCE and number:
                steps.append([])
                self._going.append(set())
                number = 0
            number += size
            steps[-1] += self._commands(owner, blobs)
            if owner.is_there:
                self._going[-1].add(owner.at)
        steps[-1] += list(self._ends(owners, whole=inside is None))
        return steps

    def _last_to_name(
        self, owners: Sequence[Owner], blobs: set[bytes]
    ) -> dict[bytes, CheckpointKey]:
        """By value, the last checkpoint in this order that names it; both are removed together."""
        places = {one.key: one for one in self._keys.places}
        ordered = [places[one.key] for one in owners if one.key in places]
        last: dict[bytes, CheckpointKey] = {}
        for place, names in self._layout.named(ordered):
            last.update({name: place.key for name in names if name in blobs})
        return last

    def _commands(self, owner: Owner, blobs: Sequence[bytes]) -> Step:
        found = [unlink(BLOBS, blobs)] if blobs else []
        found += [unlink(WRITES, owner.names[WRITES])]
        if owner.is_there:
            found += [unlink(CHECKPOINT, owner.names[CHECKPOINT])]
            timeline = self._layout.timeline(owner.key.thread_id, owner.key.checkpoint_ns)
            found += [("", ("ZREM", timeline.name, owner.key.checkpoint_id))]
        return found

    def _ends(self, owners: Sequence[Owner], *, whole: bool) -> Iterator[tuple[str, Command]]:
        """Commands that remove the timelines without remaining checkpoints, the root's last."""
        left = Counter(one.key.checkpoint_ns for one in self._keys.checkpoints)
        left.subtract(one.key.checkpoint_ns for one in owners if one.is_there)
        for one in sorted(self._keys.timelines, key=lambda one: one.checkpoint_ns, reverse=True):
            if whole or not left[one.checkpoint_ns]:
                # The timeline may still contain ids of expired checkpoints.
                yield unlink("", [one.name])
                yield THREADS, ("HDEL", self._layout.threads, one.name)
