"""Restore archives, each in one transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from ckpt_backends.changes.bundle import Bundle
from ckpt_backends.changes.rows import Restored
from ckpt_backends.errors import CkptError, PartlyDone
from ckpt_backends.memory.protocol import MemoryStore
from ckpt_backends.open_for_writing import open_writable_memory
from ckpt_backends.protocol import Store, WritableStore
from ckpt_backends.registry import open_memory
from ckpt_backends.url import StoreUrl
from ckpt_cli.apply.copy_between import ThreadCopier
from ckpt_cli.apply.memory import without_values
from ckpt_cli.apply.recording import Recording
from ckpt_cli.apply.writable import refuse_copy, writable_store
from ckpt_cli.operations.memory_parts import ItemsRemoved, ItemsRestored
from ckpt_cli.operations.steps import OperationStep, RowsAdded, RowsRemoved, RowsRestored
from ckpt_cli.plans.additions import ThreadContents, contents_of, removal_of_added
from ckpt_cli.plans.archived_thread import ArchiveSides, refusing_malformed, restored_of


@dataclass(slots=True)
class RestoreReport:
    """Which archives were restored, in order."""

    done: list[tuple[Bundle, Restored]] = field(default_factory=list)
    failed: list[CkptError] = field(default_factory=list)

    @property
    def expired(self) -> int:
        """Number of rows left out because their time to live has passed."""
        return sum(restored.expired for _, restored in self.done)

    def add(self, bundle: Bundle, restore: Callable[[Bundle], Restored]) -> None:
        """Restore one archive and record the outcome."""
        try:
            self.done.append((bundle, restore(bundle)))
        except CkptError as error:
            error.message = f"cannot restore '{bundle.path}': {error.message}"
            self.failed.append(error)

    def raise_failures(self, noun: str, verb: str = "were not") -> None:
        """Raise the error if all archives failed, or `PartlyDone` if some did."""
        if self.failed and not self.done:
            raise self.failed[0]
        if self.failed:
            number = len(self.failed) + len(self.done)
            first = self.failed[0]
            raise PartlyDone(
                f"{len(self.failed)} of {number} {noun} {verb} restored: {first.message}",
                hint=first.hint,
            ) from first


def restore_threads(
    url: StoreUrl,
    bundles: Iterable[Bundle],
    rows: Store,
    sides_of: Callable[[Bundle], ArchiveSides | None],
    recording: Recording,
) -> RestoreReport:
    """Restore archived threads. Raises what `open_writable` raises.

    `rows` reads the store. `sides_of` returns None for an archive of the store's own layout, which
    is restored row for row.
    """
    report = RestoreReport()
    with writable_store(url, [rows]) as writable:

        def restore(bundle: Bundle) -> Restored:
            sides = sides_of(bundle)
            step = _Restoring(rows, bundle, is_own=sides is None)
            recording.intend([step.planned])
            try:
                if sides is None:
                    done = writable.restore(bundle.rows())
                else:
                    done = _converted(bundle, sides, writable)
            except CkptError as error:
                recording.failed(error)
                raise
            recording.came_out({step.thread_id: step.carried_out() if done.added else None})
            return done

        for one in bundles:
            report.add(one, restore)
    return report


class _Restoring:
    """The step of one archived thread."""

    def __init__(self, rows: Store, bundle: Bundle, *, is_own: bool) -> None:
        self.thread_id = bundle.header.thread_id or ""
        self._rows = rows
        self._before = contents_of(rows, self.thread_id)
        # In a file that is not in WAL mode, an open read would block the writer.
        rows.refresh()
        self.planned = OperationStep(
            self.thread_id,
            RowsRestored(bundle.path.absolute(), bundle.digest) if is_own else _added(self._before),
            None,
        )

    def carried_out(self) -> OperationStep:
        """Return the step with what takes it back, if anything does."""
        self._rows.refresh()
        try:
            back = removal_of_added(self._rows, self.thread_id, self._before)
        except Exception:
            # The thread is restored all the same, also if its cells are of types that the adapter
            # cannot read.
            back = None
        self._rows.refresh()
        return replace(self.planned, back=None if back is None else RowsRemoved(back))


def _added(before: ThreadContents) -> RowsAdded:
    return RowsAdded(len(before.checkpoints), before.number_of_writes)


def _converted(bundle: Bundle, sides: ArchiveSides, writable: WritableStore) -> Restored:
    """Restore the archive of another layout."""
    if sides.target is None:
        raise ValueError("the target is made before archives are restored")
    if sides.has_expired:
        return Restored(0, 0, bundle.size)
    copier = ThreadCopier(sides, sides.target, writable, replace=False)
    with refusing_malformed(bundle.path):
        (done,) = copier.copy([bundle.header.thread_id or ""])
    return restored_of(done)


def restore_memory(url: StoreUrl, bundles: Iterable[Bundle], recording: Recording) -> RestoreReport:
    """Restore archived memory items row for row. Raises what `open_writable_memory` raises."""
    report = RestoreReport()
    refuse_copy(url)
    with open_memory(url) as memory, open_writable_memory(url) as writable:

        def restore(bundle: Bundle) -> Restored:
            step = _RestoringItems(memory, bundle)
            recording.intend([step.planned])
            try:
                done = writable.restore(bundle.rows())
            except CkptError as error:
                recording.failed(error)
                raise
            recording.came_out({None: step.carried_out(done) if done.added else None})
            return done

        for one in bundles:
            report.add(one, restore)
    return report


class _RestoringItems:
    """The step of one archive of memory items."""

    def __init__(self, memory: MemoryStore, bundle: Bundle) -> None:
        self._memory = memory
        rows = Counter(memory.key_of(row) for row in bundle.rows())
        there = {one.key for one in memory.items(keys=list(rows))}
        # In a file that is not in WAL mode, an open read would block the writer.
        memory.refresh()
        self._missing = [key for key in rows if key not in there]
        self._rows = sum(rows[key] for key in self._missing)
        part = ItemsRestored(bundle.path.absolute(), bundle.digest, len(self._missing))
        self.planned = OperationStep(None, part, None)

    def carried_out(self, done: Restored) -> OperationStep:
        """Return the step with what takes it back, if only whole items were added."""
        if done.added != self._rows:
            return self.planned
        self._memory.refresh()
        try:
            items = without_values(self._memory.items(keys=self._missing))
        except CkptError:  # the items are restored all the same
            return self.planned
        self._memory.refresh()
        return replace(self.planned, back=ItemsRemoved(items))
