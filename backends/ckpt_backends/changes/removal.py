"""Removing the rows of whole threads, or of some checkpoints of a thread.

A removal records the state of the thread when it was planned; a thread that has changed since is
skipped.
"""

# Without `annotations` of `__future__`: a `NamedTuple` would compile each of these texts.
from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from ckpt_backends.model import BlobKey

MOVED = "changed since the plan was made"
GONE = "no longer exists"


class Inside(NamedTuple):
    """What to remove inside a thread; the thread itself is kept."""

    checkpoints: Mapping[str, tuple[str, ...]]
    """By namespace, the ids of the checkpoints to remove with all their writes."""
    blobs: tuple[BlobKey, ...] = ()
    """Values that no remaining checkpoint names."""


class Removal(NamedTuple):
    """What to remove from one thread, and the state of the thread that the removal expects."""

    thread_id: str
    last_at: datetime | None
    """Time of its newest checkpoint in all namespaces; None if ids contain no time."""
    checkpoints: int
    writes: int
    """Number of its writes."""
    inside: Inside | None = None
    """None to remove the whole thread."""

    def reason_to_skip(self, last_at: datetime | None, checkpoints: int, writes: int) -> str:
        """Why a thread in this state is kept; `''` if it is as it was planned."""
        if self.checkpoints and not checkpoints:
            return GONE
        as_planned = (last_at, checkpoints, writes) == (self.last_at, self.checkpoints, self.writes)
        return "" if as_planned else MOVED


class RemovalBatch(NamedTuple):
    """How much is removed in one batch, unless asked otherwise."""

    threads: int = 200
    rows: int = 5000
    """A batch ends early after this number of checkpoints and writes."""


class Removed(NamedTuple):
    """The result of a removal."""

    thread_id: str
    rows: Mapping[str, int] = {}
    """Number of removed rows, by table."""
    skipped: str = ""
    """Why the thread was skipped; `''` if it was not."""
