"""The removal of the keys of one thread, and what all layouts do alike.

A thread with few keys is removed in one transaction. One transaction with many keys would block
Redis for long, so a large thread is removed in several steps. The order of the steps is the
layout's; an interrupted removal leaves a thread that the next run removes in the same way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from redis import exceptions

from ckpt_backends.changes.removal import GONE, MOVED, Inside, Removal, Removed
from ckpt_backends.redis.engine.connection import Command, RedisConnection, keys_of
from ckpt_backends.redis.engine.keyspace import CHECKPOINT, KeysByCheckpoint
from ckpt_backends.redis.engine.purge_lock import PurgeLock

KEYS_AT_ONCE = 1000
Step = list[tuple[str, Command]]
"""The commands of one transaction, each with a kind of keys, or `''`.

A command with a kind returns the number of removed keys of that kind.
"""


class ThreadRemoval(ABC):
    """The removal of one thread, or of a part of it."""

    def __init__(
        self, connection: RedisConnection, lock: PurgeLock, keys: KeysByCheckpoint
    ) -> None:
        self._connection = connection
        self._lock = lock
        self.keys = keys

    def carry_out(self, removal: Removal) -> Removed:
        keys = self.keys
        if removal.checkpoints and not keys.checkpoints:
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
        return removed(removal, rows)

    @abstractmethod
    def _steps(self, inside: Inside | None) -> list[Step]:
        """The commands of each transaction. There is at least one step; it may be empty."""

    @abstractmethod
    def _run_watched(self, pipe: Any, step: Step, rows: Counter[str]) -> None:
        """Run the first step. Raises `WatchError` if an agent has continued the thread."""

    def _run_next(self, pipe: Any, step: Step, rows: Counter[str]) -> None:
        """Run a later step."""
        run(pipe, step, rows)

    def _run_last(self, inside: Inside | None, rows: Counter[str]) -> None:  # noqa: B027
        """Remove the keys that must be checked again. `inside` is None for a whole thread."""

    def _is_as_planned(self, removal: Removal) -> bool:
        keys = self.keys
        if (keys.last_at, keys.writes) != (removal.last_at, removal.writes):
            return False
        number = len(keys.checkpoints)
        if number == removal.checkpoints:
            return True
        # The plan may have counted keys of checkpoints that the saver did not store completely.
        names = [name for one in keys.groups.values() for name in one.names[CHECKPOINT]]
        return removal.checkpoints == sum(self._existing(names))

    def _existing(self, names: Iterable[bytes]) -> Iterator[bool]:
        return (bool(one) for one in self._connection.ask_all(("EXISTS", name) for name in names))


def unlink(kind: str, names: Sequence[bytes]) -> tuple[str, Command]:
    """The command that removes keys of a kind."""
    return kind, ("UNLINK", *names)


def removed(removal: Removal, rows: Counter[str]) -> Removed:
    """The result of a removal that was carried out."""
    return Removed(removal.thread_id, {kind: number for kind, number in rows.items() if number})


def run(pipe: Any, step: Step, rows: Counter[str]) -> None:
    """Run a transaction and count the removed keys by kind. Raises `WatchError`."""
    run_together(pipe, [(step, rows)])


def run_together(pipe: Any, parts: Sequence[tuple[Step, Counter[str]]]) -> None:
    """Run steps of several threads in one transaction, and count the removed keys of each by kind.

    Raises `WatchError`.
    """
    pipe.multi()
    for step, _ in parts:
        for _, command in step:
            pipe.execute_command(*command)
    kinds = [(kind, rows) for step, rows in parts for kind, _ in step]
    for (kind, rows), answer in zip(kinds, pipe.execute(), strict=True):
        if kind:
            rows[kind] += int(answer)
