"""Carries out copies, restores and new encryption."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain

from ckpt_backends import errors, open_for_writing
from ckpt_backends.archive import Bundle
from ckpt_backends.changes import Removal
from ckpt_backends.declaration import backend_of
from ckpt_backends.memory import Item, ItemKey, MemoryStore, WritableMemoryStore, digest_of
from ckpt_backends.model import Record, in_chunks
from ckpt_backends.protocol import Store, WritableStore
from ckpt_backends.registry import open_memory, open_store
from ckpt_backends.rows import Restored, RowEdit
from ckpt_backends.transfer.convert import Conversion
from ckpt_backends.transfer.copying import (
    Arrival,
    RecordsSum,
    created_layout,
    key_digest,
    record_digest,
    route,
)
from ckpt_backends.transfer.form import CannotHold, Language
from ckpt_backends.transfer.sealing import RekeyCounts, Sealing
from ckpt_backends.url import StoreUrl
from ckpt_cli.apply.changes import without_values
from ckpt_cli.apply.recording import CopyRecording, Recording, refuse_copy, writable_store
from ckpt_cli.core.copying import CopiedItem, CopiedThread, CopyStep, RekeyedThread
from ckpt_cli.core.memory import format_key
from ckpt_cli.operations import log
from ckpt_cli.plans import copy
from ckpt_cli.plans.fork import contents_of, removal_of_added
from ckpt_cli.reading.executor import Executor

# Copy threads to another store, and read them back.
#
# Small threads are converted first and added several at a time in one transaction. A large thread
# is converted while it is added, in a transaction of its own.


_BATCH_BYTES = 8 << 20
"""Converted records in memory; a thread with more is streamed."""
_BATCH_THREADS = 200


class ThreadCopier:
    """Copies threads from one store to another."""

    def __init__(
        self, sides: copy.CopySides, target: Store, writable: WritableStore, *, replace: bool
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
        for thread_id, records in self._sides.read_together(thread_ids):
            try:
                if thread_id in there:
                    one = self._continued(thread_id, records, next(stored)[1])
                else:
                    one = self._new(thread_id, records)
            except CannotHold as error:
                yield CopiedThread(thread_id, CopyStep.SKIP, reason=error.message)
                continue
            if isinstance(one, CopiedThread):
                yield one
                continue
            if batch and (one.rest is not None or size + one.sum.size > _BATCH_BYTES):
                yield from self._deliver(batch)
                batch, size = [], 0
            batch.append(one)
            size += one.sum.size
            if one.rest is not None or len(batch) >= _BATCH_THREADS:
                yield from self._deliver(batch)
                batch, size = [], 0
        if batch:
            yield from self._deliver(batch)
        # While this process waits for its next threads, others write.
        self._refresh()

    def _new(self, thread_id: str, records: Iterable[Record] | None = None) -> _Converted:
        """Convert a thread, or its first part if it is large."""
        converted = self._sides.converted(thread_id, records)
        return _Converted(thread_id, converted, self._sides.conversion)

    def _continued(
        self, thread_id: str, records: Sequence[Record] | None, stored: Sequence[Record] | None
    ) -> _Converted | CopiedThread:
        """Convert what the target does not have of a thread; or say why it is not copied.

        `records` is what the source has of it, and `stored` what the target has, if they are read.
        """
        counts = copy.equal_counts(self._sides, thread_id, records, stored)
        if counts is not None:
            return CopiedThread(thread_id, CopyStep.PRESENT, counts, is_verified=True)
        found = copy.compare_thread(self._sides, thread_id)
        if found.step is CopyStep.PRESENT:
            return CopiedThread(thread_id, found.step, found.total, is_verified=True)
        if found.step is CopyStep.REPLACE:
            if not (self._replace or found.is_behind):
                return copy.diverged(found)
            self._remove(thread_id)
            made = self._new(thread_id)
            made.outcome.step, made.outcome.removed = CopyStep.REPLACE, found.kept
            return made
        missing = found.missing
        left = (
            record for record in self._sides.converted(thread_id) if key_digest(record) in missing
        )
        made = _Converted(thread_id, left, self._sides.conversion)
        made.outcome.step, made.heads, made.whole = CopyStep.ADD, found.heads, found.total
        return made

    def _remove(self, thread_id: str) -> None:
        """Remove a thread of the target that is to be replaced."""
        thread = self._target.thread(thread_id)
        last_at, checkpoints = (thread.last_at, thread.checkpoints) if thread else (None, 0)
        writes = self._target.size(thread_id).writes
        self._refresh()
        (removed,) = self._writable.remove([Removal(thread_id, last_at, checkpoints, writes)])
        if removed.skipped:
            raise errors.StoreChanged(f"thread '{thread_id}' of the target {removed.skipped}")

    def _refresh(self) -> None:
        # In a file that is not in WAL mode, an open read would block the writer.
        self._sides.source.refresh()
        self._target.refresh()

    def _deliver(self, batch: Sequence[_Converted]) -> Iterator[CopiedThread]:
        """Add some threads in one transaction; if that fails, one by one."""
        self._target.refresh()
        try:
            self._writable.receive([one.arrival() for one in batch])
        except (errors.StoreChanged, CannotHold) as error:
            if len(batch) == 1:
                yield self._failed(batch[0], error)
                return
            for one in batch:
                yield from self._deliver([one])
            return
        self._target.refresh()
        small = {one.thread_id: one.records for one in batch if one.is_whole}
        unlike = self._sides.unlike(small)
        for one in batch:
            if one.thread_id in unlike or not one.is_whole:
                self._verify(one)
            yield one.copied()

    def _failed(self, one: _Converted, error: errors.StoreChanged | CannotHold) -> CopiedThread:
        """Return the outcome for a thread that could not be added.

        An engine without transactions may have added it with others, before one of them failed.
        """
        self._target.refresh()
        if not isinstance(error, errors.StoreChanged) or one.rest is not None:
            return CopiedThread(one.thread_id, CopyStep.SKIP, reason=error.message)
        if self._stored_sum(one) == one.exact_sum():
            return one.copied()
        return CopiedThread(one.thread_id, CopyStep.SKIP, reason=error.message)

    def _verify(self, one: _Converted) -> None:
        """Read a thread back. Raises `Unreadable` if it is not what was sent."""
        found, wanted = self._stored_sum(one), one.exact_sum()
        if found != wanted:
            raise errors.Unreadable(
                f"thread '{one.thread_id}' is not the same in the target: {found.checkpoints}"
                f" checkpoints, {found.writes} writes and {found.values} values are there, of"
                f" {wanted.checkpoints}, {wanted.writes} and {wanted.values}",
                hint="the source still has it; compare both with `ckpt doctor --deep`",
            )

    def _stored_sum(self, one: _Converted) -> RecordsSum:
        """What the target has of a thread; what was there before may have its keys in any order."""
        stored = self._sides.stored(one.thread_id)
        return copy.sum_of(stored, any_order=one.whole is not None)


class _Converted:
    """A thread in the form of the target: small ones as a list, large ones with a rest to read."""

    def __init__(self, thread_id: str, records: Iterable[Record], conversion: Conversion) -> None:
        """Convert a thread until it is whole or too large to keep. Raises `CannotHold`."""
        self.thread_id = thread_id
        self.outcome = CopiedThread(thread_id, CopyStep.COPY, is_verified=True)
        """What is said of it after it was read back; without its numbers."""
        self.records: list[Record] = []
        self.rest: Iterator[Record] | None = None
        """What was not converted yet."""
        self.sum = RecordsSum()
        """Of the records that were converted so far; with their digests, if there is a rest."""
        self.heads: dict[str, str] = {}
        self.whole: RecordsSum | None = None
        """The sum of the whole thread, if only a part of it is sent."""
        left, before = iter(records), conversion.unexpiring
        for record in left:
            self.sum.add(record)
            self.records.append(record)
            if self.sum.size > _BATCH_BYTES:
                self.rest, self.sum = left, copy.sum_of(self.records)
                break
        self.outcome.unexpiring = conversion.unexpiring - before

    @property
    def is_whole(self) -> bool:
        """Whether `records` is the whole thread."""
        return self.rest is None and self.whole is None

    def exact_sum(self) -> RecordsSum:
        """The sum that the target has to have, with the digests of all records."""
        if self.whole is not None:
            return self.whole
        return copy.sum_of(self.records) if self.rest is None else self.sum

    def copied(self) -> CopiedThread:
        """The outcome after the thread was read back."""
        self.outcome.counts, self.outcome.added = self.whole or self.sum, self.sum.records
        return self.outcome

    def arrival(self) -> Arrival:
        """The thread for the target, read once."""
        counted = (self._counted(record) for record in self.rest or ())
        return Arrival(self.thread_id, chain(self.records, counted), self.heads)

    def _counted(self, record: Record) -> Record:
        self.sum.add(record, record_digest(record))
        return record


_CREATE = "to make an empty store there, add --create"


@dataclass(frozen=True, slots=True)
class CopyTerms:
    """What is copied where. Picklable, for copies in several processes."""

    source: StoreUrl
    target: StoreUrl
    language: Language
    sealing: Sealing
    create: bool = False
    replace: bool = False


@contextmanager
def opened_sides(
    terms: CopyTerms, watch: Callable[[int], None] = lambda _: None
) -> Iterator[copy.CopySides]:
    """Open both stores for reading. Raises `Unsupported` if there is no way between them.

    `watch` is told the number of bytes of each row that is read from the source.
    """
    _check_different(terms)
    with ExitStack() as stack:
        source = stack.enter_context(open_store(terms.source))
        here = source.describe()
        target = opened_target(terms.target, create=terms.create)
        if target is None:
            layout = created_layout(terms.target, terms.language)
        else:
            layout = stack.enter_context(target).describe().layout
        way = route(here.layout, layout, terms.language)
        conversion = Conversion(way.source, way.target, terms.sealing)
        yield copy.CopySides(source, here.layout, target, layout, conversion, watch)


def _check_different(terms: CopyTerms) -> None:
    """Raise `UsageError` if both stores are the same."""
    is_same = terms.source == terms.target
    paths = terms.source.path, terms.target.path
    with suppress(OSError):
        is_same |= all(map(os.path.exists, paths)) and os.path.samefile(*paths)
    if is_same:
        raise errors.UsageError("the source and the target are the same store")


def opened_target(url: StoreUrl, *, create: bool) -> Store | None:
    """Return the target; None if it is not there yet and would be made."""
    try:
        return open_store(url)
    except (errors.UnknownLayout, errors.StoreUnavailable) as error:
        backend = backend_of(url.scheme)
        if backend is None or not backend.create:
            raise
        is_missing = isinstance(error, errors.UnknownLayout) or (
            backend.is_local and not os.path.exists(url.path)
        )
        if create and is_missing:
            open_for_writing.check_creatable(url)
            return None
        if not create:
            error.hint = "; ".join(filter(None, (error.hint, _CREATE)))
        raise


def make_target(url: StoreUrl, language: Language) -> Store:
    """Make an empty store and open it. Raises `Refused` if something else is there."""
    open_for_writing.create_store(url, language)
    return open_store(url)


_THREADS_AT_ONCE = 200


def plan_threads(
    terms: CopyTerms, thread_ids: Iterable[str], watch: Callable[[int], None]
) -> Iterator[CopiedThread]:
    """Yield what would become of each thread. Raises what opening the stores raises.

    `watch` is told the number of bytes of each row that is read from the source.
    """
    with opened_sides(terms, watch) as sides:
        for thread_id in thread_ids:
            yield copy.planned_copy(sides, thread_id, replace=terms.replace)


def copy_threads(
    terms: CopyTerms,
    thread_ids: Iterable[str],
    executor: Executor,
    watch: Callable[[int], None],
    recording: Recording,
) -> Generator[CopiedThread]:
    """Copy threads; yield what became of each. Raises what opening the stores raises.

    `watch` is told the number of bytes that are done: of each row, or of each thread if other
    processes copy. Close the iterator before the recording ends.
    """
    if terms.create:
        terms = replace(terms, target=open_for_writing.create_store(terms.target, terms.language))
    with closing(CopyRecording(recording, terms.target)) as record:
        with opened_sides(terms):
            pass  # what cannot be copied at all is refused before it is recorded
        here = executor.is_here
        work = _Copying(terms, watch if here else None)
        with open_store(terms.source) as store, closing(work):
            copied = executor.run(
                store, thread_ids, work, at_once=_THREADS_AT_ONCE, before=record.intend
            )
            with closing(copied):
                for one in copied:
                    if not here:
                        watch(one.counts.size)
                    record.came_out(one)
                    yield one


class _Copying:
    """The work of one process. Picklable."""

    def __init__(self, terms: CopyTerms, watch: Callable[[int], None] | None) -> None:
        self._terms = terms
        self._watch = watch
        self._stack = ExitStack()

    def __reduce__(self) -> tuple[object, ...]:
        return _Copying, (self._terms, None)

    def __call__(self, store: Store) -> Callable[[Sequence[str]], Iterator[CopiedThread]]:  # noqa: ARG002 - opens rows as stored
        terms, stack = self._terms, self._stack
        refuse_copy(terms.target)
        sides = stack.enter_context(opened_sides(terms, self._watch or (lambda _: None)))
        if sides.target is None:
            raise ValueError("the target is made before threads are copied")
        sides.target.refresh()
        writable = stack.enter_context(open_for_writing.open_writable(terms.target))
        # A writer that removed rows empties the log when it is closed, which waits for readers.
        stack.callback(sides.target.refresh)
        return ThreadCopier(sides, sides.target, writable, replace=terms.replace).copy

    def close(self) -> None:
        """Close the stores, if this process copied."""
        self._stack.close()


@dataclass(slots=True)
class RestoreReport:
    """Which archives were restored, in order."""

    done: list[tuple[Bundle, Restored]] = field(default_factory=list)
    failed: list[errors.CkptError] = field(default_factory=list)

    @property
    def expired(self) -> int:
        """Number of rows left out because their time to live has passed."""
        return sum(restored.expired for _, restored in self.done)

    def add(self, bundle: Bundle, restore: Callable[[Bundle], Restored]) -> None:
        """Restore one archive and record the outcome."""
        try:
            self.done.append((bundle, restore(bundle)))
        except errors.CkptError as error:
            error.message = f"cannot restore '{bundle.path}': {error.message}"
            self.failed.append(error)

    def raise_failures(self, noun: str, verb: str = "were not") -> None:
        """Raise the error if all archives failed, or `PartlyDone` if some did or rows expired."""
        if self.failed and not self.done:
            raise self.failed[0]
        if self.failed:
            number = len(self.failed) + len(self.done)
            first = self.failed[0]
            raise errors.PartlyDone(
                f"{len(self.failed)} of {number} {noun} {verb} restored: {first.message}",
                hint=first.hint,
            ) from first
        if self.expired:
            rows = "1 row" if self.expired == 1 else f"{self.expired} rows"
            raise errors.PartlyDone(
                f"{rows} left out: their time to live has ended", hint=f"the {noun} still hold them"
            )


def _recorded(
    recording: Recording,
    planned: log.OperationStep,
    restore: Callable[[], Restored],
    carried_out: Callable[[Restored], log.OperationStep],
) -> Restored:
    """Restore one archive, and record that. `carried_out` adds what takes it back to the step."""
    recording.intend([planned])
    try:
        done = restore()
    except errors.CkptError as error:
        recording.failed(error)
        raise
    recording.came_out({planned.thread_id: carried_out(done) if done.added else None})
    return done


def restore_threads(
    url: StoreUrl,
    bundles: Iterable[Bundle],
    rows: Store,
    sides_of: Callable[[Bundle], copy.CopySides | None],
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
            step = _RestoringThread(rows, bundle, is_own=sides is None)
            write = partial(_restored, bundle, sides, writable)
            return _recorded(recording, step.planned, write, step.carried_out)

        for one in bundles:
            report.add(one, restore)
    return report


class _RestoringThread:
    """The step of one archived thread."""

    def __init__(self, rows: Store, bundle: Bundle, *, is_own: bool) -> None:
        thread_id = bundle.header.thread_id or ""
        self._rows = rows
        self._before = before = contents_of(rows, thread_id)
        # In a file that is not in WAL mode, an open read would block the writer.
        rows.refresh()
        added = log.RowsAdded(len(before.checkpoints), before.number_of_writes)
        restored = log.RowsRestored(bundle.path.absolute(), bundle.digest)
        self.planned = log.OperationStep(thread_id, restored if is_own else added, None)

    def carried_out(self, done: Restored) -> log.OperationStep:  # noqa: ARG002 - the store tells more
        self._rows.refresh()
        try:
            back = removal_of_added(self._rows, self.planned.thread_id or "", self._before)
        except Exception:
            # The thread is restored all the same, also if its cells are of types that the adapter
            # cannot read.
            back = None
        self._rows.refresh()
        return replace(self.planned, back=None if back is None else log.RowsRemoved(back))


def _restored(bundle: Bundle, sides: copy.CopySides | None, writable: WritableStore) -> Restored:
    """Restore an archive; without `sides` it is of the store's own layout."""
    if sides is None:
        return writable.restore(bundle.rows())
    if sides.target is None:
        raise ValueError("the target is made before archives are restored")
    if sides.has_expired:
        return Restored(0, 0, bundle.size)
    copier = ThreadCopier(sides, sides.target, writable, replace=False)
    with copy.refusing_malformed(bundle.path):
        (done,) = copier.copy([bundle.header.thread_id or ""])
    return copy.restored_of(done)


