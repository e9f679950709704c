"""The names of the keys of hashes. Needs no driver, because the names may come from an archive."""

from __future__ import annotations

import re

from ckpt_backends.model import CheckpointKey
from ckpt_backends.redis.engine.keyspace import CALL, CHECKPOINT, text

DOLLAR, COLON = "$", ":"
WRITES = "writes"
"""The kind of the keys of writes, and their beginning."""
_CALLS = re.compile(rf"(.*?):({CALL})", re.DOTALL)
"""Thread, colon, and the namespace of a subgraph's call. Such a namespace contains colons."""
_IDX = re.compile(r"-?\d+")


def parsed_checkpoint(name: bytes, separator: str) -> CheckpointKey | None:
    """Parse the key of a checkpoint. A thread id may contain the separator, an id never."""
    return _place(text(name)[len(CHECKPOINT + separator) :], separator)


def parsed_write(name: bytes, separator: str) -> tuple[CheckpointKey, str, int] | None:
    """The checkpoint, task id and idx in the key of a write."""
    parts = text(name)[len(WRITES + separator) :].rsplit(separator, 2)
    if len(parts) != 3 or not _IDX.fullmatch(parts[2]):
        return None
    key = _place(parts[0], separator)
    return None if key is None else (key, parts[1], int(parts[2]))


def _place(rest: str, separator: str) -> CheckpointKey | None:
    place, mark, checkpoint_id = rest.rpartition(separator)
    if not mark:
        return None
    if separator == COLON and (found := _CALLS.fullmatch(place)):
        return CheckpointKey(found[1], found[2], checkpoint_id)
    thread_id, mark, ns = place.rpartition(separator)
    return CheckpointKey(thread_id, ns, checkpoint_id) if mark else None
