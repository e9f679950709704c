"""What a recorded operation did to the thread on the screen."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ckpt_backends.errors import Refused, UsageError
from ckpt_backends.model import CheckpointKey
from ckpt_backends.url import StoreUrl
from ckpt_cli.operations.log import AppliedChange, OperationLog, OperationStep, place_of
from ckpt_cli.plans.undo import added_at
from ckpt_cli.queries.operations import changes_of_thread, operation_named, steps_left
from ckpt_cli.reading.thread import ThreadReader


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """What an operation did to one thread."""

    op: str
    action: str
    at: datetime
    step: OperationStep

    def is_newest_of(self, reader: ThreadReader) -> bool:
        """Return whether it is the last change of a thread by `ckpt`, and no checkpoint tells.

        Added checkpoints tell by their metadata, wherever they were added.
        """
        done = self.step.done
        if isinstance(done, AppliedChange) and done.change.added:
            return False
        added = added_at(reader)
        return added is None or added <= self.at

    def has_added(self, key: CheckpointKey) -> bool:
        """Return whether it added a checkpoint."""
        done = self.step.done
        return isinstance(done, AppliedChange) and key in done.change.added


def newest_of_thread(url: StoreUrl, thread_id: str) -> RecordedStep | None:
    """Return the newest recorded operation of a thread that can be taken back."""
    try:
        log = OperationLog.of_user()
        for one in changes_of_thread(log, place_of(url), thread_id):
            if not one.is_undoable:
                return None
            for step in reversed(steps_left(log, one.op)):
                if step.thread_id == thread_id:
                    return RecordedStep(one.op, one.operation.action, one.operation.at, step)
    except UsageError:
        return None  # the thread itself still tells what was added to it
    return None


def of_thread(url: StoreUrl, thread_id: str, op: str) -> RecordedStep:
    """Return what a recorded operation did to a thread.

    Raises `NotFound`, or `Refused` with the reason if it cannot be taken back.
    """
    log = OperationLog.of_user()
    found = operation_named(log, op, place_of(url))
    if found.why_not:
        raise Refused(f"cannot undo operation {op}: {found.why_not}")
    for step in reversed(steps_left(log, op)):
        if step.thread_id == thread_id:
            return RecordedStep(op, found.operation.action, found.operation.at, step)
    raise Refused(f"cannot undo operation {op}: nothing of it is left in this thread")
