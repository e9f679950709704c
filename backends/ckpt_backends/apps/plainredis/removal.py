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

from ckpt_backends.apps.plainredis.parts import BLOBS, THREADS, WRITES
from ckpt_backends.apps.plainredis.thread_keys import PlainKeyFinder, PlainKeysByCheckpoint
from ckpt_backends.changes.removal import Inside
from ckpt_backends.model import CheckpointKey
from ckpt_backends.redis.engine.connection import Command
from ckpt_backends.redis.engine.keyspace import CHECKPOINT, CheckpointKeys
from ckpt_backends.redis.engine.purge_lock import PurgeLock
from ckpt_backends.redis.engine.thread_removal import KEYS_AT_ONCE, Step, ThreadRemoval, run, unlink


class PlainRemoval(ThreadRemoval):
    """The removal of one thread, or of a part of it."""

    def __init__(
        self, finder: PlainKeyFinder, lock: PurgeLock, keys: PlainKeysByCheckpoint
    ) -> None:
        super().__init__(finder.connection, lock, keys)
        self._layout = finder.layout
        self._finder = finder
        self._of_thread = keys
        self._left = {one.at for one in keys.checkpoints}
        """The checkpoints that must exist when the next step runs."""
        self._going: list[set[tuple[str, str]]] = [set()]
        """For each step, the checkpoints that it removes."""

    def _run_watched(self, pipe: Any, step: Step, rows: Counter[str]) -> None:
        heads = self._of_thread.writes_of_heads
        watched = [*(one.name for one in self._of_thread.found.timelines), *heads]
        if watched:
            pipe.watch(*watched)
        if self._finder.remaining(self._of_thread.thread_id) != self._left:
            raise exceptions.WatchError("a checkpoint was added, or is gone")
        if list(self._finder.numbers(heads)) != list(heads.values()):
            raise exceptions.WatchError("a task went on")
        run(pipe, step, rows)
        self._left -= self._going.pop(0)

    def _run_next(self, pipe: Any, step: Step, rows: Counter[str]) -> None:
        # The head exists until the last step, so an agent may continue the thread meanwhile.
        self._run_watched(pipe, step, rows)

    def _steps(self, inside: Inside | None) -> list[Step]:
        owners, going = (
            list(self._of_thread.groups.values()),
            [one.name for one in self._of_thread.found.blob_places],
        )
        if inside is not None:
            wanted = {(ns, one) for ns, ids in inside.checkpoints.items() for one in ids}
            owners = [one for one in owners if one.at in wanted]
            going = [self._layout.blob_name(self._of_thread.thread_id, key) for key in inside.blobs]
        ranks = {one.key: one.rank for one in self._of_thread.places}
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
        self, owners: Sequence[CheckpointKeys], blobs: set[bytes]
    ) -> dict[bytes, CheckpointKey]:
        """By value, the last checkpoint in this order that names it; both are removed together."""
        places = {one.key: one for one in self._of_thread.places}
        ordered = [places[one.key] for one in owners if one.key in places]
        last: dict[bytes, CheckpointKey] = {}
        for place, names in self._layout.named(ordered):
            last.update({name: place.key for name in names if name in blobs})
        return last

    def _commands(self, owner: CheckpointKeys, blobs: Sequence[bytes]) -> Step:
        found = [unlink(BLOBS, blobs)] if blobs else []
        found += [unlink(WRITES, owner.names[WRITES])]
        if owner.is_there:
            found += [unlink(CHECKPOINT, owner.names[CHECKPOINT])]
            timeline = self._layout.timeline(owner.key.thread_id, owner.key.checkpoint_ns)
            found += [("", ("ZREM", timeline.name, owner.key.checkpoint_id))]
        return found

    def _ends(
        self, owners: Sequence[CheckpointKeys], *, whole: bool
    ) -> Iterator[tuple[str, Command]]:
        """Commands that remove the timelines without remaining checkpoints, the root's last."""
        left = Counter(one.key.checkpoint_ns for one in self._of_thread.checkpoints)
        left.subtract(one.key.checkpoint_ns for one in owners if one.is_there)
        for one in sorted(
            self._of_thread.found.timelines, key=lambda one: one.checkpoint_ns, reverse=True
        ):
            if whole or not left[one.checkpoint_ns]:
                # The timeline may still contain ids of expired checkpoints.
                yield unlink("", [one.name])
                yield THREADS, ("HDEL", self._layout.threads, one.name)
