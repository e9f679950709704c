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


def target_of(store: Store, place: CheckpointKey) -> Target:
    """Return the checkpoint for the functions of `reading`. Raises `NotFound`."""
    reader = ThreadReader(store, place.thread_id)
    return Target(reader, place.checkpoint_ns, place.checkpoint_id, chosen=True)
