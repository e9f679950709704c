"""The interface of plans for changes, and common helpers for all layouts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from ckpt_backends.model import Checkpoint
from ckpt_backends.redis.engine.connect import Command
from ckpt_backends.redis.engine.keyspace import CheckpointEntry

NO_EXPIRY = -1


class CommandPlan(Protocol):
    """A change as Redis commands, with checks that must hold when they run."""

    @property
    def watched(self) -> Sequence[bytes]:
        """Keys that a saver touches whenever it adds a checkpoint."""
        ...

    def commands(self) -> Iterator[Command]:
        """The commands of the change. Raises `StoreChanged` and `Unsupported`."""
        ...

    @property
    def touched(self) -> Sequence[bytes]:
        """Keys that these commands read or create."""
        ...

    @property
    def beside(self) -> Sequence[bytes]:
        """Keys that the change also modifies but does not watch: all threads share them."""
        ...

    def check(self) -> None:
        """Raise `StoreChanged` if the thread changed since the change was planned."""
        ...

    def last(self) -> Iterator[Command]:
        """Commands that can only be computed after `check`."""
        ...


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
    from ckpt_backends.codec import decode

    fields = decode(one.metadata) if one.metadata is not None else None
    name = fields.get("forked_from") if isinstance(fields, dict) else None
    return name if isinstance(name, str) else None
