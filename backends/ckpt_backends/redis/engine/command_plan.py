"""What the plans of a change of all layouts do alike: find, check and watch the keys it needs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence

from ckpt_backends.changes.change import Change, gone, moved
from ckpt_backends.codec import decode
from ckpt_backends.model import Checkpoint, CheckpointKey
from ckpt_backends.redis.engine.connection import Command, RedisConnection
from ckpt_backends.redis.engine.keyspace import CheckpointEntry

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
            raise moved(self._change)
        made, needed = sorted(self._made - self._removed), sorted(self._needed)
        if self._connection.number_of(made) or self._connection.number_of(needed) != len(needed):
            raise moved(self._change)

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


def copied_from(one: Checkpoint) -> str | None:
    """The id of the original that a copy names in its metadata (`forked_from`); None if none."""
    fields = decode(one.metadata) if one.metadata is not None else None
    name = fields.get("forked_from") if isinstance(fields, dict) else None
    return name if isinstance(name, str) else None