def restore_memory(url: StoreUrl, bundles: Iterable[Bundle], recording: Recording) -> RestoreReport:
    """Restore archived memory items row for row. Raises what `open_writable_memory` raises."""
    report = RestoreReport()
    refuse_copy(url)
    with open_memory(url) as memory, open_for_writing.open_writable_memory(url) as writable:

        def restore(bundle: Bundle) -> Restored:
            step = _RestoringItems(memory, bundle)
            write = lambda: writable.restore(bundle.rows())  # noqa: E731
            try:
                return _recorded(recording, step.planned, write, step.carried_out)
            except errors.StoreChanged as error:
                # The store's own advice is about a thread.
                error.hint = "an item was saved again since then: `ckpt memory delete KEY --archive"
                error.hint += " FOLDER` takes it away and keeps it; then import again"
                raise

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
        record = log.ItemsRestored(bundle.path.absolute(), bundle.digest, len(self._missing))
        self.planned = log.OperationStep(None, record, None)

    def carried_out(self, done: Restored) -> log.OperationStep:
        if done.added != self._rows:
            return self.planned  # an item was there in part
        self._memory.refresh()
        try:
            items = without_values(self._memory.items(keys=self._missing))
        except errors.CkptError:  # the items are restored all the same
            return self.planned
        self._memory.refresh()
        return replace(self.planned, back=log.ItemsRemoved(items))


