"""Plans that take back one recorded operation, or carry it out again."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ckpt_backends.changes.change import Change
from ckpt_backends.errors import Refused
from ckpt_backends.model import CheckpointKey
from ckpt_cli.core.forking.checkpoint_copy import FROM
from ckpt_cli.core.state import read_metadata
from ckpt_cli.plans.root_branch import heads_of
from ckpt_cli.threads.thread import ThreadReader


def change_now(reader: ThreadReader, change: Change) -> Change:
    """Return a recorded change with the thread's present heads.

    Raises `Refused` with the reason if something later depends on what it removes.
    """
    removed = change.removed or {}
    if removed and (why := dependent(reader, removed)):
        raise Refused(f"cannot undo: {why}")
    return replace(change, heads=heads_of(reader))


def dependent(reader: ThreadReader, removed: Collection[CheckpointKey]) -> str:
    """Return what depends on checkpoints that are to be removed, in words; `''` if nothing does."""
    found = {one.key: one for one in reader.store.checkpoints(reader.thread_id, metadata=True)}
    ids = {key.checkpoint_id for key in removed}
    for key in removed:
        if key not in found:
            return f"checkpoint {key.checkpoint_id} is gone"
    for key, one in found.items():
        if key in removed:
            continue
        if one.parent_checkpoint_id in ids:
            return f"checkpoint {key.checkpoint_id} follows"
        if read_metadata(one).get(FROM) in ids:
            return f"checkpoint {key.checkpoint_id} is a copy of it"
    return ""
