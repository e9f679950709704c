"""What became of the values of each thread whose encryption was to change."""

from __future__ import annotations

from dataclasses import dataclass, field

from ckpt_backends.transfer.rekeying import RekeyCounts


@dataclass(slots=True)
class RekeyedThread:
    """What became of one thread, or what would."""

    thread_id: str
    counts: RekeyCounts = field(default_factory=RekeyCounts)
    skipped: str = ""
    """Why it was left as it was, or why it is not finished; `''` if it is."""


@dataclass(slots=True)
class RekeyReport:
    """What became of all threads."""

    store: str
    """URL without a password."""
    is_dry_run: bool
    threads: list[RekeyedThread] = field(default_factory=list)
    """Those with values that change, and those that were skipped, in order."""
    number: int = 0
    """Threads in which all values are as they are to be."""
    counts: RekeyCounts = field(default_factory=RekeyCounts)
    """Of these threads."""

    def add(self, one: RekeyedThread) -> None:
        """Add what became of a thread."""
        if one.counts.rekeyed or one.skipped:
            self.threads.append(one)
        if not one.skipped:
            self.number += 1
            self.counts.add_all(one.counts)

    @property
    def skipped(self) -> list[RekeyedThread]:
        """The threads that were not finished."""
        return [one for one in self.threads if one.skipped]
