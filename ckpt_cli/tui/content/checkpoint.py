"""Which checkpoint is shown, and when."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, tzinfo

from ckpt_backends.model import CheckpointKey
from ckpt_backends.protocol import Store
from ckpt_cli.threads.target import Target
from ckpt_cli.threads.thread import ThreadReader


@dataclass(frozen=True, slots=True)
class Clock:
    """The current time, and the time zone of the times shown."""

    now: datetime
    zone: tzinfo


def base_of(marked: CheckpointKey | None, place: CheckpointKey) -> CheckpointKey | None:
    """Return the checkpoint that a diff starts at; None for the parent of `place`.

    It is the marked one, unless the marked one itself is shown.
    """
    return None if marked == place else marked


def target_of(store: Store, place: CheckpointKey) -> Target:
    """Return the checkpoint for the functions of `reading`. Raises `NotFound`."""
    reader = ThreadReader(store, place.thread_id)
    return Target(reader, place.checkpoint_ns, place.checkpoint_id, chosen=True)
