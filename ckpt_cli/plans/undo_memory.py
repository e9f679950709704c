"""Whether items of long-term memory are as an operation left them, so that it can be taken back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ckpt_backends.changes.bundle import Bundle, check_bundle
from ckpt_backends.codec import decode, to_json
from ckpt_backends.errors import CkptError, Refused, StoreChanged
from ckpt_backends.memory.protocol import Item, ItemKey, MemoryStore, check_unchanged
from ckpt_cli.core.memory.item_filter import format_key
from ckpt_cli.operations.memory_parts import (
    ItemEdited,
    ItemsAdded,
    ItemsRemoved,
    ItemsRestored,
    MemoryPart,
)
from ckpt_cli.operations.steps import OperationStep


def item_to_take_back(memory: MemoryStore, step: OperationStep) -> Item | None:
    """Check that a step can be taken back; return the item if fields of one are to be set.

    Raises `StoreChanged` if an item was used since, and `Refused` if the archive of removed items
    is not there any more.
    """
    match step.back:
        case ItemsRemoved(items):
            found = _found(memory, [one.key for one in items])
            for one in items:
                try:
                    check_unchanged(one, found.get(one.key))
                except StoreChanged as error:
                    raise _used(one.key) from error
        case ItemsRestored() as part:
            recorded_archive(part)
        case ItemEdited(key):
            item = _found(memory, [key]).get(key)
            fields = step.done.fields if isinstance(step.done, ItemEdited) else {}
            if item is None or not _has_fields(item, fields):
                raise _used(key)
            return item
        case _:
            raise Refused("cannot undo: what it replaced was not kept")
    return None


def _used(key: ItemKey) -> StoreChanged:
    return StoreChanged(f"cannot undo: item '{format_key(key)}' was used since")


def recorded_archive(part: ItemsRestored) -> Bundle:
    """Return the archive that a step names. Raises `Refused` if it is missing or another one."""
    try:
        bundle = check_bundle(part.bundle)
    except CkptError as error:
        raise Refused(f"cannot undo: {error.message}", hint=error.hint) from error
    if bundle.digest != part.digest:
        raise Refused(
            f"cannot undo: '{part.bundle}' is not the archive that was written then",
            hint="`ckpt memory import` restores it all the same",
        )
    return bundle


def were_carried_out(memory: MemoryStore, part: MemoryPart) -> bool:
    """Return whether a store is as it is after a part was carried out."""
    match part:
        case ItemsRemoved(items):
            return not _found(memory, [one.key for one in items])
        case ItemsRestored():
            keys = {memory.key_of(row) for row in recorded_archive(part).rows()}
            return len(_found(memory, list(keys))) == len(keys)
        case ItemsAdded(keys):
            return bool(_found(memory, keys))
        case ItemEdited(key, fields):
            found = _found(memory, [key])
            return key in found and _has_fields(found[key], fields)


def _found(memory: MemoryStore, keys: Sequence[ItemKey]) -> dict[ItemKey, Item]:
    """Return those of some items that a store has, with their values."""
    found = {one.key: one for one in memory.items(keys=keys, values=True)}
    # In a file that is not in WAL mode, an open read would block the writer.
    memory.refresh()
    return found


def _has_fields(item: Item, fields: Mapping[str, Any]) -> bool:
    """Return whether the fields of an item have these values."""
    value = None if item.value is None else to_json(decode(item.value))
    if not isinstance(value, dict):
        return False
    return all(name in value and value[name] == one for name, one in fields.items())
