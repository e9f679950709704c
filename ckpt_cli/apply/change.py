"""Apply the change of a rollback, fork, undo, repair or copy."""

from __future__ import annotations

from collections.abc import Iterable

from ckpt_backends.changes.change import Change
from ckpt_backends.protocol import Store
from ckpt_backends.url import StoreUrl
from ckpt_cli.apply.writable import writable_store


def apply_change(url: StoreUrl, change: Change, readers: Iterable[Store] = ()) -> str:
    """Apply a change in one transaction. Raises what `WritableStore.apply` raises.

    Returns a note about removed data that could not be erased, or `''`.
    """
    with writable_store(url, readers) as writable:
        writable.apply(change)
        return writable.finish_removal() if change.removed else ""
