"""Copy threads to another store, and read them back.

Small threads are converted first and added several at a time in one transaction. A large thread is
converted while it is added, in a transaction of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from ckpt_backends.changes.removal import Removal
from ckpt_backends.errors import StoreChanged, Unreadable
from ckpt_backends.protocol import Store, WritableStore
from ckpt_backends.transfer.convert import Conversion
from ckpt_backends.transfer.digests import PartsSum, key_digest, part_digest, stored_digest
from ckpt_backends.transfer.errors import CannotHold
from ckpt_backends.transfer.parts import Arrival, Part
from ckpt_cli.core.copying.outcomes import CopiedThread, CopyStep
from ckpt_cli.core.copying.part_counts import PartCounts
from ckpt_cli.plans.copy_between import CopySides, compare_thread, diverged, equal_counts

_BATCH_BYTES = 8 << 20
"""Converted parts in memory; a thread with more is streamed."""
_BATCH_THREADS = 200


class ThreadCopier:
    """Copies threads from one store to another."""

    def __init__(
        self, sides: CopySides, target: Store, writable: WritableStore, *, replace: bool
    ) -> None:
        """`target` reads what `writable` writes."""
        self._sides = sides
        self._target = target
        self._writable = writable
        self._replace = replace

    def copy(self, thread_ids: Sequence[str]) -> Iterator[CopiedThread]:
        """Copy some threads; yield what became of each, in any order.

        Raises the errors of the stores, but not those of a single thread.
        """
        batch: list[_Converted] = []
        size = 0
        self._refresh()
        there = self._target.threads_with_rows(thread_ids)
        stored = self._sides.stored_together([one for one in thread_ids if one in there])
        for thread_id, parts in self._sides.read_together(thread_ids):
            try:
                if thread_id in there:
                    one = self._continued(thread_id, parts, next(stored)[1])
                else:
                    one = self._new(thread_id, parts)
            except CannotHold as error:
                yield CopiedThread(thread_id, CopyStep.SKIP, reason=error.message)
                continue
            if isinstance(one, CopiedThread):
                yield one
                continue
            if batch and (one.rest is not None or size + one.counts.bytes > _BATCH_BYTES):
                yield from self._deliver(batch)
                batch, size = [], 0
            batch.append(one)
            size += one.counts.bytes
            if one.rest is not None or len(batch) >= _BATCH_THREADS:
                yield from self._deliver(batch)
                batch, size = [], 0
        if batch:
            yield from self._deliver(batch)
        # While this process waits for its next threads, others write.
        self._refresh()

    def _new(self, thread_id: str, parts: Iterable[Part] | None = None) -> _Converted:
        """Convert a thread, or its first part if it is large."""
        converted = self._sides.converted(thread_id, parts)
        return _Converted.of(thread_id, converted, self._sides.conversion)

    def _continued(
        self, thread_id: str, parts: Sequence[Part] | None, stored: Sequence[Part] | None
    ) -> _Converted | CopiedThread:
        """Convert what the target does not have of a thread; or say why it is not copied.

        `parts` is what the source has of it, and `stored` what the target has, if they are read.
        """
        counts = equal_counts(self._sides, thread_id, parts, stored)
        if counts is not None:
            return CopiedThread(thread_id, CopyStep.PRESENT, counts, is_verified=True)
        found = compare_thread(self._sides, thread_id)
        if found.step is CopyStep.PRESENT:
            return CopiedThread(thread_id, found.step, found.counts, is_verified=True)
        if found.step is CopyStep.REPLACE:
            if not (self._replace or found.is_behind):
                return diverged(found)
            self._remove(thread_id)
            made = self._new(thread_id)
            made.step, made.removed = CopyStep.REPLACE, found.kept
            return made
        missing = found.missing
        left = (part for part in self._sides.converted(thread_id) if key_digest(part) in missing)
        made = _Converted.of(thread_id, left, self._sides.conversion)
        made.step, made.heads = CopyStep.ADD, found.heads
        made.whole, made.whole_counts = found.total, found.counts
        return made

    def _remove(self, thread_id: str) -> None:
        """Remove a thread of the target that is to be replaced."""
        thread = self._target.thread(thread_id)
        last_at, checkpoints = (thread.last_at, thread.checkpoints) if thread else (None, 0)
        writes = self._target.size(thread_id).writes
        self._refresh()
        (removed,) = self._writable.remove([Removal(thread_id, last_at, checkpoints, writes)])
        if removed.skipped:
            raise StoreChanged(f"thread '{thread_id}' of the target {removed.skipped}")

    def _refresh(self) -> None:
        # In a file that is not in WAL mode, an open read would block the writer.
        self._sides.source.refresh()
        self._target.refresh()

    def _deliver(self, batch: Sequence[_Converted]) -> Iterator[CopiedThread]:
        """Add some threads in one transaction; if that fails, one by one."""
        self._target.refresh()
        try:
            self._writable.receive([one.arrival() for one in batch])
        except (StoreChanged, CannotHold) as error:
            if len(batch) == 1:
                yield self._failed(batch[0], error)
                return
            for one in batch:
                yield from self._deliver([one])
            return
        self._target.refresh()
        small = {one.thread_id: one.parts for one in batch if one.is_whole}
        unlike = self._sides.unlike(small)
        for one in batch:
            if one.thread_id in unlike or not one.is_whole:
                self._verify(one)
            yield one.copied()

    def _failed(self, one: _Converted, error: StoreChanged | CannotHold) -> CopiedThread:
        """Return the outcome for a thread that could not be added.

        An engine without transactions may have added it with others, before one of them failed.
        """
        self._target.refresh()
        if not isinstance(error, StoreChanged) or one.rest is not None:
            return CopiedThread(one.thread_id, CopyStep.SKIP, reason=error.message)
        if self._sides.stored_sum(one.thread_id, part_digest) == one.exact_sum():
            return one.copied()
        return CopiedThread(one.thread_id, CopyStep.SKIP, reason=error.message)

    def _verify(self, one: _Converted) -> None:
        """Read a thread back. Raises `Unreadable` if it is not what was sent."""
        if one.rest is not None and self._sides.stored_sum(one.thread_id, stored_digest) == one.sum:
            return
        found, wanted = self._sides.stored_sum(one.thread_id, part_digest), one.exact_sum()
        if found != wanted:
            raise Unreadable(
                f"thread '{one.thread_id}' is not the same in the target: {found.checkpoints}"
                f" checkpoints, {found.writes} writes and {found.values} values are there, of"
                f" {wanted.checkpoints}, {wanted.writes} and {wanted.values}",
                hint="the source still has it; compare both with `ckpt doctor --deep`",
            )


class _Converted:
    """A thread in the form of the target: small ones as a list, large ones with a rest to read."""

    def __init__(self, thread_id: str) -> None:
        self.thread_id = thread_id
        self.unexpiring = 0
        """Parts that expire in the source, and never in the target."""
        self.parts: list[Part] = []
        self.rest: Iterator[Part] | None = None
        self.counts = PartCounts()
        """Of the parts that were converted so far."""
        self.sum = PartsSum()
        """Of these parts, by `stored_digest`, if there is a rest."""
        self._exact = PartsSum()
        """Of the rest, by `part_digest`."""
        self.step = CopyStep.COPY
        self.removed = PartCounts()
        self.heads: dict[str, str] = {}
        self.whole: PartsSum | None = None
        """The sum of the whole thread, if only a part of it is sent."""
        self.whole_counts: PartCounts | None = None

    @classmethod
    def of(cls, thread_id: str, parts: Iterable[Part], conversion: Conversion) -> _Converted:
        """Convert a thread until it is whole or too large to keep. Raises `CannotHold`."""
        made = cls(thread_id)
        left = iter(parts)
        before = conversion.unexpiring
        for part in left:
            made.counts.add(part)
            made.parts.append(part)
            if made.counts.bytes > _BATCH_BYTES:
                made._expect(left)
                break
        made.unexpiring = conversion.unexpiring - before
        return made

    @property
    def is_whole(self) -> bool:
        """Whether `parts` is the whole thread."""
        return self.rest is None and self.whole is None

    def exact_sum(self) -> PartsSum:
        """The sum that the target has to have, by `part_digest`."""
        if self.whole is not None:
            return self.whole
        for part in self.parts:
            self._exact.add(part, part_digest(part))
        return self._exact

    def copied(self) -> CopiedThread:
        """The outcome after the thread was read back."""
        return CopiedThread(
            self.thread_id,
            self.step,
            self.whole_counts or self.counts,
            self.counts.parts,
            is_verified=True,
            removed=self.removed,
            unexpiring=self.unexpiring,
        )

    def arrival(self) -> Arrival:
        """The thread for the target, read once."""
        counted = (self._counted(part) for part in self.rest or ())
        return Arrival(self.thread_id, chain(self.parts, counted), self.heads)

    def _expect(self, rest: Iterator[Part]) -> None:
        """Remember that there is a rest, which is not kept."""
        self.rest = rest
        for part in self.parts:
            self.sum.add(part, stored_digest(part))

    def _counted(self, part: Part) -> Part:
        self.counts.add(part)
        self.sum.add(part, stored_digest(part))
        self._exact.add(part, part_digest(part))
        return part
