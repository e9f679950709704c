"""Carrying out a removal of items: first the archive, then batch by batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ckpt_backends.bundle import Header, memory_bundle_name, write_bundle
from ckpt_backends.errors import CkptError
from ckpt_backends.memory import Item, MemoryStore, WritableMemoryStore

_AT_ONCE = 500
"""Items of one transaction."""


@dataclass(frozen=True, slots=True)
class Done:
    """What became of a removal."""

    removed: int
    """Of the items planned, so many from the first on are gone."""
    stopped: CkptError | None = None
    """Why the others stay; None where none do."""


def archive_items(memory: MemoryStore, items: Sequence[Item], folder: Path, made_at: str) -> Path:
    """Write one bundle of all rows of some items. Raises `StoreUnavailable`."""
    info = memory.describe()
    path = folder / memory_bundle_name(made_at)
    header = Header(None, info.layout, "", info.url, made_at)
    write_bundle(path, header, (row for one in items for row in memory.rows(one.key)))
    return path


def remove_items(writable: WritableMemoryStore, items: Sequence[Item]) -> Done:
    """Remove items, each batch whole or not at all.

    Raises what the first batch raises; what a later one raises is a stop.
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