Watch = Callable[[Iterable[CopiedItem], str], Iterable[CopiedItem]]
"""Shows progress over items with a label."""


@contextmanager
def _opened_items(
    terms: copy.MemoryCopyTerms, *, makes: bool = False
) -> Iterator[tuple[MemoryStore, MemoryStore | None]]:
    """Open both stores for reading; the target is None if it is not there and would be made.

    With `makes`, it is made first if it is to be made. Raises what opening the stores raises, and
    `UsageError` if both are the same.
    """
    with ExitStack() as stack:
        source = _store_of_items(stack.enter_context(open_memory(terms.source)))
        if makes and terms.create:
            open_for_writing.create_memory(terms.target)
        try:
            target = stack.enter_context(open_memory(terms.target))
        except (errors.UnknownLayout, errors.StoreUnavailable) as error:
            if terms.create and not makes:
                yield source, None
                return
            error.hint = "; ".join(filter(None, (error.hint, _CREATE)))
            raise error from None
        _store_of_items(target)
        if source.describe().url == target.describe().url:
            raise errors.UsageError("the source and the target are the same store")
        yield source, target


def _store_of_items(memory: MemoryStore) -> MemoryStore:
    """Return a Store of LangGraph. Raises `Unsupported` if it is another memory."""
    info = memory.describe()
    if not info.is_store:
        raise errors.Unsupported(
            f"items of '{info.url}' cannot be copied: it is not a Store of LangGraph",
            hint="`ckpt memory export` writes them as JSON",
        )
    return memory


