"""How long a checkpoint stays where it is of use: with its writes and its ancestors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ckpt_backends.expiry import ExpiringStore, Expiry, expiring
from ckpt_backends.model import CheckpointKey
from ckpt_backends.protocol import Store
from ckpt_cli.reading.thread import ThreadReader

_SAME = timedelta(seconds=2)
"""Savers set the times to live of what they store together one after the other."""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """When a checkpoint goes, and what goes before it."""

    at: datetime | None
    """None for one that stays."""
    writes_at: datetime | None = None
    """When its writes go, where that is earlier."""
    ancestor: str | None = None
    """The ancestor that goes first, where that is earlier."""
    ancestor_at: datetime | None = None

    @property
    def remarks(self) -> Sequence[str]:
        """What follows from it, in words."""
        found = []
        if self.writes_at is not None:
            found.append(
                "its writes expire first: what its tasks had done is then done again on a resume"
            )
        if self.ancestor is not None:
            found.append(
                f"its ancestor {self.ancestor} expires first: then there is no way back to it,"
                " and what is rebuilt from its writes is gone"
            )
        return found


def expires_at(store: Store, key: CheckpointKey) -> datetime | None:
    """When a checkpoint goes; None where it stays."""
    found = expiring(store)
    if found is None:
        return None
    own = _of(found, key, [key.checkpoint_id]).get(key.checkpoint_id)
    return None if own is None else own.at


def lifetime(reader: ThreadReader, key: CheckpointKey) -> Lifetime | None:
    """How long a checkpoint stays; None where nothing of it expires."""
    store = expiring(reader.store)
    if store is None:
        return None
    ancestors = _ancestors(reader, key)
    known = _of(store, key, [key.checkpoint_id, *ancestors])
    own = known.get(key.checkpoint_id)
    if own is None or all(one.at is None and one.writes_at is None for one in known.values()):
        return None
    times = [
        (at, name)
        for name in ancestors
        if name in known and (at := known[name].at) is not None and _is_before(at, own.at)
    ]
    first_at, first = min(times, default=(None, None))
    writes_at = own.writes_at if _is_before(own.writes_at, own.at) else None
    return Lifetime(own.at, writes_at, first, first_at)


def _of(store: ExpiringStore, key: CheckpointKey, ids: Sequence[str]) -> dict[str, Expiry]:
    found = store.expiries(key.thread_id, key.checkpoint_ns, ids)
    return {one.key.checkpoint_id: one for one in found}


def _ancestors(reader: ThreadReader, key: CheckpointKey) -> list[str]:
    """The parent, its parent, and so on."""
    index = reader.index(key.checkpoint_ns)
    parents = {one.key.checkpoint_id: one.parent_checkpoint_id for one in index}
    found: dict[str, None] = {}
    here = parents.get(key.checkpoint_id)
    while here is not None and here in parents and here not in found:
        found[here] = None
        here = parents[here]
    return list(found)


def _is_before(one: datetime | None, other: datetime | None) -> bool:
    return one is not None and (other is None or one < other - _SAME)
