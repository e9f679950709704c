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


class KeptReader:
    """The reader of one thread, kept until the thread or its store changes.

    It remembers the keys of all checkpoints, so that going to the next one does not read them
    again. Used by one worker only.
    """

    def __init__(self) -> None:
        self._reader: ThreadReader | None = None

    def of(self, store: Store, thread_id: str) -> ThreadReader:
        """Return a reader of a thread. Raises `NotFound`."""
        thread = store.thread(thread_id)
        kept = self._reader
        if kept is None or kept.store is not store or kept.thread != thread:
            kept = self._reader = ThreadReader(store, thread_id if thread is None else thread)
        return kept


def target_of(store: Store, place: CheckpointKey, kept: KeptReader | None = None) -> Target:
    """Return the checkpoint for the functions of `reading`. Raises `NotFound`."""
    reader = (KeptReader() if kept is None else kept).of(store, place.thread_id)
    return Target(reader, place.checkpoint_ns, place.checkpoint_id, chosen=True)
