"""What a saved plan says of items of long-term memory."""

from __future__ import annotations

from typing import Any

from ckpt_backends.memory.protocol import ItemKey, MemoryStore
from ckpt_cli.core.copying.items import CopiedItem
from ckpt_cli.plans.rows_digest import rows_digest


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
