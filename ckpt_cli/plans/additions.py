"""Plan the removal of what was added to a thread: the thread, or the rows that it did not have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from ckpt_backends.changes.removal import Removal
from ckpt_backends.checkpoint_ids import time_of
from ckpt_backends.model import BlobKey, CheckpointKey
from ckpt_backends.protocol import Store
from ckpt_cli.core.copying.part_counts import PartCounts
from ckpt_cli.core.retention.purge_plan import PlannedRemoval

_REASON = "ckpt added it"


@dataclass(frozen=True, slots=True)
class ThreadContents:
    """What a store has of a thread."""

    checkpoints: frozenset[CheckpointKey] = frozenset()
    writes: Mapping[CheckpointKey, int] = field(default_factory=dict)
    """Number of writes by checkpoint."""
    blobs: Mapping[BlobKey, tuple[int, int]] = field(default_factory=dict)
    """Rows and bytes of values that are stored apart from checkpoints."""

    @property
    def is_empty(self) -> bool:
        """Whether the store has nothing of the thread."""
        return not (self.checkpoints or self.writes or self.blobs)

    @property
    def number_of_writes(self) -> int:
        return sum(self.writes.values())


def contents_of(store: Store, thread_id: str) -> ThreadContents:
    """Return what a store has of a thread. Reads no values."""
    blobs: dict[BlobKey, tuple[int, int]] = {}
    for key, size in store.blobs(thread_id):
        rows, taken = blobs.get(key, (0, 0))
        blobs[key] = rows + 1, taken + size
    return ThreadContents(
        frozenset(one.key for one in store.checkpoints(thread_id)),
        Counter(one.key for one in store.writes(thread_id)),
        blobs,
    )


def removal_of_added(store: Store, thread_id: str, before: ThreadContents) -> PlannedRemoval | None:
    """Return the removal of what a thread has now and did not have before.

    None if that is not possible: rows are gone, or writes were added to a checkpoint that was
    there.
    """
    from ckpt_cli.plans.purge import plan_named, pruned  # most copies only make new threads

    if before.is_empty:
        (whole,) = plan_named(store, {thread_id: _REASON})
        return whole if whole.action == "remove" else None
    now, thread = contents_of(store, thread_id), store.thread(thread_id)
    added = now.checkpoints - before.checkpoints
    kept_writes = {key: number for key, number in now.writes.items() if key not in added}
    values = {key: size for key, size in now.blobs.items() if key not in before.blobs}
    is_lost = before.checkpoints - now.checkpoints or before.blobs.keys() - now.blobs.keys()
    if thread is None or is_lost or kept_writes != dict(before.writes):
        return None
    if not added and not values:
        return None
    keys = sorted((key.checkpoint_ns, key.checkpoint_id) for key in added)
    return pruned(store, thread, keys, values, now.number_of_writes, _REASON)


def removal_of_new(thread_id: str, counts: PartCounts) -> PlannedRemoval:
    """Return the removal of a thread that a store has only since these parts were added to it."""
    removal = Removal(thread_id, time_of(counts.newest), counts.checkpoints, counts.writes)
    return PlannedRemoval(
        "remove",
        _REASON,
        counts.checkpoints,
        counts.writes,
        removal,
        blobs=counts.values,
        bytes=counts.bytes,
    )
