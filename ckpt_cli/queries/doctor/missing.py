"""Tell values that are lost from values that their saver never stored.

A saver stores, with a checkpoint, the values whose versions differ from those of the checkpoint
before it. If it failed to store that one, or stored it in another namespace, the values that were
new there are missing, although no row was deleted.
"""

from __future__ import annotations

from collections.abc import Iterator

from ckpt_backends.model import Checkpoint
from ckpt_cli.core.state import read_body
from ckpt_cli.queries.doctor.seen import SeenCheckpoint
from ckpt_cli.threads.thread import ThreadReader


def lost_here(seen: SeenCheckpoint) -> list[str]:
    """Return the channels whose values were stored with a checkpoint and are missing now."""
    checkpoint = seen.moment.checkpoint
    if not checkpoint.missing or not _has_known_parent(seen):
        return []
    return sorted(checkpoint.missing & seen.introduced)


def _has_known_parent(seen: SeenCheckpoint) -> bool:
    return seen.parent is not None or seen.moment.checkpoint.parent_checkpoint_id is None


def lost_values(reader: ThreadReader, checkpoint: Checkpoint) -> Iterator[str]:
    """Yield the channels of any checkpoint whose values were stored once and are missing now.

    Reads the bodies of its ancestors, back to those that gave the channels their versions.
    """
    wanted = dict.fromkeys(sorted(checkpoint.missing))
    if not wanted:
        return
    ns, versions = checkpoint.key.checkpoint_ns, read_body(checkpoint).versions
    parents = {one.key.checkpoint_id: one.parent_checkpoint_id for one in reader.index(ns)}
    for own in reader.ancestry(ns, checkpoint.key.checkpoint_id):
        before = parents[own]
        if before is not None and before not in parents:
            return
        older = reader.store.checkpoints(
            reader.thread_id, checkpoint_ns=ns, checkpoint_ids=[before] if before else [], body=True
        )
        known = next((read_body(one).versions for one in older), {})
        for name in [one for one in wanted if known.get(one) != versions[one]]:
            del wanted[name]
            yield name
        if not wanted:
            return