def plan_items(terms: copy.MemoryCopyTerms, watch: Watch) -> Iterator[CopiedItem]:
    """Yield what would become of each item. Raises what opening the stores raises."""
    with _opened_items(terms) as (source, target):
        label = "reading" if target is None else "comparing"
        yield from watch(copy.planned_items(terms, source, target), label)


def copy_items(
    terms: copy.MemoryCopyTerms, watch: Watch, recording: Recording
) -> Iterator[CopiedItem]:
    """Copy items; yield what became of each, in order. Raises what opening the stores raises.

    Raises `Unreadable` if an item is not the same in the target.
    """
    refuse_copy(terms.target)
    with _opened_items(terms, makes=True) as (source, target):
        if target is None:
            raise ValueError("the target is made before items are copied")
        planned = list(watch(copy.planned_items(terms, source, target), "comparing"))
        # In a file that is not in WAL mode, an open read would block the writer, here or an agent.
        source.refresh()
        target.refresh()
        with open_for_writing.open_writable_memory(terms.target) as writable:
            copier = _ItemCopier(source, target, writable)
            todo = [one for one in planned if one.step in {CopyStep.COPY, CopyStep.REPLACE}]
            for some in in_chunks(todo):
                _copy_recorded(copier, target, some, recording)
        target.refresh()
        for some in in_chunks(planned):
            _verify(target, some)
            yield from some


