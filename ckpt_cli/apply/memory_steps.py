"""Takes back what an operation did to items of long-term memory, and tells whether it was done."""

from __future__ import annotations

from ckpt_backends.changes.bundle import Bundle, check_bundle
from ckpt_backends.codec import decode, to_json
from ckpt_backends.errors import Refused, StoreChanged
from ckpt_backends.memory.protocol import Item, ItemKey, MemoryStore
from ckpt_backends.open_for_writing import open_editable_memory, open_writable_memory
from ckpt_backends.registry import open_memory
from ckpt_backends.url import StoreUrl
from ckpt_cli.apply.writable import refuse_copy
from ckpt_cli.core.memory.item_filter import format_key
from ckpt_cli.operations.memory_parts import (
    ItemEdited,
    ItemsAdded,
    ItemsRemoved,
    ItemsRestored,
    MemoryPart,
)
from ckpt_cli.operations.steps import OperationStep


def take_back_items(url: StoreUrl, step: OperationStep) -> str:
    """Carry out what takes a step back, all of it or nothing.

    Raises `StoreChanged` if an item was used since, and `Refused` if the archive of removed items
    is not there any more. Returns a note about removed data that could not be erased, or `''`.
    """
    refuse_copy(url)
    match step.back:
        case ItemsRemoved(items):
            with open_writable_memory(url) as writable:
                writable.remove(items)
                return writable.finish_removal()
        case ItemsRestored() as part:
            bundle = recorded_archive(part)
            with open_writable_memory(url) as writable:
                writable.restore(bundle.rows())
        case ItemEdited() as part:
            _edit_back(url, part, step.done)
        case _:
            raise Refused("it cannot be taken back")
    return ""


def recorded_archive(part: ItemsRestored) -> Bundle:
    """Return the archive that a step names. Raises `Refused` if it is another one by now."""
    bundle = check_bundle(part.bundle)
    if bundle.digest != part.digest:
        raise Refused(f"the archive '{part.bundle}' is not the one that was written then")
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
            return bool(_found(memory, list(keys)))
        case ItemEdited(key, fields):
            found = _found(memory, [key])
            return key in found and _has_fields(found[key], fields)


def _edit_back(url: StoreUrl, back: ItemEdited, done: object) -> None:
    with open_memory(url) as memory:
        item = _found(memory, [back.key]).get(back.key)
    if item is None or not (isinstance(done, ItemEdited) and _has_fields(item, done.fields)):
        raise StoreChanged(f"item '{format_key(back.key)}' changed since")
    with open_editable_memory(url) as writable:
        writable.edit(item, back.fields)


def _found(memory: MemoryStore, keys: list[ItemKey]) -> dict[ItemKey, Item]:
    """Return those of some items that a store has, with their values."""
    found = {one.key: one for one in memory.items(keys=keys, values=True)}
    memory.refresh()
    return found


def _has_fields(item: Item, fields: object) -> bool:
    """Return whether the fields of an item have these values."""
    value = None if item.value is None else to_json(decode(item.value))
    if not isinstance(value, dict) or not isinstance(fields, dict):
        return False
    return all(name in value and value[name] == one for name, one in fields.items())
