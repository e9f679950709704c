"""Removing rows: those of whole threads, or of some checkpoints of one.

A removal names what the thread looked like when it was planned; what has changed since then is
left alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, cast

from ckpt_backends.model import BlobKey

MOVED = "changed since the plan was made"
GONE = "no longer there"


@dataclass(frozen=True, slots=True)
class Inside:
    """What to remove of a thread that stays."""

    checkpoints: Mapping[str, tuple[str, ...]]
    """Namespace to the ids of checkpoints that go, with all of their writes."""
    blobs: tuple[BlobKey, ...] = ()
    """Values that no checkpoint that stays names."""


@dataclass(frozen=True, slots=True)
class Removal:
    """What to remove of one thread, if it is still as it was."""

    thread_id: str
    last_at: datetime | None
    """Time of its newest checkpoint over all namespaces; None where ids hold no time."""
    checkpoints: int
    writes: int
    """How many it has."""
    inside: Inside | None = None
    """None where the whole thread goes."""


@dataclass(frozen=True, slots=True)
class Removed:
    """What became of a removal."""

    thread_id: str
    rows: Mapping[str, int] = field(default_factory=dict)
    """How many rows went, by table."""
    skipped: str = ""
    """Why nothing went; `''` if it did."""


class FinishingStore(Protocol):
    """What a store has besides `WritableStore` where removed rows also stand somewhere else."""

    def finish_removal(self) -> str:
        """See `finish_removal`."""
        ...


def finish_removal(store: object) -> str:
    """Erase what removed rows left behind, such as an engine's log; call it after the last one.

    Gives what could not be erased, in words; `''` where nothing is known.
    """
    if not hasattr(store, "finish_removal"):
        return ""
    return cast("FinishingStore", store).finish_removal()
