"""When stored checkpoints expire, in stores with times to live."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, cast

from ckpt_backends.model import CheckpointKey
from ckpt_backends.protocol import Store
from ckpt_backends.wrapper import WrappedStore


@dataclass(frozen=True, slots=True)
class Expiry:
    """When a checkpoint and its writes expire; None if they do not."""

    key: CheckpointKey
    at: datetime | None
    writes_at: datetime | None
    """When the first of its writes expires."""


class ExpiringStore(Protocol):
    """A store whose keys expire one by one."""

    def expiries(
        self, thread_id: str, checkpoint_ns: str, checkpoint_ids: Collection[str]
    ) -> Iterator[Expiry]:
        """The expiry of each of these checkpoints, without missing ones.

        Reading it does not extend a time to live.
        """
        ...


def expiring(store: Store) -> ExpiringStore | None:
    """The store without its wrappers; None if its keys never expire."""
    while isinstance(store, WrappedStore):
        store = store.inner
    return cast("ExpiringStore", store) if hasattr(store, "expiries") else None
