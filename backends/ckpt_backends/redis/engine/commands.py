"""What the plans of a change of all layouts do alike: find, check and watch the keys it needs."""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from redis import exceptions

from ckpt_backends.changes import GONE, MOVED, Change, Inside, Removal, Removed, gone, moved
from ckpt_backends.codec import decode
from ckpt_backends.errors import Refused
from ckpt_backends.model import CheckpointKey
from ckpt_backends.redis.engine.connection import Command, RedisConnection, keys_of
from ckpt_backends.redis.engine.keyspace import CHECKPOINT, CheckpointEntry, KeysByCheckpoint
from ckpt_backends.transfer.parts import CheckpointPart
from ckpt_backends.url import StoreUrl

NO_EXPIRY = -1


class CommandPlan(ABC):
    """A change as Redis commands, with checks that must hold when they run."""

    watched: Sequence[bytes] = ()
    """Keys that a saver touches whenever it adds a checkpoint."""
    beside: Sequence[bytes] = ()
    """Keys that the change also modifies but does not watch: all threads share them."""

    def __init__(self, connection: RedisConnection, change: Change) -> None:
        self._connection = connection
        self._change = change
        self._needed: set[bytes] = set()
        self._made: set[bytes] = set()
        self._removed: set[bytes] = set()

    @abstractmethod
    def commands(self) -> Iterator[Command]:
        """The commands of the change. Raises `StoreChanged` and `Unsupported`."""

    def last(self) -> Iterator[Command]:
        """Commands that can only be computed after `check`."""
        yield from ()

    @abstractmethod
    def _places(self) -> Iterable[CheckpointEntry]:
        """The current checkpoints of the thread."""

    @property
    def touched(self) -> Sequence[bytes]:
        """Keys that these commands read or create."""
        return sorted(self._needed | self._made)

    def check(self) -> None:
        """Raise `StoreChanged` if the thread changed since the change was planned."""
        if heads_of(self._places()) != dict(self._change.heads):
            raise moved(self._change.thread_id)
        made, needed = sorted(self._made - self._removed), sorted(self._needed)
        if self._connection.number_of(made) or self._connection.number_of(needed) != len(needed):
            raise moved(self._change.thread_id)

    def _make(self, name: bytes) -> bytes:
        self._made.add(name)
        return name

    def _need(self, name: bytes, key: CheckpointKey) -> bytes:
        if not self._connection.number_of([name]):
            raise gone(key)
        self._needed.add(name)
        return name

    def _left(self, name: bytes) -> int:
        """The remaining time to live in milliseconds; negative if the key does not expire."""
        return int(self._connection.ask("PTTL", name))


def expiring(name: bytes, expiry: int) -> Iterator[Command]:
    """Let a key expire after so many milliseconds; never if the number is negative."""
    if expiry >= 0:
        yield ("PEXPIRE", name, expiry)


def heads_of(places: Iterable[CheckpointEntry]) -> dict[str, str]:
    """By namespace, the id of its head."""
    heads: dict[str, CheckpointEntry] = {}
    for one in places:
        known = heads.setdefault(one.key.checkpoint_ns, one)
        if (known.rank, known.key) < (one.rank, one.key):
            heads[one.key.checkpoint_ns] = one
    return {ns: one.key.checkpoint_id for ns, one in heads.items()}


def copied_from(one: CheckpointPart) -> str | None:
    """The id of the original that a copy names in its metadata (`forked_from`); None if none."""
    fields = decode(one.metadata)
    name = fields.get("forked_from") if isinstance(fields, dict) else None
    return name if isinstance(name, str) else None


# A lock that allows only one purge at a time: a key that expires if its owner is killed.


LOCK = b"ckpt:purge-lock"
_HELD = 3000
"""Time to live of the key in milliseconds. A killed run blocks others for at most this time."""
_KEPT = 0.5
"""Seconds between two extensions of the time to live."""
_PATIENCE = 6.0
"""Seconds that another run waits for the lock."""


class PurgeLock:
    """The lock, held by this run."""

    def __init__(self, driver: Any, url: StoreUrl) -> None:
        self._driver = driver
        self._url = url
        import secrets  # late: readers do not need it

        self._token = secrets.token_hex(8).encode()
        self._again = 0.0
        """When the time to live must be extended again, as `time.monotonic`."""

    def keep(self) -> None:
        """Extend the time to live. If the lock was lost, take it again; raises `Refused`.

        The lock only prevents two runs from doing the same work. Removing is safe without it.
        """
        if time.monotonic() < self._again:
            return
        if self._driver.get(LOCK) == self._token:
            self._driver.pexpire(LOCK, _HELD)
            self._again = time.monotonic() + _KEPT
        else:
            self.take()

    def take(self) -> None:
        """Acquire the lock. Raises `Refused` if another run holds it for `_PATIENCE` seconds."""
        until = time.monotonic() + _PATIENCE
        while not self._driver.set(LOCK, self._token, nx=True, px=_HELD):
            if time.monotonic() > until:
                raise Refused(
                    f"another purge of '{self._url}' is running",
                    hint="run the command again when it has finished; its lock is the key"
                    f" '{LOCK.decode()}', which expires a few seconds later",
                )
            time.sleep(random.uniform(0.01, 0.05))  # noqa: S311
        self._again = time.monotonic() + _KEPT

    def release(self) -> None:
        """Release the lock if this run still holds it."""
        with self._driver.pipeline(transaction=True) as pipe:
            pipe.watch(LOCK)
            if pipe.get(LOCK) == self._token:
                pipe.multi()
                pipe.unlink(LOCK)
                pipe.execute()


@contextmanager
def purge_lock(connection: RedisConnection, url: StoreUrl) -> Iterator[PurgeLock]:
    """Hold the lock inside the `with` block. Raises `Refused` and the driver's errors."""
    lock = PurgeLock(connection.client_of(LOCK), url)
    lock.take()
    try:
        yield lock
    finally:
        # If releasing fails, the lock expires.
        with suppress(exceptions.RedisError, OSError):
            lock.release()


# The removal of the keys of one thread, and what all layouts do alike.
#
# A thread with few keys is removed in one transaction. One transaction with many keys would block
# Redis for long, so a large thread is removed in several steps. The order of the steps is the
# layout's; an interrupted removal leaves a thread that the next run removes in the same way.


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
