"""What a copy between layouts keeps, and what it reports."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from ckpt_backends.codec import decode, to_json
from ckpt_backends.memory.protocol import ItemKey
from ckpt_backends.model import NULL_TASK_ID
from ckpt_backends.transfer.form import Language
from ckpt_backends.transfer.parts import Part, ValuePart, WritePart, part_key, part_size
from ckpt_backends.transfer.rekeying import RekeyCounts
from ckpt_backends.transfer.routes import languages_of, refusal
from ckpt_cli.core.state import RESUME


def went_on(old: Iterable[WritePart], new: Iterable[WritePart], *, has_more: bool) -> bool:
    """Return whether the new writes replace the old ones because their thread went on.

    That is so if no answer of a task changed, and there are more of them, or `has_more` rows.
    """
    answers = {part_key(part): to_json(decode(part.value)) for part in old if _is_answers(part)}
    for part in filter(_is_answers, new):
        before, now = answers.get(part_key(part)), to_json(decode(part.value))
        if not (isinstance(before, list) and isinstance(now, list)):
            return False
        if now[: len(before)] != before:
            return False
        has_more |= len(now) > len(before)
    return has_more


def _is_answers(write: WritePart) -> bool:
    """Whether a write holds the answers that a task was given."""
    return write.channel == RESUME and write.task_id != NULL_TASK_ID


@dataclass(slots=True)
class PartCounts:
    """Numbers of parts, and the bytes of their values."""

    checkpoints: int = 0
    writes: int = 0
    values: int = 0
    bytes: int = 0
    newest: str = ""
    """The greatest checkpoint id."""

    def add(self, part: Part) -> None:
        """Count one part."""
        self.bytes += part_size(part)
        if isinstance(part, WritePart):
            self.writes += 1
        elif isinstance(part, ValuePart):
            self.values += 1
        else:
            self.checkpoints += 1
            self.newest = max(self.newest, part.key.checkpoint_id)

    def add_all(self, other: PartCounts) -> None:
        """Add the numbers of others."""
        self.checkpoints += other.checkpoints
        self.writes += other.writes
        self.values += other.values
        self.bytes += other.bytes
        self.newest = max(self.newest, other.newest)

    @property
    def parts(self) -> int:
        """The number of parts of all kinds."""
        return self.checkpoints + self.writes + self.values


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


@dataclass(slots=True)
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


@dataclass(slots=True)
class MemoryCopyReport:
    """What became of all items."""

    source: str
    """URL without a password."""
    target: str
    is_dry_run: bool
    items: list[CopiedItem] = field(default_factory=list)
    """Those that are not merely present, in order."""
    number: int = 0
    """Items that the target has."""
    bytes: int = 0
    """Of these items."""
    added: int = 0
    expired: int = 0
    """Items that were left out because they have expired."""
    embedded: int = 0
    """Items among those of the target whose vectors were not copied."""
    unverified: int = 0

    def add(self, one: CopiedItem) -> None:
        """Add what became of an item."""
        if one.has_expired:
            self.expired += 1
            return
        if one.step is not CopyStep.PRESENT:
            self.items.append(one)
        if one.step is CopyStep.SKIP:
            return
        self.number += 1
        self.bytes += one.size
        if one.step is not CopyStep.PRESENT:
            self.added += 1
            self.embedded += one.vectors > 0
        self.unverified += not one.is_verified

    @property
    def replaced(self) -> list[CopiedItem]:
        """The items of the target that were replaced."""
        return [one for one in self.items if one.step is CopyStep.REPLACE]

    @property
    def skipped(self) -> list[CopiedItem]:
        """The items that were not copied."""
        return [one for one in self.items if one.step is CopyStep.SKIP]

    @property
    def is_verified(self) -> bool:
        """Whether all items of the target were read back and are equal."""
        return not self.is_dry_run and not self.unverified


@dataclass(frozen=True, slots=True)
class RouteMatrix:
    """Sources by targets, for the threads of one language."""

    targets: list[str]
    """The layouts that receive threads."""
    rows: list[list[str]] = field(default_factory=list)
    """Each a source with a cell for each target: `yes`, or `no` with the number of a reason."""
    reasons: list[str] = field(default_factory=list)
    """The reasons by number."""
    closed: dict[str, list[str]] = field(default_factory=dict)
    """The layouts that receive no threads, by reason."""


def route_matrix(layouts: Iterable[str], language: Language) -> RouteMatrix:
    """Return the matrix of a language, for the layouts that may have threads of it."""
    names = [one for one in layouts if language in (languages_of(one) or (Language.PYTHON,))]
    refused = {one: {other: refusal(one, other, language) for other in names} for one in names}
    found = RouteMatrix([one for one in names if not all(refused[other][one] for other in names)])
    numbers: dict[str, int] = {}
    for one in names:
        cells = [one]
        for other in found.targets:
            reason = refused[one][other]
            number = numbers.setdefault(reason, len(numbers) + 1) if reason else 0
            cells.append(f"no ({number})" if reason else "yes")
        found.rows.append(cells)
        if one not in found.targets:
            for other in found.targets[:1]:
                found.closed.setdefault(refused[other][one], []).append(one)
    found.reasons.extend(f"{number}. {reason}" for reason, number in numbers.items())
    return found


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
