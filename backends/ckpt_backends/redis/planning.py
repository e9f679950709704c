"""What plans of changes have in common, whatever the layout."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from ckpt_backends.model import Checkpoint
from ckpt_backends.redis.connect import Command
from ckpt_backends.redis.keyspace import Place

NO_EXPIRY = -1


class Plan(Protocol):
    """A change as commands, and what must hold when they run."""

    @property
    def watched(self) -> Sequence[bytes]:
        """Keys that a saver touches whenever it adds a checkpoint."""
        ...

    def commands(self) -> Iterator[Command]:
        """What changes. Raises `StoreChanged` and `Unsupported`."""
        ...

    @property
    def touched(self) -> Sequence[bytes]:
        """Keys that these commands read or make."""
        ...

    @property
    def beside(self) -> Sequence[bytes]:
        """Keys that change with it and are not watched, since others change them all the time."""
        ...

    def check(self) -> None:
        """Raise `StoreChanged` unless the thread is as the change was made for."""
        ...

    def last(self) -> Iterator[Command]:
        """The commands that can only be told once all has been checked."""
        ...


def heads_of(places: Iterable[Place]) -> dict[str, str]:
    """The head of each namespace."""
    heads: dict[str, Place] = {}
    for one in places:
        known = heads.setdefault(one.key.checkpoint_ns, one)
        if (known.rank, known.key) < (one.rank, one.key):
            heads[one.key.checkpoint_ns] = one
    return {ns: one.key.checkpoint_id for ns, one in heads.items()}


def copied_from(one: Checkpoint) -> str | None:
    """The checkpoint that a copy names in its metadata."""
    from ckpt_backends.codec import decode

    fields = decode(one.metadata) if one.metadata is not None else None
    name = fields.get("forked_from") if isinstance(fields, dict) else None
    return name if isinstance(name, str) else None