def _copy_recorded(
    copier: _ItemCopier, target: MemoryStore, some: Sequence[CopiedItem], recording: Recording
) -> None:
    """Copy some items, and record that."""
    replaces = any(one.step is CopyStep.REPLACE for one in some)
    recording.intend(
        [log.OperationStep(None, log.ItemsAdded(tuple(one.key for one in some)), None)]
    )
    try:
        copier.copy(some)
        target.refresh()
        keys = tuple(one.key for one in some if one.step is not CopyStep.SKIP)
        # What a replaced item held before is not kept.
        back = None if replaces else log.ItemsRemoved(without_values(target.items(keys=keys)))
        target.refresh()
    except BaseException:
        recording.unsure()
        raise
    recording.came_out(
        {None: log.OperationStep(None, log.ItemsAdded(keys), back) if keys else None}
    )


class _ItemCopier:
    """Copies planned items. Those that cannot be copied any more are marked as skipped."""

    def __init__(
        self, source: MemoryStore, target: MemoryStore, writable: WritableMemoryStore
    ) -> None:
        self._source = source
        self._target = target
        self._writable = writable

    def copy(self, planned: Sequence[CopiedItem]) -> None:
        """Copy some items, a few megabytes in one transaction."""
        by_key = {one.key: one for one in planned}
        left = dict(by_key)
        for batch in copy.batches(self._source.items(keys=list(by_key), values=True)):
            fitted: list[Item] = []
            for item in batch:
                one = left.pop(item.key, None)
                if one is None:
                    continue  # a second one with the same key
                try:
                    fitted.append(self._target.fitted(item))
                except CannotHold as error:
                    _skip(one, error)
                    continue
                # The item may have changed since it was compared.
                one.digest, one.expires_at = digest_of(fitted[-1]), fitted[-1].expires_at
            self._add(fitted, by_key)
        self._source.refresh()
        for one in left.values():
            one.step, one.reason = CopyStep.SKIP, "it was removed from the source meanwhile"

    def _add(self, fitted: Sequence[Item], planned: Mapping[ItemKey, CopiedItem]) -> None:
        """Add items in place of those that they replace."""
        replaced = [one.key for one in fitted if planned[one.key].step is CopyStep.REPLACE]
        if replaced:
            old = list(self._target.items(keys=replaced))
            self._target.refresh()
            self._writable.remove(old)
        if fitted:
            self._receive(fitted, planned)

    def _receive(self, fitted: Sequence[Item], planned: Mapping[ItemKey, CopiedItem]) -> None:
        """Add items in one transaction; if another process added one, one by one."""
        try:
            self._writable.receive(fitted)
        except errors.StoreChanged as error:
            if len(fitted) == 1:
                _skip(planned[fitted[0].key], error)
                return
            for one in fitted:
                self._receive([one], planned)


