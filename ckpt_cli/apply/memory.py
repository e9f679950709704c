"""Remove memory items: first write the archive, then remove batch by batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ckpt_backends.changes.bundle import Header, memory_bundle_name, write_bundle
from ckpt_backends.changes.signatures import SigningKey
from ckpt_backends.errors import CkptError
from ckpt_backends.memory.protocol import Item, MemoryStore, WritableMemoryStore

_AT_ONCE = 500
"""Maximum number of items in one transaction."""


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a removal."""

    removed: int
    """Number of items that were removed, counted from the start of the plan."""
    stopped: CkptError | None = None
    """Why the other items were not removed; None if all were."""


def archive_items(
    memory: MemoryStore,
    items: Sequence[Item],
    folder: Path,
    made_at: str,
    key: SigningKey | None,
) -> Path:
    """Write one bundle with all rows of some items, signed if there is a key.

    Raises `StoreUnavailable`.
    """
    info = memory.describe()
    path = folder / memory_bundle_name(made_at)
    header = Header(None, info.layout, "", info.url, made_at)
    write_bundle(path, header, (row for one in items for row in memory.rows(one.key)), key)
    return path


def remove_items(writable: WritableMemoryStore, items: Sequence[Item]) -> Done:
    """Remove items; each batch is removed whole or not at all.

    If the first batch fails, its error is raised; if a later batch fails, the removal stops there.
    """
    removed = 0
    for start in range(0, len(items), _AT_ONCE):
        try:
            removed += writable.remove(items[start : start + _AT_ONCE])
        except CkptError as error:
            if not removed:
                raise
            return Done(removed, error)
    return Done(removed)
