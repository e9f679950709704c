"""Which checkpoint is shown, and when."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, tzinfo

from ckpt_backends.model import CheckpointKey, Thread
from ckpt_backends.protocol import Store
from ckpt_cli.core.state import read_metadata
from ckpt_cli.core.tasks.resume import UserMetadata
from ckpt_cli.queries.replay import KeptReplay
from ckpt_cli.reading.redaction import carried_metadata
from ckpt_cli.reading.target import Target
from ckpt_cli.reading.thread import ThreadReader


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


def carried_from(store: Store, key: CheckpointKey) -> UserMetadata:
    """Return the metadata with which a graph resumes from a checkpoint; none if it is gone."""
    for one in store.checkpoints_at([key], metadata=True):
        return carried_metadata(store, read_metadata(one))
    return {}


class KeptReader:
    """The reader of one thread, kept until the thread or its store changes.

    It remembers the keys of all checkpoints, so that going to the next one does not read them
    again. Used by one worker only.
    """

    def __init__(self) -> None:
        self._reader: ThreadReader | None = None
        self.replay = KeptReplay()
        """What is known about the reducers of the thread."""

    def of(self, store: Store, thread_id: str, place: CheckpointKey | None = None) -> ThreadReader:
        """Return a reader of a thread. Raises `NotFound`.

        If only `place` is read with it, the thread may have grown since: new checkpoints change
        nothing about an older one that was not the head.
        """
        thread, kept = store.thread(thread_id), self._reader
        if kept is None or kept.store is not store or kept.thread != thread:
            if kept is not None and kept.store is store and _has_grown(kept, thread, place):
                return kept
            kept = self._reader = ThreadReader(store, thread_id if thread is None else thread)
        return kept


def _has_grown(kept: ThreadReader, thread: Thread | None, place: CheckpointKey | None) -> bool:
    """Return whether a thread has more checkpoints now, and knew one that was not its head."""
    if thread is None or place is None or kept.thread_id != thread.thread_id:
        return False
    if thread.checkpoints <= kept.thread.checkpoints:
        return False
    older = kept.index(place.checkpoint_ns)[1:]
    return any(one.key.checkpoint_id == place.checkpoint_id for one in older)


def target_of(store: Store, place: CheckpointKey, kept: KeptReader | None = None) -> Target:
    """Return the checkpoint for the functions of `reading`. Raises `NotFound`."""
    reader = (KeptReader() if kept is None else kept).of(store, place.thread_id, place)
    return Target(reader, place.checkpoint_ns, place.checkpoint_id, chosen=True)
