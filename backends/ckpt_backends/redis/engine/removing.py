"""Removes keys of threads, thread by thread.

A thread with few keys is removed in one transaction. One transaction with many keys would block
Redis for long, so a large thread is removed in several:

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

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from redis import exceptions

from ckpt_backends.changes.removal import GONE, MOVED, Inside, Removal, Removed
from ckpt_backends.model import BlobKey
from ckpt_backends.redis.engine.connect import Command, RedisConnection, keys_of
from ckpt_backends.redis.engine.keyspace import Layout
from ckpt_backends.redis.engine.purge_lock import PurgeLock, purge_lock
from ckpt_backends.redis.engine.thread_keys import APART, CHECKPOINT, Owned, Owner, Owning
from ckpt_backends.url import StoreUrl

KEYS_AT_ONCE = 1000
Step = list[tuple[str, Command]]
"""The commands of one transaction, each with a kind of keys, or `''`.

A command with a kind returns the number of removed keys of that kind.
"""


def remove_threads(
    connection: RedisConnection, url: StoreUrl, layout: Layout, removals: Sequence[Removal]
) -> list[Removed]:
    """Remove the planned keys of each thread that has not changed.

    Raises `Refused` if another purge is running.
    """
    owning = Owning(connection, layout)
    with purge_lock(connection, url) as lock:
        found = owning.of([one.thread_id for one in removals])
        return [
            _Removing(connection, layout, owning, lock, owned).carry_out(one)
            for one, owned in zip(removals, found, strict=True)
        ]


class ThreadRemoval(ABC):
    """The removal of one thread, or of a part of it."""

    def __init__(self, connection: RedisConnection, lock: PurgeLock, owned: Owned) -> None:
        self._connection = connection
        self._lock = lock
        self._owned = owned

    def carry_out(self, removal: Removal) -> Removed:
        owned = self._owned
        if removal.checkpoints and not owned.checkpoints:
            return Removed(removal.thread_id, skipped=GONE)
        if not self._is_as_planned(removal):
            return Removed(removal.thread_id, skipped=MOVED)
        self._lock.keep()
        first, *rest = self._steps(removal.inside)
        names = [one for step in (first, *rest) for _, command in step for one in keys_of(command)]
        rows: Counter[str] = Counter()
        try:
            with self._connection.transaction(names, loose=True) as pipe:
                self._run_watched(pipe, first, rows)
        except exceptions.WatchError:
            return Removed(removal.thread_id, skipped=MOVED)
        for step in rest:
            self._lock.keep()
            with self._connection.transaction(names, loose=True) as pipe:
                self._run_next(pipe, step, rows)
        self._run_last(removal.inside, rows)
        return Removed(removal.thread_id, {kind: number for kind, number in rows.items() if number})

    @abstractmethod
    def _steps(self, inside: Inside | None) -> list[Step]:
        """The commands of each transaction. There is at least one step; it may be empty."""

    @abstractmethod
    def _run_watched(self, pipe: Any, step: Step, rows: Counter[str]) -> None:
        """Run the first step. Raises `WatchError` if an agent has continued the thread."""

    @abstractmethod
    def _run_next(self, pipe: Any, step: Step, rows: Counter[str]) -> None:
        """Run a later step."""

    @abstractmethod
    def _run_last(self, inside: Inside | None, rows: Counter[str]) -> None:
        """Remove the keys that must be checked again. `inside` is None for a whole thread."""

    def _is_as_planned(self, removal: Removal) -> bool:
        owned = self._owned
        if (owned.last_at, owned.writes) != (removal.last_at, removal.writes):
            return False
        number = len(owned.checkpoints)
        if number == removal.checkpoints:
            return True
        # The plan may have counted keys of checkpoints that the saver did not store completely.
        names = [name for one in owned.owners.values() for name in one.names[CHECKPOINT]]
        return removal.checkpoints == sum(self._existing(names))

    def _existing(self, names: Iterable[bytes]) -> Iterator[bool]:
        return (bool(one) for one in self._connection.ask_all(("EXISTS", name) for name in names))


class _Removing(ThreadRemoval):
    """The removal for layouts with pointers and lists that name other keys."""

    def __init__(
        self,
        connection: RedisConnection,
        layout: Layout,
        owning: Owning,
        lock: PurgeLock,
        owned: Owned,
    ) -> None:
        super().__init__(connection, lock, owned)
        self._layout = layout
        self._owning = owning

    def _run_watched(self, pipe: Any, step: Step, rows: Counter[str]) -> None:
        owned = self._owned
        heads = list(owned.heads.values())
        of_namespaces = owned.shared.values()
        watched = [
            name
            for kinds in (*of_namespaces, *(one.names for one in heads))
            for names in kinds.values()
            for name in names
        ]
        if watched:
            pipe.watch(*watched)
        known = {name for _, name in owned.in_order()}
        if any(self._existing(sorted(self._owning.named(owned) - known))):
            raise exceptions.WatchError("something was added")
        names = [self._layout.checkpoint_name(one.key) for one in heads]
        if {place.key for place in self._layout.told(names)} != {one.key for one in heads}:
            raise exceptions.WatchError("a head is gone, or another one")
        run(pipe, step, rows)

    def _run_next(self, pipe: Any, step: Step, rows: Counter[str]) -> None:
        run(pipe, step, rows)

    def _steps(self, inside: Inside | None) -> list[Step]:
        owned = self._owned
        owners = list(owned.owners.values())
        if inside is None:
            step = [
                unlink(kind, names)
                for kinds in owned.shared.values()
                for kind, names in kinds.items()
            ]
        else:
            named = {(ns, one) for ns, ids in inside.checkpoints.items() for one in ids}
            owners = [one for at, one in owned.owners.items() if at in named]
            step = list(self._lists_without(owners))
        groups = [owner.names for owner in sorted(owners, key=_order)]
        if inside is None:
            groups = [*({APART: [name]} for name in owned.blobs.values()), *groups]
        steps, number = [step], 0
        for names in groups:
            size = sum(map(len, names.values()))
            if number + size > KEYS_AT_ONCE and number:
                steps.append([])
                number = 0
            number += size
            steps[-1] += [unlink(kind, some) for kind, some in names.items() if some]
        return steps

    def _run_last(self, inside: Inside | None, rows: Counter[str]) -> None:
        if inside is not None:
            self._remove_apart(inside.blobs, rows)

    def _remove_apart(self, keys: Sequence[BlobKey], rows: Counter[str]) -> None:
        """Remove values, except those that an agent has stored again meanwhile.

        Two branches may use the same version of a channel, and a saver stores values before the
        checkpoint that names them. So the checkpoint id in each value is checked: a value of a
        newer checkpoint is kept.
        """
        newest = max((one.key.checkpoint_id for one in self._owned.checkpoints), default="")
        planned = [self._owned.blobs[key] for key in keys if key in self._owned.blobs]
        for start in range(0, len(planned), KEYS_AT_ONCE):
            names = planned[start : start + KEYS_AT_ONCE]
            self._lock.keep()
            with (
                suppress(exceptions.WatchError),  # they were stored again: keep them
                self._connection.transaction(names, loose=True) as pipe,
            ):
                pipe.watch(*names)
                told = self._connection.ask_all(
                    ("JSON.GET", name, "$.checkpoint_id") for name in names
                )
                came = [json.loads(one or b"[]") for one in told]
                old = [name for name, ids in zip(names, came, strict=True) if _is_old(ids, newest)]
                if old:
                    run(pipe, [unlink(APART, old)], rows)

    def _lists_without(self, owners: Sequence[Owner]) -> Iterator[tuple[str, Command]]:
        """Commands that remove these checkpoints and their writes from pointers and lists."""
        going = {(one.key.checkpoint_ns, one.key.checkpoint_id) for one in owners}
        for ns, kinds in self._owned.shared.items():
            here = [one for one in self._owned.checkpoints if one.key.checkpoint_ns == ns]
            left = [one for one in here if (ns, one.key.checkpoint_id) not in going]
            head = self._owned.heads.get(ns)
            for kind, names in kinds.items():
                if kind == "write_registry":
                    writes = [
                        name
                        for one in owners
                        if one.key.checkpoint_ns == ns
                        for name in one.names["checkpoint_write"]
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


def _is_old(ids: Sequence[object], newest: str) -> bool:
    return all(isinstance(one, str) and one <= newest for one in ids)


def _order(owner: Owner) -> tuple[bool, bool, str]:
    """The order of removal: orphaned writes, subgraphs, root namespace; each oldest first."""
    return owner.is_there, not owner.key.checkpoint_ns, owner.key.checkpoint_id


def unlink(kind: str, names: Sequence[bytes]) -> tuple[str, Command]:
    """The command that removes keys of a kind."""
    return kind, ("UNLINK", *names)


def run(pipe: Any, step: Step, rows: Counter[str]) -> None:
    """Run a transaction and count the removed keys by kind. Raises `WatchError`."""
    pipe.multi()
    for _, command in step:
        pipe.execute_command(*command)
    for (kind, _), answer in zip(step, pipe.execute(), strict=True):
        if kind:
            rows[kind] += int(answer)
