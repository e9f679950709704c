"""What a saved plan says of a change, a thread, an item, an operation or a key, in digests."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from hashlib import scrypt, sha256
from typing import Any, Protocol

from ckpt_backends.changes.change import Change
from ckpt_backends.changes.change_records import change_record
from ckpt_backends.changes.rows import Row
from ckpt_backends.memory.protocol import ItemKey, MemoryStore
from ckpt_cli.core.copying.items import CopiedItem
from ckpt_cli.operations.steps import OperationStep, step_record
from ckpt_cli.plans.rows_digest import rows_digest
from ckpt_cli.plans.undo_operation import PlannedStep, RefusedStep


class StoredRows(Protocol):
    """A store, or an archive, with rows as stored."""

    def rows(self, thread_id: str) -> Iterator[Row]:
        """All rows of a thread."""
        ...


def change_fact(change: Change, rows: StoredRows) -> dict[str, Any]:
    """Return the digest of a change, with some facts for a reader.

    `rows` is the store as stored: what the change copies is only named in it.
    """
    sources = sorted({one.source.thread_id for one in change.copies})
    return {
        "thread_id": change.thread_id,
        "heads": dict(change.heads),
        "adds": [one.key.checkpoint_id for one in change.checkpoints],
        "removes": [key.checkpoint_id for key in change.removed or ()],
        "copies": {one: rows_digest(rows.rows(one)) for one in sources},
        "sha256": _digest(change_record(change)),
    }


def thread_fact(thread_id: str, **stores: StoredRows | None) -> dict[str, Any]:
    """Return digests of all rows that some stores have of a thread, by the given names.

    None is a store that is not made yet.
    """
    found = {
        name: None if store is None else rows_digest(store.rows(thread_id))
        for name, store in stores.items()
    }
    return {"thread_id": thread_id, **found}


def step_fact(one: PlannedStep | RefusedStep, rows: StoredRows | None) -> dict[str, Any]:
    """Return the thread of a step, what it has, and a digest of what takes the step back.

    `rows` is the store as stored; None for steps of long-term memory, which have no thread.
    """
    thread_id = one.step.thread_id
    if isinstance(one, RefusedStep):
        return {"thread_id": thread_id, "refused": True}
    back = _digest(step_record(OperationStep(thread_id, one.part, one.step.done)))
    there = {} if thread_id is None else thread_fact(thread_id, rows=rows)
    return {"thread_id": thread_id, **there, "sha256": back}


def item_fact(memory: MemoryStore, key: ItemKey) -> dict[str, Any]:
    """Return the key of an item and a digest of its rows."""
    return {"namespace": list(key.namespace), "key": key.key, "rows": rows_digest(memory.rows(key))}


def copied_fact(one: CopiedItem) -> dict[str, Any]:
    """Return what would become of an item that is copied."""
    return {
        "namespace": list(one.key.namespace),
        "key": one.key.key,
        "step": one.step.value,
        "digest": one.digest.hex(),
        "there": one.there.hex(),
        "reason": one.reason,
    }


def key_fact(salt: str, key: bytes | None) -> str | None:
    """Return a digest of a key, which takes long to guess from."""
    if key is None:
        return None
    return scrypt(key, salt=salt.encode(), n=1 << 14, r=8, p=1, dklen=16).hex()


def _digest(record: Mapping[str, Any]) -> str:
    return sha256(json.dumps(record, separators=(",", ":"), sort_keys=True).encode()).hexdigest()
