"""Removing the rows of whole threads, or of some checkpoints of a thread.

A removal records the state of the thread when it was planned; a thread that has changed since is
skipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, cast

from ckpt_backends.model import BlobKey

MOVED = "changed since the plan was made"
GONE = "no longer exists"


@dataclass(frozen=True, slots=True)
class Inside:
    """What to remove from a thread that is kept."""

    checkpoints: Mapping[str, tuple[str, ...]]
    """By namespace, the ids of checkpoints to remove with all their writes."""
    blobs: tuple[BlobKey, ...] = ()
    """Values that no remaining checkpoint names."""


@dataclass(frozen=True, slots=True)
class Removal:
    """What to remove of one thread, unless it has changed."""

    thread_id: str
    last_at: datetime | None
    """Time of its newest checkpoint over all namespaces; None where ids hold no time."""
    checkpoints: int
    writes: int
    """Number of its writes."""
    inside: Inside | None = None
    """None to remove the whole thread."""


@dataclass(frozen=True, slots=True)
class Removed:
    """The result of a removal."""

    thread_id: str
    rows: Mapping[str, int] = field(default_factory=dict)
    """Number of removed rows, by table."""
    skipped: str = ""
    """Why nothing was removed; `''` if it was."""


class FinishingStore(Protocol):
    """A `WritableStore` whose removed rows may still be found in another place, such as a log."""

    def finish_removal(self) -> str:
        """See `finish_removal`."""
        ...


def finish_removal(store: object) -> str:
    """Erase what removed rows left behind, such as an engine's log; call it after all removals.

    Returns a note about what could not be erased, or `''`.
    """
    if not hasattr(store, "finish_removal"):
        return ""
    return cast("FinishingStore", store).finish_removal()