def _skip(one: CopiedItem, error: errors.CkptError) -> None:
    one.step, one.reason = CopyStep.SKIP, error.message


def _verify(target: MemoryStore, planned: Sequence[CopiedItem]) -> None:
    """Read items back. Raises `Unreadable` if one is not what was sent."""
    wanted = {one.key: one for one in planned if one.step is not CopyStep.SKIP}
    found = {one.key: one for one in target.items(keys=list(wanted), values=True)}
    for key, one in wanted.items():
        there = found.get(key)
        if there is None and one.expires_at is not None and target.describe().removes_expired:
            continue  # it expired while it was copied
        if there is None or not copy.is_equal(one, there):
            raise errors.Unreadable(
                f"item '{format_key(key)}' is not the same in the target",
                hint="an agent may be using the target; run the command again to compare both",
            )
        one.is_verified = True


_IN_MEMORY = 8 << 20
"""Bytes of changed values in memory; a thread with more is streamed."""


def rekey_thread(
    side: copy.RekeySide, writable: WritableStore, recording: Recording, thread_id: str
) -> RekeyedThread:
    """Change all values of a thread, in one transaction if the engine has transactions.

    Raises `Refused` for a value that no key opens; nothing of the thread is written then.
    """
    counts = RekeyCounts()
    with copy.needs_key(thread_id):
        edits, is_whole = _small(side.edits(thread_id, counts))
    side.store.refresh()
    if not is_whole:
        # Every value is opened once before the first is written.
        copy.planned_rekey(side, thread_id)
        counts = RekeyCounts()
        edits = side.edits(thread_id, counts)
    elif not counts.rekeyed:
        return RekeyedThread(thread_id, counts)
    recording.intend([log.OperationStep(thread_id, None, None)])
    try:
        writable.replace(thread_id, edits)
    except errors.StoreChanged as error:
        recording.failed(error)
        return RekeyedThread(thread_id, skipped=error.message)
    recording.done()
    done = RekeyedThread(thread_id, counts)
    side.store.refresh()
    if not _is_rekeyed(side, done):
        done.skipped = (
            "it changed meanwhile, so it may have values with another key; run this again"
        )
    return done


def _is_rekeyed(side: copy.RekeySide, done: RekeyedThread) -> bool:
    """Read a thread back. Returns whether it has the same number of values, and none is left."""
    try:
        after = copy.planned_rekey(side, done.thread_id).counts
    except errors.Refused:
        return False
    before = done.counts
    return not after.rekeyed and after.values - after.metadata == before.values - before.metadata


def _small(edits: Iterator[RowEdit]) -> tuple[Iterable[RowEdit], bool]:
    """Return the edits of a thread, and whether these are all; else they are too large."""
    kept: list[RowEdit] = []
    size = 0
    for one in edits:
        kept.append(one)
        size += one.stored.size + one.new.size
        if size > _IN_MEMORY:
            return [], False
    return kept, True
