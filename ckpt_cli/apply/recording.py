"""Records what a run changes: before it is done, what is intended; after it, what was done.

A state folder that cannot be written costs the record, not the change.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime

from ckpt_backends.changes.change import Change
from ckpt_backends.errors import CkptError, Refused, StoreChanged, Unsupported, UsageError
from ckpt_backends.protocol import Store
from ckpt_backends.url import StoreUrl
from ckpt_cli.operations.journal import Journal
from ckpt_cli.operations.log import OperationLog
from ckpt_cli.operations.place import place_of, store_text
from ckpt_cli.operations.record import MOST_THREADS, Operation
from ckpt_cli.operations.steps import AppliedChange, OperationStep
from ckpt_cli.plans.reversal import reversal_of

_NOTHING_WRITTEN = (StoreChanged, Refused, Unsupported, UsageError)
"""Errors after which a step was not carried out. After others, only the store tells."""


@dataclass(frozen=True, slots=True)
class Recorder:
    """Records the operations of one run on one store."""

    url: StoreUrl
    user: str
    command: str
    """The command line without secrets and values."""
    now: datetime
    note: Callable[[str], None]

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
        raises `UsageError` at the first step if it cannot be recorded; otherwise notes that.
        """
        planned = Operation(
            op=os.urandom(6).hex(),
            at=self.now,
            user=self.user,
            action=action,
            store=store_text(self.url),
            place=place_of(self.url),
            reason=reason,
            command=self.command,
            undoes=undoes,
            cannot_undo=cannot_undo,
        )
        recording = Recording(planned, self.note, must_record=must_record)
        try:
            yield recording
        except _NOTHING_WRITTEN as error:
            recording.stop(error)
            raise
        except BaseException:
            recording.leave()
            raise
        recording.finish()


@dataclass(slots=True)
class Recording:
    """One operation that is being carried out."""

    planned: Operation
    note: Callable[[str], None]
    must_record: bool = False
    _journal: Journal | None = None
    _is_lost: bool = False
    """Whether it cannot be recorded."""
    _threads: dict[str, None] = field(default_factory=dict)
    _added: list[str] = field(default_factory=list)
    _steps: int = 0
    _missed: int = 0
    """Steps that were not carried out."""
    _batch: Sequence[OperationStep] = ()
    """The steps of the last call of `intend`, of which no result is known yet."""
    _can_undo: bool = True

    @property
    def op(self) -> str:
        """The id of the operation."""
        return self.planned.op

    def intend(self, steps: Sequence[OperationStep]) -> None:
        """Record steps that are about to be carried out. What was intended before is done.

        Raises `UsageError` if it cannot be recorded and must be.
        """
        self._count(self._batch)
        self._batch = steps
        self._can_undo &= all(one.back is not None for one in steps)
        if self._is_lost:
            return
        try:
            if self._journal is None:
                self._journal = Journal(OperationLog.of_user(), self.planned)
            self._journal.intend(steps)
        except UsageError as error:
            if self.must_record:
                raise
            self._lose(error)

    def intend_change(self, change: Change, rows: Store) -> None:
        """Record a change that is about to be applied. `rows` is the store as it is stored."""
        back = reversal_of(change, rows)
        # In a file that is not in WAL mode, an open read would block the commit.
        rows.refresh()
        done = AppliedChange(change)
        self.intend(
            [OperationStep(change.thread_id, done, None if back is None else AppliedChange(back))]
        )

    def not_done(self, thread_ids: Iterable[str | None]) -> None:
        """Record that steps of the last call of `intend` were not carried out after all.

        None stands for steps of long-term memory.
        """
        missed = set(thread_ids)
        first = self._steps
        numbers = [n for n, one in enumerate(self._batch, first) if one.thread_id in missed]
        self._count([one for one in self._batch if one.thread_id not in missed])
        self._steps, self._batch = first + len(self._batch), ()
        self._missed += len(numbers)
        if self._journal is not None and numbers:
            try:
                self._journal.not_done(numbers)
            except UsageError as error:
                self._lose(error)

    def stop(self, error: CkptError) -> None:
        """End after an error before which the last step was not carried out."""
        self.not_done([one.thread_id for one in self._batch])
        self._end(ended=error.message)

    def finish(self, ended: str = "") -> None:
        """End; `ended` tells why it stopped early."""
        self._end(ended)

    def leave(self) -> None:
        """Leave it for the next run, which asks the store what was carried out."""
        if self._journal is not None:
            self._journal.leave()
            self._journal = None

    def _count(self, steps: Sequence[OperationStep]) -> None:
        """Count steps that were carried out."""
        self._steps += len(steps)
        for one in steps:
            if one.thread_id is not None and len(self._threads) < MOST_THREADS:
                self._threads[one.thread_id] = None
            if isinstance(one.done, AppliedChange) and len(self._added) < MOST_THREADS:
                self._added += [new.key.checkpoint_id for new in one.done.change.checkpoints]

    def _end(self, ended: str) -> None:
        self._count(self._batch)
        self._batch = ()
        journal, self._journal = self._journal, None
        if journal is None:
            return
        number = self._steps - self._missed
        keep = self._can_undo and not self.planned.cannot_undo
        why = "" if keep else self.planned.cannot_undo or "what it replaced was not kept"
        done = replace(
            self.planned,
            threads=tuple(self._threads),
            number=number,
            added=tuple(self._added),
            cannot_undo=why,
            ended=ended,
        )
        try:
            if number:
                journal.finish(done, keep=keep)
            else:
                journal.close(keep=False)
        except UsageError as error:
            self._lose(error)

    def _lose(self, error: UsageError) -> None:
        self._is_lost = True
        self._journal = None
        self.note(f"{error.message}; `ckpt ops` will not know this change")
