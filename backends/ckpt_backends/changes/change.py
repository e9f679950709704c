"""A change of one thread: the rows to add or to remove, and the state that it expects.

A change is planned and shown before anything is written, and is applied whole or not at all.
A change only names the rows to copy; the engine copies them byte for byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ckpt_backends.errors import StoreChanged
from ckpt_backends.model import Checkpoint, CheckpointKey, TypedBytes, Write


@dataclass(frozen=True, slots=True)
class NewBlob:
    """A channel's value at one version, for layouts that store values outside of bodies."""

    checkpoint_ns: str
    channel: str
    version: str
    value: TypedBytes


@dataclass(frozen=True, slots=True)
class CopyOfWrites:
    """Copy some of the writes of one checkpoint to another checkpoint."""

    source: CheckpointKey
    target: CheckpointKey
    tasks: tuple[tuple[str, int], ...]
    """The writes to copy, as task id and idx."""


@dataclass(frozen=True, slots=True)
class CopyOfCheckpoint:
    """Copy a checkpoint, with the channel values that it names, to another thread."""

    source: CheckpointKey
    metadata: TypedBytes | None = None
    """Metadata to store in place of the original's."""
    body: TypedBytes | None = None
    """A body to store in place of the original's."""
    writes: tuple[tuple[str, int], ...] | None = None
    """The writes to copy, by task id and idx; None for all of them."""


@dataclass(frozen=True, slots=True)
class Change:
    """What to add to a thread, or to remove from it."""

    thread_id: str
    heads: Mapping[str, str]
    """By namespace, the id of the newest checkpoint of the thread; empty for a new thread."""
    checkpoints: tuple[Checkpoint, ...] = ()
    writes: tuple[Write, ...] = ()
    blobs: tuple[NewBlob, ...] = ()
    copies_of_writes: tuple[CopyOfWrites, ...] = ()
    copies: tuple[CopyOfCheckpoint, ...] = ()
    removed: Mapping[CheckpointKey, int] | None = None
    """The checkpoints to remove with all their writes, each with its number of writes."""
    removed_blobs: tuple[tuple[str, str, str], ...] = ()
    """The values to remove, each as (namespace, channel, version)."""
    relied_on: tuple[CheckpointKey, ...] = ()
    """Checkpoints from which new ones were made. Engines with transactions check that they still
    exist; a prune may have removed them while the heads stayed."""

    @property
    def added(self) -> list[CheckpointKey]:
        """The checkpoints that it adds."""
        copied = [one.source for one in self.copies]
        return [
            *(one.key for one in self.checkpoints),
            *(
                CheckpointKey(self.thread_id, one.checkpoint_ns, one.checkpoint_id)
                for one in copied
            ),
        ]


def moved(change: Change) -> StoreChanged:
    """The error for a thread that changed after the plan was made."""
    return StoreChanged(
        f"thread '{change.thread_id}' changed meanwhile, so nothing was written",
        hint="an agent may be running; check the thread, then run the command again",
    )


def gone(key: CheckpointKey) -> StoreChanged:
    """The error for a checkpoint that the change refers to but that does not exist."""
    return StoreChanged(
        f"checkpoint '{key.checkpoint_id}' of thread '{key.thread_id}' is gone, so nothing was"
        " written",
        hint="run the command again",
    )
