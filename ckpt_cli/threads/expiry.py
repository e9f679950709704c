"""Find out how long a checkpoint remains usable, with its writes and ancestors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ckpt_backends.model import CheckpointKey, Expiry
from ckpt_backends.protocol import Store
from ckpt_cli.threads.thread import ThreadReader

_SAME = timedelta(seconds=2)
"""Savers set the expiry of rows that belong together one after the other, so small gaps are
ignored.
"""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """When a checkpoint expires, and what expires before it."""

    at: datetime | None
    """None if the checkpoint does not expire."""
    writes_at: datetime | None = None
    """When its writes expire, if that is earlier."""
    ancestor: str | None = None
    """The ancestor that expires first, if that is earlier."""
    ancestor_at: datetime | None = None

    @property
    def remarks(self) -> Sequence[str]:
        """The consequences, as sentences for the user."""
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


def lifetime(reader: ThreadReader, key: CheckpointKey) -> Lifetime | None:
    """Return how long a checkpoint remains usable; None if nothing of it expires."""
    if not reader.store.keys_expire:
        return None
    ancestors = reader.ancestry(key.checkpoint_ns, key.checkpoint_id)[1:]
    known = _of(reader.store, key, [key.checkpoint_id, *ancestors])
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


def _of(store: Store, key: CheckpointKey, ids: Sequence[str]) -> dict[str, Expiry]:
    found = store.expiries(key.thread_id, key.checkpoint_ns, ids)
    return {one.key.checkpoint_id: one for one in found}


def _is_before(one: datetime | None, other: datetime | None) -> bool:
    return one is not None and (other is None or one < other - _SAME)
