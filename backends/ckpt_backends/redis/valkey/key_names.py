"""The names of the keys of ValkeySaver. Needs no driver."""

from __future__ import annotations

from ckpt_backends.model import CheckpointKey
from ckpt_backends.redis.engine.keyspace import text

WRITES, THREADS = "writes", "thread"
"""The kinds of the keys of writes and of lists, and their beginnings."""


def key_of(name: bytes, thread_id: str | None) -> CheckpointKey | None:
    """The checkpoint of a key `KIND:{THREAD}:NS:ID`; None if it has another form.

    `thread_id` is what the checkpoint says. It is used if the key can be read that way; otherwise
    the thread ends at the last `}:`, since namespaces do not contain it.
    """
    place, colon, own = text(name.partition(b"{")[2]).rpartition(":")
    if not colon:
        return None
    if thread_id is not None and place.startswith(f"{thread_id}}}:"):
        return CheckpointKey(thread_id, place[len(thread_id) + 2 :], own)
    thread, mark, ns = place.rpartition("}:")
    return CheckpointKey(thread, ns, own) if mark else None
