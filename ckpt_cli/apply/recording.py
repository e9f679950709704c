"""Records each change before it is made, and what killed runs did."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from ckpt_backends import errors, shell
from ckpt_backends.archive import check_bundle
from ckpt_backends.changes import Change
from ckpt_backends.memory import MemoryStore
from ckpt_backends.model import CheckpointKey, in_chunks
from ckpt_backends.open_for_writing import open_writable
from ckpt_backends.platform import ENDING
from ckpt_backends.protocol import Store, WritableStore
from ckpt_backends.registry import open_memory, open_store
from ckpt_backends.rows import compare
from ckpt_backends.url import StoreUrl
from ckpt_cli.core.copying import CopiedThread, CopyStep
from ckpt_cli.core.retention import PlannedRemoval
from ckpt_cli.operations.log import (
    MOST_THREADS,
    AppliedChange,
    AuditFile,
    Claim,
    ItemsAdded,
    ItemsRestored,
    Journal,
    MemoryPart,
    Operation,
    OperationLog,
    OperationStep,
    RowsAdded,
    RowsRemoved,
    RowsRestored,
    StepPart,
    claims,
    place_of,
    running,
    store_text,
)
from ckpt_cli.plans import undo
from ckpt_cli.plans.fork import (
    ThreadContents,
    contents_of,
    refuse_only_read,
    removal_of_added,
    removal_of_new,
)


@contextmanager
def collected_signals() -> Iterator[list[int]]:
    """Collect Ctrl-C and the signals that end a process instead of acting on them."""
    caught: list[int] = []
    keep: Callable[..., None] = lambda number, frame: caught.append(number)  # noqa: E731, ARG005
    ending = (signal.SIGINT, *ENDING)
    heeded = [one for one in ending if signal.getsignal(one) is not signal.SIG_IGN]
    before = {one: signal.signal(one, keep) for one in heeded}
    try:
        yield caught
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def refuse_copy(url: StoreUrl) -> None:
    """Raise `UsageError` if a private copy of the store is read, which cannot be changed."""
    if url.params.get("copy") in {"1", "true"}:
        raise errors.UsageError(
            "cannot change a private copy: --copy is read-only",
            hint="run the command without --copy, or with --dry-run",
        )


def check_removable(store: Store) -> None:
    """Raise `Unsupported` if nothing is changed in this store, and `Refused` if rows of it may be
    hidden from this user.

    What is removed might belong to a checkpoint that is there, and more might be left than is said.
    """
    refuse_only_read(store.describe())
    for one in store.hidden_rows():
        raise errors.Refused(
            f"nothing may be removed where rows may be hidden: {one.reason}", hint=one.remedy
        )


@contextmanager
def writable_store(url: StoreUrl, readers: Iterable[Store] = ()) -> Iterator[WritableStore]:
    """Open a store for writing. Raises what `open_writable` raises, and `UsageError` for a copy.

    `readers` are the open readers of the same store.
    """
    refuse_copy(url)
    # A reader of a file that is not in WAL mode would block its own writer.
    for reader in readers:
        reader.refresh()
    with open_writable(url) as writable:
        yield writable


_NOTHING_WRITTEN = (errors.StoreChanged, errors.Refused, errors.Unsupported, errors.UsageError)
"""Errors after which a step was not carried out. After others, only the store tells."""


def settle(url: StoreUrl, note: Callable[[str], None]) -> None:
    """Record what killed runs did to a store, if there are any; see `settle_runs`."""
    try:
        log = OperationLog.of_user()
    except errors.UsageError:
        return
    if running(log):
        # Late: it loads what computes changes, and few runs find that another one was killed.

        settle_runs(log, url, note)


@dataclass(frozen=True, slots=True)
class Recorder:
    """Records the operations of one run on one store."""

    url: StoreUrl
    user: str
    command: str
    """The command line without secrets and values."""
    now: datetime
    note: Callable[[str], None]
    audit: Path | None = None
    """A file to which operations are appended as well; without it nothing is changed."""

    @contextmanager
    def operation(
        self,
        action: str,
        *,
        reason: str | None = None,
        undoes: str | None = None,
        cannot_undo: str = "",
        must_record: bool = False,
    ) -> Iterator[Recording]:
        """Record an operation while it is carried out.

        `cannot_undo` tells why it cannot be taken back, if that is known. With `must_record`,
        raises `UsageError` at the first step if it cannot be recorded; otherwise notes that. With
        an audit file, raises `Refused` if it cannot be written.
        """
        settle(self.url, self.note)
        planned = Operation(
            op=os.urandom(6).hex(),
            at=self.now,
            user=self.user,
            action=action,
            store="",
            place="",
            reason=reason,
            command=self.command,
            undoes=undoes,
            cannot_undo=cannot_undo,
        )
        audit = None if self.audit is None else AuditFile(self.audit)
        must_record |= audit is not None
        recording = Recording(planned, self.url, self.note, audit, must_record=must_record)
        try:
            yield recording
        except BaseException as error:
            recording.failed(error)
            recording.finish(
                error.message if isinstance(error, errors.CkptError) else "interrupted"
            )
            raise
        recording.finish()


@dataclass(slots=True)
class _StepSums:
    """What steps did that were carried out, as the log tells it."""

    number: int = 0
    """Of the threads or items that were changed."""
    threads: dict[str, None] = field(default_factory=dict)
    added: list[str] = field(default_factory=list)

    def add(self, one: OperationStep) -> None:
        """Count a step."""
        self.number += one.number
        if one.thread_id is not None and len(self.threads) < MOST_THREADS:
            self.threads[one.thread_id] = None
        if isinstance(one.done, AppliedChange) and len(self.added) < MOST_THREADS:
            self.added += [new.key.checkpoint_id for new in one.done.change.checkpoints]

    def ended(self, planned: Operation, cannot_undo: str, ended: str) -> Operation:
        """Return the operation as it is recorded."""
        return planned._replace(
            threads=tuple(self.threads),
            number=self.number,
            added=tuple(self.added),
            cannot_undo=cannot_undo,
            ended=ended,
        )


@dataclass(slots=True)
class Recording:
    """One operation that is being carried out."""

    planned: Operation
    url: StoreUrl
    note: Callable[[str], None]
    audit: AuditFile | None = None
    must_record: bool = False
    _journal: Journal | None = None
    _lost: errors.UsageError | None = None
    """Why it cannot be recorded."""
    _is_unsure: bool = False
    """Whether only the store can tell what became of some steps."""
    _can_undo: bool = True
    _sums: _StepSums = field(default_factory=_StepSums)
    _next: int = 0
    """The number of the next step in the journal."""
    _open: dict[int, OperationStep] = field(default_factory=dict)
    """Steps of which no result is known yet, by their numbers."""

    @property
    def op(self) -> str:
        """The id of the operation."""
        return self.planned.op

    @property
    def recorded(self) -> str | None:
        """The id of the operation; None if nothing was changed, or the log does not have it."""
        return self.op if self._sums.number and self._lost is None else None

    def intend(self, steps: Sequence[OperationStep], *, must_record: bool = False) -> None:
        """Record steps that are about to be carried out. What was intended before is done.

        Raises `UsageError` if it cannot be recorded and must be.
        """
        self.done()
        self.intend_more(steps, must_record=must_record)

    def intend_more(self, steps: Sequence[OperationStep], *, must_record: bool = False) -> None:
        """Record steps that are about to be carried out while others still are.

        Raises `UsageError` if it cannot be recorded and must be.
        """
        self._open |= enumerate(steps, self._next)
        self._next += len(steps)
        if self._lost is not None and must_record:
            raise self._lost
        if self._lost is not None or not steps:
            return
        try:
            if self._journal is None:
                # A copy may have made the store since the operation began.
                self.planned = self.planned._replace(
                    store=store_text(self.url), place=place_of(self.url)
                )
                audit = ""
                if self.audit is not None:
                    self.audit.check()
                    audit = str(self.audit.path)
                self._journal = Journal(OperationLog.of_user(), self.planned, audit)
            self._journal.intend(steps)
        except errors.UsageError as error:
            if must_record and self._journal is None:
                self._next -= len(steps)  # a later journal begins without them
                raise
            if self.must_record:
                raise
            self._lose(error)
            if must_record:
                raise

    def intend_changes(self, changes: Sequence[Change], rows: Store) -> None:
        """Record changes that are about to be applied. `rows` is the store as it is stored.

        Raises `Refused` if unreadable values that one replaces would be lost, because they cannot
        be recorded, and `StoreChanged` if they are readable by now.
        """
        replaces = any(undo.replaced_values(one) for one in changes)
        if replaces:
            rows.refresh()  # they may have been read before a person was asked
        steps = [_step_of(one, rows) for one in changes]
        # In a file that is not in WAL mode, an open read would block the commit.
        rows.refresh()
        try:
            self.intend(steps, must_record=replaces)
        except errors.UsageError as error:
            if not replaces:
                raise
            raise errors.Refused(
                f"{error.message}; nothing was written: the unreadable bytes would be lost",
                hint=error.hint,
            ) from error

    def done(self) -> None:
        """Record that the open steps were carried out."""
        self._count(self._open.values())
        self._open = {}

    def not_done(self, thread_ids: Iterable[str | None]) -> None:
        """Record that steps of the last call of `intend` were not carried out; the others were."""
        self.came_out(dict.fromkeys(thread_ids))
        self.done()

    def came_out(self, found: Mapping[str | None, OperationStep | None]) -> None:
        """Record what became of open steps, by thread; None for one that was not carried out.

        A step other than the intended one takes its place, for example with what takes it back.
        """
        known = {n: one for n, one in self._open.items() if one.thread_id in found}
        self._open = {n: one for n, one in self._open.items() if n not in known}
        made = {n: found[one.thread_id] for n, one in known.items()}
        self._count(one for one in made.values() if one is not None)
        others = [one for n, one in made.items() if one is not None and one is not known[n]]
        gone = [n for n, one in made.items() if one is not known[n]]
        self._next += len(others)
        if self._journal is None or not gone:
            return
        try:
            self._journal.not_done(gone, others)
        except errors.UsageError as error:
            self._lose(error)

    def failed(self, error: BaseException) -> None:
        """Record that open steps ended with an error.

        They were not carried out, or the next run asks the store what was.
        """
        if isinstance(error, _NOTHING_WRITTEN):
            self.not_done([one.thread_id for one in self._open.values()])
        else:
            self.unsure()

    def unsure(self) -> None:
        """Record that only the store can tell what became of the open steps."""
        self._is_unsure |= bool(self._open)
        self._open = {}

    def finish(self, ended: str = "") -> None:
        """End, unless it has ended; `ended` tells why it stopped early."""
        self.done()
        journal, self._journal = self._journal, None
        if journal is None:
            return
        if self._is_unsure:
            journal.leave()
            return
        why = self.planned.cannot_undo
        if not why and not self._can_undo:
            why = self.planned.why_not_kept
        done = self._sums.ended(self.planned, why, ended)
        try:
            if not done.number:
                journal.close(keep=False)
                return
            journal.record(done)
        except errors.UsageError as error:
            self._lose(error)
            return
        try:
            if self.audit is not None:
                self.audit.append(done)
        except errors.UsageError as error:
            journal.leave()
            self.note(f"{error.message}; the next run of ckpt appends operation {done.op}")
        else:
            journal.close(keep=done.keeps_steps)

    def _count(self, steps: Iterable[OperationStep]) -> None:
        """Count steps that were carried out."""
        for one in steps:
            self._sums.add(one)
            self._can_undo &= one.back is not None

    def _lose(self, error: errors.UsageError) -> None:
        # Without a traceback, which would keep the journal open, and so locked.
        self._lost = errors.UsageError(error.message, hint=error.hint)
        self._journal = None
        self.note(f"{error.message}; `ckpt ops` will not know this change")


def _step_of(change: Change, rows: Store) -> OperationStep:
    """Return the step of a change, with what takes it back."""
    replaced = undo.replaced_values(change)
    try:
        back = undo.reversal_of(change, rows)
    except errors.CkptError:
        if replaced:
            raise
        back = None  # the change itself may be possible
    if replaced:
        undo.check_unreadable(replaced, back or Change(change.thread_id, {}))
    taken_back = None if back is None else AppliedChange(back)
    return OperationStep(change.thread_id, AppliedChange(change), taken_back)


_AT_ONCE = 200
"""Outcomes that are recorded together."""


class CopyRecording:
    """Records a copy: each part before it begins, each outcome once the target was read back."""

    def __init__(self, recording: Recording, target: StoreUrl) -> None:
        """`target` is opened with the first part."""
        self._recording = recording
        self._url = target
        self._opened: Store | None = None
        self._before: dict[str, ThreadContents] = {}
        """What the target had of the threads under way, as far as it had anything."""
        self._under_way: dict[str, None] = {}
        self._known: list[CopiedThread] = []

    def intend(self, thread_ids: Sequence[str]) -> None:
        """Record some threads before they are copied."""
        self._read(thread_ids)
        self._under_way |= dict.fromkeys(thread_ids)
        self._recording.intend_more([self._step(one) for one in thread_ids])

    def came_out(self, one: CopiedThread) -> None:
        """Record what became of a thread."""
        self._known.append(one)
        if len(self._known) >= _AT_ONCE:
            self._flush()

    def close(self) -> None:
        """Record all outcomes, after the copy has ended; the target tells those not known yet."""
        if self._opened is None:
            return
        self._flush()
        with suppress(errors.CkptError):
            self._recording.came_out({one: self._found(one) for one in self._under_way})
        self._recording.unsure()
        self._opened.close()

    @property
    def _target(self) -> Store:
        """Reads what the copy writes. Raises what `open_store` raises."""
        if self._opened is None:
            self._opened = open_store(self._url)
        return self._opened

    def _read(self, thread_ids: Sequence[str]) -> None:
        there = self._target.threads_with_rows(thread_ids)
        self._before |= {one: contents_of(self._target, one) for one in thread_ids if one in there}
        # In a file that is not in WAL mode, an open read would block the writer.
        self._target.refresh()

    def _step(self, thread_id: str, back: PlannedRemoval | None = None) -> OperationStep:
        before = self._before.get(thread_id, ThreadContents())
        return OperationStep(
            thread_id,
            RowsAdded(len(before.checkpoints), before.number_of_writes),
            None if back is None else RowsRemoved(back),
        )

    def _flush(self) -> None:
        self._target.refresh()
        found: Mapping[str | None, OperationStep | None] = {
            one.thread_id: self._step(one.thread_id, self._back(one)) if one.is_changed else None
            for one in self._known
        }
        self._recording.came_out(found)
        for one in self._known:
            self._before.pop(one.thread_id, None)
            self._under_way.pop(one.thread_id, None)
        self._known = []
        self._target.refresh()

    def _found(self, thread_id: str) -> OperationStep | None:
        """Return what was done to a thread of which no outcome is known; None for nothing."""
        before = self._before.get(thread_id, ThreadContents())
        if contents_of(self._target, thread_id) == before:
            return None
        return self._step(thread_id, removal_of_added(self._target, thread_id, before))

    def _back(self, one: CopiedThread) -> PlannedRemoval | None:
        """Return what takes a thread back; None if nothing does."""
        if one.step is CopyStep.COPY:
            return removal_of_new(one.thread_id, one.counts)
        if one.step is CopyStep.ADD:
            with suppress(errors.CkptError):
                return removal_of_added(self._target, one.thread_id, self._before[one.thread_id])
        return None


_ADDING = (RowsAdded, RowsRestored, ItemsAdded, ItemsRestored)
"""Steps of which only the end of the run records what takes them back."""
_NAMED = 3
"""Maximum number of threads in a command."""
FOUND_LATER = "stopped; found by a later run"
"""Why such an operation ended."""


def settle_runs(log: OperationLog, url: StoreUrl, note: Callable[[str], None]) -> None:
    """Record what killed runs did to a store, and name each operation in a note.

    What cannot be found out now is left for the next run.
    """
    for claim in claims(log, place_of(url)):
        try:
            found = _settled(claim, url)
        except errors.CkptError as error:
            note(f"cannot tell what operation {claim.planned.op} did: {error.message}")
            continue
        if found is not None:
            note(
                f"a run of ckpt was stopped before it recorded its {found.action} of"
                f" {_names(found)}; it is now operation {found.op}"
            )


def _settled(claim: Claim, url: StoreUrl) -> Operation | None:
    """Record an operation. Returns None if it did nothing, or was recorded before."""
    audit = AuditFile(claim.audit_path) if claim.audit_path is not None else None
    for one in claim.log.newest_first():
        if one.op == claim.planned.op:
            _audited(audit, one)
            claim.close(keep=one.keeps_steps)
            return None
    steps = claim.steps()
    done = _carried_out(url, steps)
    done = _without_doubles(done)
    if not done:
        claim.close(keep=False)
        return None
    claim.not_done(steps.keys() - done.keys())
    sums = _StepSums()
    for step in done.values():
        sums.add(step)
    why = claim.planned.cannot_undo or _why_not(claim.planned, done.values(), list(sums.threads))
    found = sums.ended(claim.planned, why, FOUND_LATER)
    claim.log.append(found)
    _audited(audit, found)
    claim.close(keep=found.keeps_steps)
    return found


def _carried_out(url: StoreUrl, steps: Mapping[int, OperationStep]) -> dict[int, OperationStep]:
    """Return the steps that were carried out, as far as the store tells."""
    if all(one.thread_id is None for one in steps.values()):
        with open_memory(url) as memory:
            return {number: one for number, one in steps.items() if _is_of_memory(one, memory)}
    with open_store(url) as store:
        return {number: one for number, one in steps.items() if is_carried_out(one, store)}


def _is_of_memory(step: OperationStep, memory: MemoryStore) -> bool:
    """Return whether a memory is as a step leaves it, or no longer as it was before."""
    if isinstance(step.done, MemoryPart):
        return undo.were_carried_out(memory, step.done)
    return not (isinstance(step.back, MemoryPart) and undo.were_carried_out(memory, step.back))


def _audited(audit: AuditFile | None, one: Operation) -> None:
    if audit is not None and not audit.holds(one.op):
        audit.append(one)


def _without_doubles(steps: Mapping[int, OperationStep]) -> dict[int, OperationStep]:
    """Return steps without those that a later one of the same thread takes the place of."""
    found: dict[int, OperationStep] = {}
    for number, one in steps.items():
        same = [
            n for n, two in found.items() if (two.thread_id, two.done) == (one.thread_id, one.done)
        ]
        for n in same if one.thread_id is not None else ():
            del found[n]
        found[number] = one
    return found


def _why_not(planned: Operation, steps: Collection[OperationStep], threads: Sequence[str]) -> str:
    """Return why an operation cannot be taken back, and what to do instead; `''` if it can."""
    lacking = [one for one in steps if one.back is None]
    if not lacking:
        return ""
    if not all(isinstance(one.done, _ADDING) for one in lacking):
        return planned.why_not_kept
    killed = "it was killed before it recorded what it added"
    if any(not isinstance(one.done, RowsAdded) or one.done.checkpoints for one in steps):
        return killed
    named = threads if len(threads) <= _NAMED else ["THREAD"]
    remove = shell.command("ckpt", "-s", planned.store, "threads", "delete", ids=named)
    return f"{killed}; to remove that: {remove}"


def _names(one: Operation) -> str:
    if not one.threads:
        return "long-term memory"
    more = f" and {one.number - 3} more" if one.number > 3 else ""
    return ", ".join(f"'{name}'" for name in one.threads[:3]) + more


def is_carried_out(step: OperationStep, store: Store) -> bool:
    """Return whether the store is as a step leaves it, or no longer as it was before.

    `store` has the rows as they are stored. What it cannot tell counts as carried out.
    """
    done, back = step.done, step.back
    if done is not None:
        return _is_done(done, step.thread_id or "", store)
    return back is None or not _is_done(back, step.thread_id or "", store)


def _is_done(part: StepPart, thread_id: str, store: Store) -> bool:
    match part:
        case AppliedChange(change):
            return is_applied(change, store)
        case RowsRemoved(planned):
            return _is_removed(planned, store)
        case RowsRestored():
            return _is_restored(part, store)
        case RowsAdded(checkpoints, writes):
            size = store.size(thread_id)
            return (size.checkpoints, size.writes) != (checkpoints, writes)
        case _:
            return True


def is_applied(change: Change, store: Store) -> bool:
    """Return whether a change was applied to a store."""
    if change.added:
        return bool(_present(store, change.added))
    if change.removed:
        return len(_present(store, change.removed)) < len(change.removed)
    if change.blobs or change.removed_blobs:
        wanted = {one.place: one.value for one in change.blobs}
        places = {*wanted, *change.removed_blobs}
        stored = undo.values_at(store, change.thread_id, places)
        return all(stored.get(place) == wanted.get(place) for place in places)
    keys = {(one.key, one.task_id, one.idx) for one in change.writes}
    ids = {key.checkpoint_id for key, _, _ in keys}
    writes = store.writes(change.thread_id, checkpoint_ids=ids)
    return any((one.key, one.task_id, one.idx) in keys for one in writes)


def _present(store: Store, keys: Iterable[CheckpointKey]) -> set[CheckpointKey]:
    """Return which of these checkpoints are stored."""
    return {one.key for some in in_chunks(keys) for one in store.checkpoints_at(some)}


def _is_removed(planned: PlannedRemoval, store: Store) -> bool:
    removal = planned.removal
    if removal.inside is None:
        # An engine without transactions may have removed a part.
        there = store.threads_with_rows([removal.thread_id])
        return not there or store.size(removal.thread_id).checkpoints < removal.checkpoints
    keys = [
        CheckpointKey(removal.thread_id, ns, one)
        for ns, ids in removal.inside.checkpoints.items()
        for one in ids
    ]
    if keys:
        return len(_present(store, keys)) < len(keys)
    stored = {key for key, _ in store.blobs(removal.thread_id)}
    return not all(one in stored for one in removal.inside.blobs)


def _is_restored(part: RowsRestored, store: Store) -> bool:
    bundle = check_bundle(part.bundle)
    thread_id = bundle.header.thread_id or ""
    try:
        return compare(bundle.rows(), store.rows(thread_id), store.row_key).added == 0
    except errors.StoreChanged:
        return True
