"""A change of one thread: the rows to add or to remove, and the state that it expects.

A change is planned and shown before anything is written, and is applied whole or not at all.
A change only names the rows to copy; the engine copies them byte for byte.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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


def change_record(change: Change) -> dict[str, Any]:
    """The change as a JSON object; bytes are base64."""
    return {
        "thread_id": change.thread_id,
        "heads": dict(change.heads),
        "checkpoints": [
            {
                **_key(one.key),
                "parent_checkpoint_id": one.parent_checkpoint_id,
                "body": _typed(one.body),
                "metadata": _typed(one.metadata),
            }
            for one in change.checkpoints
        ],
        "writes": [
            {
                **_key(one.key),
                "task_id": one.task_id,
                "idx": one.idx,
                "channel": one.channel,
                "value": _typed(one.value),
            }
            for one in change.writes
        ],
        "blobs": [
            {
                "checkpoint_ns": one.checkpoint_ns,
                "channel": one.channel,
                "version": one.version,
                "value": _typed(one.value),
            }
            for one in change.blobs
        ],
        "copies_of_writes": [
            {
                "from": _key(one.source),
                "to": _key(one.target),
                "tasks": [list(task) for task in one.tasks],
            }
            for one in change.copies_of_writes
        ],
        "copies": [
            {
                "from": _key(one.source),
                "metadata": _typed(one.metadata),
                "body": _typed(one.body),
                "writes": None if one.writes is None else [list(task) for task in one.writes],
            }
            for one in change.copies
        ],
        "removed": [
            {**_key(key), "writes": writes} for key, writes in (change.removed or {}).items()
        ],
        "removed_blobs": [
            {"checkpoint_ns": ns, "channel": channel, "version": version}
            for ns, channel, version in change.removed_blobs
        ],
    }


def _key(key: CheckpointKey) -> dict[str, str]:
    return {
        "thread_id": key.thread_id,
        "checkpoint_ns": key.checkpoint_ns,
        "checkpoint_id": key.checkpoint_id,
    }


def _typed(value: TypedBytes | None) -> dict[str, str] | None:
    if value is None:
        return None
    return {"type": value.type, "data": b64encode(value.data).decode()}
