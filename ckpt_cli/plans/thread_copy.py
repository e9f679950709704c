"""Plans that copy a whole thread to a new id."""

from __future__ import annotations

from dataclasses import dataclass

from ckpt_backends.changes.change import Change, CopyOfCheckpoint
from ckpt_backends.errors import Refused
from ckpt_backends.protocol import Store
from ckpt_cli.plans.root_branch import check_store
from ckpt_cli.threads.thread import ThreadReader


@dataclass(frozen=True, slots=True)
class ThreadCopyPlan:
    """The plan of a copy of a whole thread."""

    source: str
    checkpoints: int
    writes: int
    change: Change


def plan_thread_copy(reader: ThreadReader, rows: Store, new_id: str) -> ThreadCopyPlan:
    """Plan to copy all checkpoints of a thread, in all namespaces, with their writes and values.

    Raises `Refused` if rows of the new id exist, and `Unsupported`.
    """
    check_store(rows)
    check_free(rows, new_id)
    keys = [one.key for one in reader.store.checkpoints(reader.thread_id)]
    there = set(keys)
    writes = sum(one.key in there for one in reader.store.writes(reader.thread_id))
    change = Change(new_id, {}, copies=tuple(map(CopyOfCheckpoint, keys)))
    return ThreadCopyPlan(reader.thread_id, len(keys), writes, change)


def check_free(rows: Store, thread_id: str) -> None:
    """Raise `Refused` if a thread with this id exists, or orphaned rows with this id."""
    if rows.thread(thread_id) is not None:
        raise Refused(
            f"thread '{thread_id}' already exists",
            hint="choose another id for the new thread",
        )
    if any(True for _ in rows.usage(thread_id)):
        raise Refused(
            f"orphaned rows of thread '{thread_id}' exist in the store",
            hint="choose another id, or delete them: `ckpt gc --scope all`",
        )
