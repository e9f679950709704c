"""Edit memory items, or remove them: first write the archive, then remove batch by batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ckpt_backends.changes.bundle import Header, memory_bundle_name, write_bundle
from ckpt_backends.changes.signatures import SigningKey
from ckpt_backends.errors import CkptError
from ckpt_backends.memory.protocol import Item, MemoryStore
from ckpt_backends.open_for_writing import open_editable_memory, open_writable_memory
from ckpt_backends.url import StoreUrl
from ckpt_cli.apply.writable import refuse_copy

_AT_ONCE = 500
"""Maximum number of items in one transaction."""


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """The result of a removal of memory items."""

    removed: int
    """Number of items that were removed, counted from the start of the plan."""
    stopped: CkptError | None = None
    """Why the other items were not removed; None if all were."""
    not_erased: str = ""
    """A note about removed data that could not be erased."""


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


def remove_items(url: StoreUrl, items: Sequence[Item]) -> MemoryReport:
    """Remove items; each batch is removed whole or not at all.

    If the first batch fails, its error is raised; if a later batch fails, the removal stops there.
    """
    refuse_copy(url)
    removed = 0
    stopped: CkptError | None = None
    with open_writable_memory(url) as writable:
        for start in range(0, len(items), _AT_ONCE):
            try:
                removed += writable.remove(items[start : start + _AT_ONCE])
            except CkptError as error:
                if not removed:
                    raise
                stopped = error
                break
        return MemoryReport(removed, stopped, writable.finish_removal())


def check_editable(url: StoreUrl) -> None:
    """Raise `UsageError` for a copy, and what `open_editable_memory` raises."""
    refuse_copy(url)
    open_editable_memory(url).close()


def edit_item(url: StoreUrl, item: Item, fields: Mapping[str, Any]) -> None:
    """Set fields of an item. Raises `StoreChanged` if it is no longer as it was read."""
    refuse_copy(url)
    with open_editable_memory(url) as writable:
        writable.edit(item, fields)
