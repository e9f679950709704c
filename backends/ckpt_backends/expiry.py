"""When stored checkpoints go by themselves, in stores that let them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, cast

from ckpt_backends.model import CheckpointKey
from ckpt_backends.protocol import Store
from ckpt_backends.wrapped import WrappedStore


@dataclass(frozen=True, slots=True)
class Expiry:
    """When a checkpoint and its writes go; None for what stays."""

    key: CheckpointKey
    at: datetime | None
    writes_at: datetime | None
    """When the first of its writes goes."""


class ExpiringStore(Protocol):
    """What a store has besides `Store` where keys expire one by one."""

    def expiries(
        self, thread_id: str, checkpoint_ns: str, checkpoint_ids: Collection[str]
    ) -> Iterator[Expiry]:
        """Of each of these checkpoints that is there. Asking extends no time to live."""
        ...


def expiring(store: Store) -> ExpiringStore | None:
    """The store itself, where what it holds may expire."""
    while isinstance(store, WrappedStore):
        store = store.inner
    return cast("ExpiringStore", store) if hasattr(store, "expiries") else None
