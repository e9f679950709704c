"""Records what a run changes: before it is done, what is intended; after it, what was done.

A state folder that cannot be written costs the record, not the change.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from ckpt_backends.changes.change import Change
from ckpt_backends.errors import CkptError, Refused, StoreChanged, Unsupported, UsageError
from ckpt_backends.protocol import Store
from ckpt_backends.url import StoreUrl
from ckpt_cli.operations.audit import AuditFile
from ckpt_cli.operations.journal import Journal
from ckpt_cli.operations.log import OperationLog
from ckpt_cli.operations.place import place_of, store_text
from ckpt_cli.operations.record import MOST_THREADS, Operation
from ckpt_cli.operations.steps import AppliedChange, OperationStep
from ckpt_cli.operations.unfinished import running
from ckpt_cli.plans.reversal import reversal_of

_NOTHING_WRITTEN = (StoreChanged, Refused, Unsupported, UsageError)
"""Errors after which a step was not carried out. After others, only the store tells."""


def settle(url: StoreUrl, note: Callable[[str], None]) -> None:
    """Record what killed runs did to a store, if there are any; see `settle_runs`."""
    try:
        log = OperationLog.of_user()
    except UsageError:
        return
    if running(log):
        # Late: it loads what computes changes, and few runs find that another one was killed.
        from ckpt_cli.apply.settling import settle_runs

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
            recording.finish(error.message if isinstance(error, CkptError) else "interrupted")
            raise
        recording.finish()


@dataclass(slots=True)
class Recording:
    """One operation that is being carried out."""

    planned: Operation
    url: StoreUrl
    note: Callable[[str], None]
    audit: AuditFile | None = None
    must_record: bool = False
    _journal: Journal | None = None
    _is_lost: bool = False
    """Whether it cannot be recorded."""
    _is_unsure: bool = False
    """Whether only the store can tell what became of some steps."""
    _can_undo: bool = True
    _threads: dict[str, None] = field(default_factory=dict)
    _added: list[str] = field(default_factory=list)
    _number: int = 0
    """Of the threads or items that were changed."""
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
        return self.op if self._number and not self._is_lost else None

    def intend(self, steps: Sequence[OperationStep]) -> None:
        """Record steps that are about to be carried out. What was intended before is done.

        Raises `UsageError` if it cannot be recorded and must be.
        """
        self.done()
        self.intend_more(steps)

    def intend_more(self, steps: Sequence[OperationStep]) -> None:
        """Record steps that are about to be carried out while others still are.

        Raises `UsageError` if it cannot be recorded and must be.
        """
        self._open |= enumerate(steps, self._next)
        self._next += len(steps)
        if self._is_lost or not steps:
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
        except UsageError as error:
            if self.must_record:
                raise
            self._lose(error)

    def intend_change(self, change: Change, rows: Store) -> None:
        """Record a change that is about to be applied. `rows` is the store as it is stored."""
        try:
            back = reversal_of(change, rows)
        except CkptError:  # the change itself may be possible
            back = None
        # In a file that is not in WAL mode, an open read would block the commit.
        rows.refresh()
        done = AppliedChange(change)
        self.intend(
            [OperationStep(change.thread_id, done, None if back is None else AppliedChange(back))]
        )

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
        except UsageError as error:
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
        done = self.planned._replace(
            threads=tuple(self._threads),
            number=self._number,
            added=tuple(self._added),
            cannot_undo=why,
            ended=ended,
        )
        try:
            if not self._number:
                journal.close(keep=False)
                return
            journal.record(done)
        except UsageError as error:
            self._lose(error)
            return
        try:
            if self.audit is not None:
                self.audit.append(done)
        except UsageError as error:
            journal.leave()
            self.note(f"{error.message}; the next run of ckpt appends operation {done.op}")
        else:
            journal.close(keep=done.keeps_steps)

    def _count(self, steps: Iterable[OperationStep]) -> None:
        """Count steps that were carried out."""
        for one in steps:
            self._number += one.number
            self._can_undo &= one.back is not None
            if one.thread_id is not None and len(self._threads) < MOST_THREADS:
                self._threads[one.thread_id] = None
            if isinstance(one.done, AppliedChange) and len(self._added) < MOST_THREADS:
                self._added += [new.key.checkpoint_id for new in one.done.change.checkpoints]

    def _lose(self, error: UsageError) -> None:
        self._is_lost = True
        self._journal = None
        self.note(f"{error.message}; `ckpt ops` will not know this change")
