"""Copying a thread as it is, to another id."""

from __future__ import annotations

from dataclasses import dataclass

from ckpt_backends.change import Change, CopyOfCheckpoint
from ckpt_backends.errors import Refused
from ckpt_backends.protocol import Store
from ckpt_cli.reading.rollback import check_store
from ckpt_cli.reading.thread import ThreadReader


@dataclass(frozen=True, slots=True)
class Copied:
    """A thread that is to be copied whole."""

    source: str
    checkpoints: int
    writes: int
    change: Change


def plan_copy(reader: ThreadReader, rows: Store, new_id: str) -> Copied:
    """Copy all checkpoints of a thread, in all namespaces, with their writes and values.

    Raises `Refused` where rows of the new id are there already, and `Unsupported`.
    """
    check_store(rows)
    check_free(rows, new_id)
    keys = [one.key for one in reader.store.checkpoints(reader.thread_id)]
    there = set(keys)
    writes = sum(one.key in there for one in reader.store.writes(reader.thread_id))
    change = Change(new_id, {}, copies=tuple(map(CopyOfCheckpoint, keys)))
    return Copied(reader.thread_id, len(keys), writes, change)


def check_free(rows: Store, thread_id: str) -> None:
    """Raise `Refused` where a thread of that id is there, or rows of one are left over."""
    if rows.thread(thread_id) is not None:
        raise Refused(
            f"thread '{thread_id}' is there already",
            hint="give --to the name of a thread that is not; `ckpt rollback` stays in the thread",
        )
    if any(True for _ in rows.usage(thread_id)):
        raise Refused(
            f"rows of a thread '{thread_id}' are left over, without its checkpoints",
            hint="give --to another name, or remove them with `ckpt gc`",
        )
