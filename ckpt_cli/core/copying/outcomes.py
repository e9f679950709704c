"""What became of each thread that was to be copied."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from ckpt_cli.core.copying.part_counts import PartCounts

MOST_LISTED = 100
"""Threads that are listed one by one. Skipped ones are listed all, with the reason."""


class CopyStep(StrEnum):
    """What is done with a thread."""

    COPY = "copy"
    """The target has nothing of it."""
    ADD = "add"
    """The target has a part of it, and nothing else."""
    PRESENT = "present"
    """The target has all of it."""
    REPLACE = "replace"
    """The target went its own way; its thread is removed first."""
    SKIP = "skip"


@dataclass(slots=True)
class CopiedThread:
    """What became of one thread, or what would."""

    thread_id: str
    step: CopyStep
    counts: PartCounts = field(default_factory=PartCounts)
    """Of the whole thread."""
    added: int = 0
    """Parts that were added."""
    reason: str = ""
    """Why it is skipped or replaced."""
    is_diverged: bool = False
    """Whether the target has gone its own way."""
    is_verified: bool = False
    """Whether the target was read back and is equal."""
    removed: PartCounts = field(default_factory=PartCounts)
    """What the target has of a thread that is replaced."""
    unexpiring: int = 0
    """Parts that expire in the source, and never in the target."""

    @property
    def is_changed(self) -> bool:
        """Whether the target has other rows of the thread than before."""
        return self.step not in {CopyStep.PRESENT, CopyStep.SKIP}


@dataclass(slots=True)
class CopyReport:
    """What became of all threads."""

    source: str
    """URL without a password."""
    target: str
    is_dry_run: bool
    listed: list[CopiedThread] = field(default_factory=list)
    """The first threads to which something was added, in order."""
    skipped: list[CopiedThread] = field(default_factory=list)
    """The threads that were not copied."""
    replaced: list[str] = field(default_factory=list)
    """The ids of threads of the target that were removed first."""
    changed: int = 0
    """Threads to which something was added."""
    number: int = 0
    """Threads that the target has whole."""
    counts: PartCounts = field(default_factory=PartCounts)
    """Of these threads."""
    added: int = 0
    """Parts that were added."""
    unverified: int = 0
    unexpiring: int = 0
    """Parts that expire in the source, and never in the target."""

    def add(self, one: CopiedThread) -> None:
        """Add what became of a thread."""
        if one.step is CopyStep.SKIP:
            self.skipped.append(one)
            return
        if one.step is CopyStep.REPLACE:
            self.replaced.append(one.thread_id)
        if one.is_changed:
            self.changed += 1
            if len(self.listed) < MOST_LISTED:
                self.listed.append(one)
        self.number += 1
        self.counts.add_all(one.counts)
        self.added += one.added
        self.unverified += not one.is_verified
        self.unexpiring += one.unexpiring

    @property
    def is_begun(self) -> bool:
        """Whether anything is known of any thread."""
        return bool(self.number or self.skipped)

    @property
    def present(self) -> int:
        """Parts that were in the target before."""
        return self.counts.parts - self.added

    @property
    def is_verified(self) -> bool:
        """Whether all threads that were copied were read back and are equal."""
        return not self.is_dry_run and not self.unverified
