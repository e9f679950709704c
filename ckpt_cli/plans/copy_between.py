"""Plan to copy threads to another store: what the target has of each, and what is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from ckpt_backends.changes.rows import Row
from ckpt_backends.protocol import Store
from ckpt_backends.transfer.convert import Conversion
from ckpt_backends.transfer.digests import PartsSum, StoredParts, key_digest, part_digest
from ckpt_backends.transfer.errors import CannotHold
from ckpt_backends.transfer.parts import CheckpointPart, Part, ValuePart
from ckpt_backends.transfer.routes import parts_of_rows
from ckpt_cli.core.copying.outcomes import CopiedThread, CopyStep
from ckpt_cli.core.copying.part_counts import PartCounts


class RowSource(Protocol):
    """Where the rows of threads come from: a store, or an archive."""

    def rows(self, thread_id: str) -> Iterator[Row]:
        """All rows of a thread."""
        ...

    def refresh(self) -> None:
        """Make later reads see later changes."""
        ...


@dataclass(frozen=True, slots=True)
class CopySides:
    """Both stores of a copy, with the conversion between them."""

    source: RowSource
    """With rows as stored: neither decrypted nor redacted."""
    source_layout: str
    target: Store | None
    """None if it is not made yet."""
    target_layout: str
    conversion: Conversion
    watch: Callable[[int], None] = lambda _: None
    """Is told the number of bytes of each row that was read from the source."""

    def converted(self, thread_id: str) -> Iterator[Part]:
        """Yield the parts of a thread in the form of the target. Raises `CannotHold`."""
        rows = self._watched(self.source.rows(thread_id))
        yield from self.conversion.of_thread(parts_of_rows(self.source_layout, rows))

    def stored(self, thread_id: str) -> Iterator[Part]:
        """Yield the parts of a thread that the target has."""
        if self.target is None:
            return
        yield from parts_of_rows(self.target_layout, self.target.rows(thread_id))

    def _watched(self, rows: Iterable[Row]) -> Iterator[Row]:
        for row in rows:
            self.watch(sum(len(c) for c in row.cells.values() if isinstance(c, bytes | str)))
            yield row

    def heads(self, thread_id: str) -> dict[str, str]:
        """Return, by namespace, the newest checkpoint that the target has of a thread."""
        heads: dict[str, str] = {}
        for one in () if self.target is None else self.target.checkpoints(thread_id):
            heads.setdefault(one.key.checkpoint_ns, one.key.checkpoint_id)
        return heads


@dataclass(slots=True)
class ThreadComparison:
    """A thread of the source compared with what the target has of it."""

    thread_id: str
    step: CopyStep
    """`REPLACE` if the target went its own way."""
    counts: PartCounts
    """Of the thread in the source, as the target stores it."""
    total: PartsSum
    """The sum that the target has to have in the end."""
    missing: set[bytes]
    """The digests of the keys of missing parts."""
    reason: str
    """How the target has gone its own way."""
    heads: dict[str, str]
    """By namespace, the newest checkpoint in the target."""
    kept: PartCounts
    """What the target has of the thread now."""


def is_in_target(sides: CopySides, thread_id: str) -> bool:
    """Return whether the target has any row of a thread."""
    return sides.target is not None and any(True for _ in sides.target.rows(thread_id))


def compare_thread(sides: CopySides, thread_id: str) -> ThreadComparison:
    """Compare a thread with what the target has of it. Raises `CannotHold`."""
    stored, kept = StoredParts(), PartCounts()
    for part in sides.stored(thread_id):
        kept.add(part)
        stored.add(part)
    left = dict(stored.digests)
    counts, total = PartCounts(), PartsSum()
    missing: set[bytes] = set()
    conflict = ""
    for part in sides.converted(thread_id):
        key, digest = key_digest(part), part_digest(part)
        counts.add(part)
        total.add(part, digest)
        known = left.pop(key, None)
        if known is None:
            missing.add(key)
        elif known != digest and not conflict:
            conflict = f"{_words(part)} differs"
    if left and not conflict:
        conflict = f"it has {len(left)} rows that the source does not have"
    step = CopyStep.ADD if missing else CopyStep.PRESENT
    if conflict:
        step = CopyStep.REPLACE
    elif not stored.digests:
        step = CopyStep.COPY
    heads = sides.heads(thread_id) if stored.digests else {}
    return ThreadComparison(thread_id, step, counts, total, missing, conflict, heads, kept)


def planned_copy(sides: CopySides, thread_id: str, *, replace: bool) -> CopiedThread:
    """Return what would become of a thread."""
    try:
        found = compare_thread(sides, thread_id)
    except CannotHold as error:
        return CopiedThread(thread_id, CopyStep.SKIP, reason=error.message)
    if found.step is CopyStep.REPLACE and not replace:
        return diverged(found)
    added = found.counts.parts if found.step is CopyStep.REPLACE else len(found.missing)
    removed = found.kept if found.step is CopyStep.REPLACE else PartCounts()
    return CopiedThread(thread_id, found.step, found.counts, added, found.reason, removed=removed)


def diverged(found: ThreadComparison) -> CopiedThread:
    """Return the outcome for a thread that the target has continued, which is left alone."""
    reason = f"the target went its own way: {found.reason}"
    return CopiedThread(found.thread_id, CopyStep.SKIP, reason=reason, is_diverged=True)


def _words(part: Part) -> str:
    match part:
        case CheckpointPart():
            return f"checkpoint '{part.key.checkpoint_id}'"
        case ValuePart():
            return f"version '{part.version}' of channel '{part.channel}'"
    return f"a write to '{part.channel}' at checkpoint '{part.key.checkpoint_id}'"
