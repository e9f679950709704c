"""Takes back what an operation did to items of long-term memory."""

from __future__ import annotations

from ckpt_backends.errors import Refused
from ckpt_backends.open_for_writing import open_editable_memory, open_writable_memory
from ckpt_backends.registry import open_memory
from ckpt_backends.url import StoreUrl
from ckpt_cli.apply.writable import refuse_copy
from ckpt_cli.operations.memory_parts import ItemEdited, ItemsRemoved, ItemsRestored
from ckpt_cli.operations.steps import OperationStep
from ckpt_cli.plans.undo_memory import item_to_take_back, recorded_archive


def take_back_items(url: StoreUrl, step: OperationStep) -> str:
    """Carry out what takes a step back, all of it or nothing.

    Raises `StoreChanged` if an item was used since, and `Refused` if the archive of removed items
    is not there any more. Returns a note about removed data that could not be erased, or `''`.
    """
    refuse_copy(url)
    with open_memory(url) as memory:
        item = item_to_take_back(memory, step)
    match step.back:
        case ItemsRemoved(items):
            with open_writable_memory(url) as writable:
                writable.remove(items)
                return writable.finish_removal()
        case ItemsRestored() as part:
            with open_writable_memory(url) as writable:
                writable.restore(recorded_archive(part).rows())
        case ItemEdited(_, fields) if item is not None:
            with open_editable_memory(url) as editable:
                editable.edit(item, fields)
        case _:
            raise Refused("cannot undo: what it replaced was not kept")
    return ""
