"""What became of threads and items that were copied, rekeyed, or would be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Generic, TypeVar

from ckpt_backends.codec import decode, to_json
from ckpt_backends.errors import PartlyDone, Refused, Unsupported
from ckpt_backends.memory import ItemKey
from ckpt_backends.model import NULL_TASK_ID, Record
from ckpt_backends.transfer.copying import RecordsSum, record_key
from ckpt_backends.transfer.sealing import RekeyCounts
from ckpt_cli.core.memory import format_key
from ckpt_cli.core.state import RESUME


def went_on(old: Iterable[Record], new: Iterable[Record], *, has_more: bool) -> bool:
    """Return whether the new writes replace the old ones because their thread went on.

    That is so if no answer of a task changed, and there are more of them, or `has_more` rows.
    """
    answers = {
        record_key(record): to_json(decode(record.value)) for record in old if _is_answers(record)
    }
    for record in filter(_is_answers, new):
        before, now = answers.get(record_key(record)), to_json(decode(record.value))
        if not (isinstance(before, list) and isinstance(now, list)):
            return False
        if now[: len(before)] != before:
            return False
        has_more |= len(now) > len(before)
    return has_more


def _is_answers(write: Record) -> bool:
    """Whether a write holds the answers that a task was given."""
    return write.channel == RESUME and write.task_id != NULL_TASK_ID


MOST_LISTED = 100
"""Threads that are listed one by one. Skipped ones are listed all, with the reason."""


class CopyStep(StrEnum):
    """What is done with a thread or an item."""

    COPY = "copy"
    """The target has nothing of it."""
    ADD = "add"
    """The target has a part of it, and nothing else."""
    PRESENT = "present"
    """The target has all of it."""
    REPLACE = "replace"
    """The target has another one, which is removed first."""
    SKIP = "skip"


@dataclass
class CopiedThread:
    """What became of one thread, or what would."""

    thread_id: str
    step: CopyStep
    counts: RecordsSum = field(default_factory=RecordsSum)
    """Of the whole thread."""
    added: int = 0
    """Parts that were added."""
    reason: str = ""
    """Why it is skipped or replaced."""
    is_different: bool = False
    """Whether the target has gone its own way."""
    is_verified: bool = False
    """Whether the target was read back and is equal."""
    removed: RecordsSum = field(default_factory=RecordsSum)
    """What the target has of a thread that is replaced."""
    unexpiring: int = 0
    """Parts that expire in the source, and never in the target."""

    @property
    def name(self) -> str:
        """What a message calls it."""
        return f"thread '{self.thread_id}'"

    @property
    def is_changed(self) -> bool:
        """Whether the target has other rows of the thread than before."""
        return self.step not in {CopyStep.PRESENT, CopyStep.SKIP}


@dataclass
class CopiedItem:
    """What became of one item, or what would."""

    key: ItemKey
    step: CopyStep
    size: int = 0
    """Bytes of the value in the source."""
    vectors: int = 0
    """Vectors that the source has of it, which are not copied."""
    digest: bytes = b""
    """Of the value and the times, as the target has to store them."""
    there: bytes = b""
    """The same of another item that the target has; empty if it has none."""
    expires_at: datetime | None = None
    reason: str = ""
    """Why it is skipped or replaced."""
    is_different: bool = False
    """Whether the target has another item with this key."""
    has_expired: bool = False
    """Whether it is left out because the target's server would remove it at once."""
    is_verified: bool = False
    """Whether it was read back from the target and is equal."""

    @property
    def name(self) -> str:
        """What a message calls it."""
        return f"item '{format_key(self.key)}'"


One = TypeVar("One", CopiedThread, CopiedItem)


@dataclass
class Copied(Generic[One]):
    """What became of all threads or items."""

    source: str
    """URL without a password."""
    target: str
    is_dry_run: bool
    skipped: list[One] = field(default_factory=list)
    """Those that were not copied."""
    replaced: list[One] = field(default_factory=list)
    """Those that replaced another one of the target."""
    number: int = 0
    """Those that the target has whole."""
    added: int = 0
    """Parts of threads that were added, or items."""
    unverified: int = 0

    def add(self, one: One) -> bool:
        """Add what became of one. Returns whether the target has it whole."""
        if one.step is CopyStep.SKIP:
            self.skipped.append(one)
            return False
        if one.step is CopyStep.REPLACE:
            self.replaced.append(one)
        self.number += 1
        self.unverified += not one.is_verified
        return True

    @property
    def is_verified(self) -> bool:
        """Whether all that was copied was read back and is equal."""
        return not self.is_dry_run and not self.unverified

    def raise_skipped(self, noun: str, verb: str) -> None:
        """Raise the error that tells about skipped ones, if there are any.

        `verb` tells what --replace does to what the target has.
        """
        if not self.skipped:
            return
        first, number = self.skipped[0], len(self.skipped)
        reason = f"{first.name}: {first.reason}"
        if self.number:
            raise PartlyDone(f"{number} {noun}{'' if number == 1 else 's'} skipped; {reason}")
        if first.is_different:
            raise Refused(
                f"nothing was copied; {reason}",
                hint=f"see what --replace would {verb}: add --replace --dry-run",
            )
        raise Unsupported(f"nothing was copied; {reason}")


@dataclass
class CopyReport(Copied[CopiedThread]):
    """What became of all threads."""

    listed: list[CopiedThread] = field(default_factory=list)
    """The first threads to which something was added, in order."""
    changed: int = 0
    """Threads to which something was added."""
    counts: RecordsSum = field(default_factory=RecordsSum)
    """Of the threads that the target has."""
    unexpiring: int = 0
    """Parts that expire in the source, and never in the target."""

    def add(self, one: CopiedThread) -> bool:
        """Add what became of a thread."""
        is_there = super().add(one)
        if is_there:
            if one.is_changed:
                self.changed += 1
                if len(self.listed) < MOST_LISTED:
                    self.listed.append(one)
            self.counts.add_all(one.counts)
            self.added += one.added
            self.unexpiring += one.unexpiring
        return is_there

    @property
    def present(self) -> int:
        """Parts that were in the target before."""
        return self.counts.records - self.added


@dataclass
class MemoryCopyReport(Copied[CopiedItem]):
    """What became of all items."""

    items: list[CopiedItem] = field(default_factory=list)
    """Those that are not merely present, in order."""
    bytes: int = 0
    """Of the items that the target has."""
    expired: int = 0
    """Items that were left out because they have expired."""
    embedded: int = 0
    """Items among those of the target whose vectors were not copied."""

    def add(self, one: CopiedItem) -> bool:
        """Add what became of an item."""
        if one.has_expired:
            self.expired += 1
            return False
        if one.step is not CopyStep.PRESENT:
            self.items.append(one)
        is_there = super().add(one)
        if is_there:
            self.bytes += one.size
            if one.step is not CopyStep.PRESENT:
                self.added += 1
                self.embedded += one.vectors > 0
        return is_there

    @property
    def present(self) -> int:
        """Items that were in the target before."""
        return self.number - self.added


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
