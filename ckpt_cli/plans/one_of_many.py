"""Plans a rollback, fork or copy of one of many threads.

A run that was stopped goes on where it ended: a thread that it has changed is recognised by its
head, without a log, and is ready to be resumed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, tzinfo

from ckpt_backends.errors import NotFound, Refused, UsageError
from ckpt_backends.model import NULL_TASK_ID, Status
from ckpt_backends.protocol import Store
from ckpt_cli.core.forking.marks import BY, NAME, THREAD
from ckpt_cli.core.forking.thread_change import ChangeOutcome, ResumePoint, ThreadChange
from ckpt_cli.plans.fork_to_thread import open_questions, plan_fork_to_thread
from ckpt_cli.plans.rollback import plan_rollback
from ckpt_cli.plans.rollback_target import TargetOptions, chosen_from, has_failed_step
from ckpt_cli.plans.root_branch import (
    RollbackOptions,
    configurable,
    finished_nodes,
    heads_of,
    is_busy,
)
from ckpt_cli.threads.checkpoint import Moment
from ckpt_cli.threads.redaction import carried_metadata
from ckpt_cli.threads.target import NamedThread
from ckpt_cli.threads.thread import ThreadReader

_PUT_BACK = "ckpt put it back before, and nothing ran since"
_COPIED = "ckpt copied it before, and nothing ran since"
_CUT_SHORT = "its run was cut short before this step ended"
_BUSY = "its newest checkpoint is a few seconds old: an agent may be running it"
PLACE = "{thread}"
"""What stands for the thread id in the id of a new thread, such as `{thread}-retry`."""


def new_thread_id(template: str, thread_id: str) -> str:
    """Return the id of the copy of a thread."""
    return template.replace(PLACE, thread_id)


@dataclass(frozen=True, slots=True)
class ManyRollbacks:
    """How many threads are rolled back, forked or copied."""

    rows: Store
    """The store as it is stored, decrypted."""
    target: TargetOptions
    options: RollbackOptions
    now: datetime
    zone: tzinfo
    to: str | None = None
    """The template of the ids of new threads; None to add to the same thread."""

    def plan(
        self, reader: ThreadReader, checkpoint_id: str | None
    ) -> ThreadChange | ChangeOutcome | None:
        """Plan the change of a thread to the given checkpoint, or to the one that is chosen.

        Returns an outcome if it is ready as it is, and None if it needs no change. Raises
        `Refused` if the thread has no such checkpoint, and what plans raise.
        """
        try:
            head_id = NamedThread(reader).checkpoint(self.now, self.zone).checkpoint_id
            head = reader.moment("", head_id)
            if self.to is not None:
                return self._fork(reader, head, checkpoint_id, self.to)
            if _is_unused_copy(head):
                return _ready(reader, head, configurable(head.key), _PUT_BACK)
            if self.target.last_good and not has_failed_step(head):
                return _cut_short(reader, head, is_busy=is_busy(reader, self.now))
            # --last-good means the head here: an older failure is not looked for.
            target = head_id if self.target.last_good else checkpoint_id or self._chosen(reader)
            plan = plan_rollback(reader, self.rows, target, self.now, self.options)
        except (NotFound, UsageError) as error:
            raise Refused(error.message) from error
        return ThreadChange(reader.thread_id, plan.change, plan.change.heads, plan=plan)

    def _chosen(self, reader: ThreadReader) -> str:
        named = NamedThread(reader, ref=self.target.at, as_of=self.target.as_of)
        found = named.checkpoint(self.now, self.zone)
        return chosen_from(found, self.target, _no_note).checkpoint_id

    def _fork(
        self, reader: ThreadReader, head: Moment, checkpoint_id: str | None, to: str
    ) -> ThreadChange | ChangeOutcome | None:
        """Plan the fork of a thread to a new one, unless it is such a fork itself."""
        if _is_fork(head) and new_thread_id(to, str(head.metadata[THREAD])) == reader.thread_id:
            return None
        target = checkpoint_id or self._chosen(reader)
        new_id = new_thread_id(to, reader.thread_id)
        there = _fork_there(reader, new_id, target)
        if there is not None:
            at = configurable(there.key)
            if target == head.key.checkpoint_id:
                # As in the plan of a fork of the head.
                del at["checkpoint_id"]
            return _ready(reader, there, at, _COPIED)
        plan = plan_fork_to_thread(reader, self.rows, target, new_id, self.options)
        return ThreadChange(reader.thread_id, plan.change, heads_of(reader), plan=plan)


def _no_note(_: str) -> None:
    """Say nothing: there would be a note for each thread."""


def _cut_short(reader: ThreadReader, head: Moment, *, is_busy: bool) -> ChangeOutcome | None:
    """Return where a thread is resumed whose run ended without an error; None if it is done, or
    waits for an answer.
    """
    if head.status is not Status.PENDING:
        return None
    at = configurable(head.key)
    # With an id, LangGraph would run again what has finished in this step.
    del at["checkpoint_id"]
    return _ready(reader, head, at, _BUSY if is_busy else _CUT_SHORT)


def _ready(reader: ThreadReader, head: Moment, at: dict[str, str], reason: str) -> ChangeOutcome:
    """Return the outcome of the reader's thread, whose own head or that of its fork is ready."""
    point = ResumePoint(
        head.key,
        head.number,
        head.step.waiting,
        at,
        open_questions(head),
        carried_metadata(reader.store, head.metadata),
        () if "checkpoint_id" in at else finished_nodes(head),
        head.body.is_javascript,
    )
    return ChangeOutcome(reader.thread_id, "ready", reason=reason, resume=point)


def _is_unused_copy(head: Moment) -> bool:
    """Return whether a head was added by `ckpt`, and no task of it has ended or failed."""
    # update_state() keeps the other marks of the checkpoint that it updates.
    is_copy = head.source == "fork" and head.metadata.get(BY) == NAME
    if not is_copy or THREAD in head.metadata:
        return False
    return all(one.task_id == NULL_TASK_ID for one in head.writes)


def _is_fork(head: Moment) -> bool:
    """Return whether a head was copied to a new thread."""
    return head.metadata.get(BY) == NAME and THREAD in head.metadata


def _fork_there(reader: ThreadReader, thread_id: str, target: str) -> Moment | None:
    """Return the head of a thread if it is a fork of this checkpoint of the thread."""
    known = reader.store.thread(thread_id)
    if known is None:
        return None
    fork = ThreadReader(reader.store, known)
    if fork.head("") != target:
        return None
    head = fork.moment("", target)
    return head if _is_fork(head) and head.metadata[THREAD] == reader.thread_id else None
