"""Edit memory items, or remove them: first write the archive, then remove batch by batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ckpt_backends.changes.bundle import Bundle, Header, memory_bundle_name, write_bundle
from ckpt_backends.changes.signatures import SigningKey
from ckpt_backends.errors import CkptError
from ckpt_backends.memory.protocol import Item, MemoryStore
from ckpt_backends.open_for_writing import open_editable_memory, open_writable_memory
from ckpt_backends.url import StoreUrl
from ckpt_cli.apply.recording import Recording
from ckpt_cli.apply.writable import refuse_copy
from ckpt_cli.operations.memory_parts import ItemEdited, ItemsRemoved, ItemsRestored
from ckpt_cli.operations.steps import OperationStep

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
) -> Bundle:
    """Write one bundle with all rows of some items, signed if there is a key.

    Raises `StoreUnavailable`.
    """
    info = memory.describe()
    path = folder / memory_bundle_name(made_at)
    header = Header(None, info.layout, "", info.url, made_at)
    return write_bundle(path, header, (row for one in items for row in memory.rows(one.key)), key)


def remove_items(
    url: StoreUrl, items: Sequence[Item], recording: Recording, archive: Bundle | None
) -> MemoryReport:
    """Remove items; each batch is recorded first, and removed whole or not at all.

    `archive` holds all of them. If the first batch fails, its error is raised; if a later batch
    fails, the removal stops there.
    """
    refuse_copy(url)
    removed = 0
    stopped: CkptError | None = None
    with open_writable_memory(url) as writable:
        for start in range(0, len(items), _AT_ONCE):
            batch = items[start : start + _AT_ONCE]
            recording.intend([_removal_step(batch, archive)])
            try:
                removed += writable.remove(batch)
            except CkptError as error:
                recording.failed(error)
                if not removed:
                    raise
                stopped = error
                break
            recording.done()
        recording.finish("" if stopped is None else stopped.message)
        return MemoryReport(removed, stopped, writable.finish_removal())


def _removal_step(batch: Sequence[Item], archive: Bundle | None) -> OperationStep:
    back = None
    if archive is not None:
        back = ItemsRestored(archive.path.absolute(), archive.digest, len(batch))
    return OperationStep(None, ItemsRemoved(without_values(batch)), back)


def without_values(items: Iterable[Item]) -> tuple[Item, ...]:
    """Return items with what a removal compares."""
    return tuple(replace(one, value=None, vectors=()) for one in items)


def check_editable(url: StoreUrl) -> None:
    """Raise `UsageError` for a copy, and what `open_editable_memory` raises."""
    refuse_copy(url)
    open_editable_memory(url).close()


def edit_item(
    url: StoreUrl, item: Item, fields: Mapping[str, tuple[Any, Any]], recording: Recording
) -> None:
    """Set fields of an item, each given as (before, after), and record that.

    Raises `StoreChanged` if the item is no longer as it was read.
    """
    refuse_copy(url)
    before = {name: was for name, (was, _) in fields.items()}
    after = {name: new for name, (_, new) in fields.items()}
    # A field that was not there cannot be taken away again.
    back = None if None in before.values() else ItemEdited(item.key, before)
    with open_editable_memory(url) as writable:
        recording.intend([OperationStep(None, ItemEdited(item.key, after), back)])
        writable.edit(item, after)
