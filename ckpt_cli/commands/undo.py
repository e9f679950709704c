"""`ckpt undo`: take back the last change of a thread, or one operation."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Annotated

from typer import Argument, Context, Exit

from ckpt_backends import shell
from ckpt_backends.errors import NotFound, Refused, StoreChanged, StoreUnavailable, UsageError
from ckpt_backends.model import time_of
from ckpt_backends.registry import open_memory
from ckpt_cli.apply.recording import refuse_copy
from ckpt_cli.apply.undo import UndoReport, stopped_by, take_back, take_back_items
from ckpt_cli.commands.changing import confirm, show_and_apply
from ckpt_cli.commands.plan_out import PlanOut, plannable
from ckpt_cli.diagnostics import progress
from ckpt_cli.operations.log import AppliedChange, Operation, OperationLog, OperationStep, place_of
from ckpt_cli.options import DryRun, Force, Yes
from ckpt_cli.plans.undo import (
    PlannedStep,
    RefusedStep,
    newest_added,
    plan_undo,
    planned_items,
    planned_steps,
    refused_steps,
    turned_now,
)
from ckpt_cli.queries.operations import (
    REDO,
    UNDO,
    ListedOperation,
    changes_of_thread,
    is_recorded,
    newest_change,
    operation_named,
    operations,
    steps_left,
)
from ckpt_cli.reading.target import find_thread
from ckpt_cli.reading.thread import ThreadReader
from ckpt_cli.render.operations import (
    operation_text,
    undo_plan_columns,
    undo_plan_lines,
    undo_plan_record,
    undo_plan_rows,
)
from ckpt_cli.render.text import field
from ckpt_cli.render.values import counted
from ckpt_cli.session import Session

_OP = re.compile("[0-9a-f]{4,12}")
"""The id of an operation, or enough of it: a mistyped thread id should name none."""


@plannable("undo")
def undo(
    ctx: Context,
    what: Annotated[
        str | None,
        Argument(
            metavar="THREAD|OP",
            help="Thread id, or the beginning of the id of an operation. [default: the newest"
            " operation on the store]",
        ),
    ] = None,
    force: Force = False,
    plan_out: PlanOut = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Undo the last change of a thread, or one operation.

    THREAD takes back what ckpt last did to this thread, such as a rollback, fork, repair, import,
    or a purge with --archive. If nothing followed an added checkpoint, it is removed, and the
    thread is as before. Otherwise the thread is rolled back to its head from before. A rollback or
    fork by another user, or on another machine, is found in the thread itself.

    OP takes back this operation in all its threads, as long as nothing later depends on it; if
    something does, the answer says what. At least 4 digits of its id are needed. Threads that were
    used since are left as they are and named, and the exit code is 7 (5 or 6 if none could be taken
    back). `ckpt ops list` lists the operations.

    A word that is both is taken as the thread.

    ```
    ckpt -s agent.db undo user-42
    ckpt -s agent.db undo 3f2a --dry-run
    ckpt -s agent.db undo
    ```
    """
    session: Session = ctx.obj
    session.settle()
    if what is None:
        found = newest_change(OperationLog.of_user(), place_of(session.names.store_url))
    elif (named := _operation(session, what)) is not None:
        found = named
    else:
        _undo_thread(session, what, force=force, dry_run=dry_run, yes=yes)
        return
    action = REDO if found.operation.action == UNDO else UNDO
    take_back_operation(session, found, action, force=force, dry_run=dry_run, yes=yes)


def _operation(session: Session, word: str) -> ListedOperation | None:
    """Return the operation that a word names; None if there is none, or if it names a thread.

    Raises `Ambiguous`, and `UsageError` if the operation changed another store.
    """
    if not _OP.fullmatch(word):
        return None
    try:
        log = OperationLog.of_user()
        fitting = next((one.op for one in operations(log) if one.op.startswith(word)), None)
    except UsageError:  # without a log, it can only be a thread
        return None
    if fitting is None:
        return None
    if _is_thread(session, log, word):
        more = "" if word == fitting else "; give more of its id to take back that"
        session.note(f"'{word}' is a thread; operation {fitting} begins like it{more}")
        return None
    found = operation_named(log, word, None)
    check_place(session, found)
    return found


def _is_thread(session: Session, log: OperationLog, word: str) -> bool:
    """Return whether the store has a thread with this id, or had one when `ckpt` changed it."""
    if any(True for _ in changes_of_thread(log, place_of(session.names.store_url), word)):
        return True
    try:
        found = session.store.thread(word)
        # In a file that is not in WAL mode, an open read would block what is written next.
        session.store.refresh()
    except StoreUnavailable:  # it may hold long-term memory only
        return False
    return found is not None


def check_place(session: Session, found: ListedOperation) -> None:
    """Raise `UsageError` if an operation changed another store than that of this run."""
    if found.operation.place != place_of(session.names.store_url):
        raise UsageError(
            f"operation {found.op} changed another store: {found.operation.store}",
            hint=f"give that store: -s {shell.word(found.operation.store)}",
        )


def _undo_thread(session: Session, thread: str, *, force: bool, dry_run: bool, yes: bool) -> None:
    """Take back the last change of a thread, as the log or the thread itself tells it."""
    recorded = _recorded(session, thread)
    try:
        reader = find_thread(session.store, thread, session.note)
    except NotFound as error:
        if recorded is None:
            if _OP.fullmatch(thread):
                error.message = f"no thread '{thread}', and no operation whose id begins like this"
                error.hint = f"{error.hint}; `ckpt ops list` lists the operations"
            raise
    else:
        is_lost = recorded is not None and _has_lost_steps(reader, recorded)
        if recorded is None or is_lost or _has_newer(session, reader, recorded):
            plan = plan_undo(reader, session.editable, session.now, force=force)
            question = f"Undo the last change of thread '{reader.thread_id}'?"
            undoes = recorded.op if is_lost and recorded is not None else None
            show_and_apply(session, plan, question, dry_run=dry_run, yes=yes, undoes=undoes)
            return
    action = REDO if recorded.operation.action == UNDO else UNDO
    take_back_operation(
        session, recorded, action, thread=thread, force=force, dry_run=dry_run, yes=yes
    )


def _recorded(session: Session, thread: str) -> ListedOperation | None:
    """Return the newest recorded operation of a thread that is not undone.

    Without a log that can be read, the thread alone tells.
    """
    try:
        log = OperationLog.of_user()
        for one in changes_of_thread(log, place_of(session.names.store_url), thread):
            if not one.is_undoable or _is_there(session, steps_left(log, one.op), thread):
                return one
    except UsageError as error:
        session.note(f"{error.message}; what is undone is found in the thread itself")
    return None


def _is_there(session: Session, steps: Iterable[OperationStep], thread: str) -> bool:
    """Return whether the store has what these steps added to a thread, if they added anything.

    The store may be restored from a backup, or another user took the change back.
    """
    added = [
        key
        for one in steps
        if one.thread_id == thread and isinstance(one.done, AppliedChange)
        for key in one.done.change.added
    ]
    return not added or any(True for _ in session.store.checkpoints_at(added[:1]))


def _has_lost_steps(reader: ThreadReader, recorded: ListedOperation) -> bool:
    """Return whether an operation added the newest checkpoint by `ckpt`, but its steps are gone."""
    if recorded.is_undoable or not recorded.operation.added:
        return False
    try:
        return newest_added(reader).key.checkpoint_id in recorded.operation.added
    except NotFound:
        return False


def _has_newer(session: Session, reader: ThreadReader, recorded: ListedOperation) -> bool:
    """Return whether the thread has a newer change by ckpt that is not recorded here."""
    try:
        added = newest_added(reader).key.checkpoint_id
    except NotFound:
        return False
    at = time_of(added)
    if at is not None and at <= recorded.operation.at:
        return False
    place = place_of(session.names.store_url)
    return not is_recorded(OperationLog.of_user(), place, added)


def take_back_operation(
    session: Session,
    found: ListedOperation,
    action: str,
    *,
    thread: str | None = None,
    force: bool = False,
    dry_run: bool,
    yes: bool,
) -> None:
    """Show what takes back an operation and, unless it is a dry run, carry it out.

    `thread` takes back only what was done to this thread. Raises `Refused` if it cannot be taken
    back, `StoreChanged` if all threads were used since, and `PartlyDone` if some were.
    """
    named = _named_by(found, action)
    if not found.is_undoable:
        hint = "`ckpt ops list` lists earlier operations; `ckpt undo OP` takes back one"
        if action == REDO:
            hint = f"`ckpt ops show {named.op}` shows the original command"
        raise Refused(f"cannot {action} operation {found.op}: {found.why_not}", hint=hint)
    if not dry_run:
        refuse_copy(session.names.store_url)
    steps = steps_left(OperationLog.of_user(), found.op)
    if thread is not None:
        steps = [one for one in steps if one.thread_id == thread]
    if session.review is not None:
        session.review.see({"operation": found.op})
    if len(steps) != 1 or (reader := _newest_of(session, steps[0])) is None:
        _take_back_steps(session, found, named, action, steps, dry_run=dry_run, yes=yes)
        return
    plan = plan_undo(reader, session.editable, session.now, force=force)
    if action == REDO:
        plan = replace(plan, action="redo")
    (step,) = steps
    back = step.back.change.removed if isinstance(step.back, AppliedChange) else None
    is_removal = (plan.change.removed or {}).keys() == (back or {}).keys()
    show_and_apply(
        session,
        plan,
        f"{action.title()} {named.action} {named.op} of thread '{reader.thread_id}'?",
        dry_run=dry_run,
        yes=yes,
        undoes=found.op,
        more=lambda: {"undoes": found.op},
        lines=lambda: field(
            f"{action}es", operation_text(named, session.now), session.output.width
        ),
        step=turned_now(step, plan.change, session.rows) if is_removal else None,
    )


def _named_by(found: ListedOperation, action: str) -> Operation:
    """Return the operation that a person means: a redo is of what the undo took back."""
    original = found.operation.undoes
    if action == REDO and original is not None:
        with suppress(NotFound):
            return operation_named(OperationLog.of_user(), original, None).operation
    return found.operation


def _newest_of(session: Session, step: OperationStep) -> ThreadReader | None:
    """Return the thread of a step if that added the newest checkpoint that `ckpt` added to it."""
    if not isinstance(step.done, AppliedChange):
        return None
    change = step.done.change
    try:
        reader = ThreadReader(session.store, change.thread_id)
        return reader if newest_added(reader).key in change.added else None
    except NotFound:
        return None


def _take_back_steps(
    session: Session,
    found: ListedOperation,
    named: Operation,
    action: str,
    steps: Sequence[OperationStep],
    *,
    dry_run: bool,
    yes: bool,
) -> None:
    """Take back the steps of an operation, the last one first."""
    output = session.output
    is_memory = bool(steps) and steps[0].thread_id is None
    planned = _planned(session, steps, is_memory=is_memory)
    refused = refused_steps(planned, is_redo=action == REDO)
    if not planned:
        raise Refused(f"nothing of operation {found.op} is left to take back")
    if refused:
        _explain(session, found, refused[0])
    if len(refused) == len(planned):
        raise refused[0].error

    def show() -> None:
        output.document(
            lambda: undo_plan_record(found, action, planned, dry_run=dry_run),
            lambda: undo_plan_lines(named, action, planned, session.now, output.width),
            rows=lambda: undo_plan_rows(action, planned),
            columns=undo_plan_columns(planned),
        )

    if dry_run or not (yes or output.machine):
        show()
    if dry_run:
        session.note_dry_run()
        return
    if not yes:
        going = [one for one in planned if isinstance(one, PlannedStep)]
        confirm(f"{action.title()} {named.action} {named.op} in {_amount(going)}?")
    report = _carry_out(session, found, named, action, planned, is_memory=is_memory)
    if report.not_erased:
        session.note(report.not_erased)
    if yes or output.machine:
        show()
    if report.done:
        did = "undid" if action == UNDO else "redid"
        session.note(f"{did} {named.action} {named.op} in {_amount(report.done)}")
    if report.signal == signal.SIGINT:
        raise Exit(130)
    report.raise_failures("part" if is_memory else "thread")


def _amount(steps: Sequence[PlannedStep]) -> str:
    is_memory = any(one.step.thread_id is None for one in steps)
    return counted(sum(one.step.number for one in steps), "item" if is_memory else "thread")


def _planned(
    session: Session, steps: Sequence[OperationStep], *, is_memory: bool
) -> list[PlannedStep | RefusedStep]:
    """Return what takes back each step now, the last one first."""
    if is_memory:
        with open_memory(session.names.store_url) as memory:
            planned = list(planned_items(steps, memory))
    else:
        planning = planned_steps(steps, session.store, session.rows)
        planned = list(progress(planning, total=len(steps), label="planning"))
    if session.review is not None:
        for one in planned:
            session.review.see_step(one, None if is_memory else session.rows)
    return planned


def _carry_out(
    session: Session,
    found: ListedOperation,
    named: Operation,
    action: str,
    planned: Sequence[PlannedStep | RefusedStep],
    *,
    is_memory: bool,
) -> UndoReport:
    url = session.names.store_url
    seen = progress(planned, total=len(planned), label=f"{action}ing")
    reason = named.reason if action == REDO else None
    with session.recorder.operation(action, undoes=found.op, reason=reason) as recording:
        if is_memory:
            report = take_back_items(url, seen, recording)
        else:
            report = take_back(url, seen, recording, [session.store, session.rows])
        recording.finish(stopped_by(report))
    return report


def _explain(session: Session, found: ListedOperation, refused: RefusedStep) -> None:
    """Add to the error of a step which operation has to be undone first, if there is one."""
    if refused.error.hint is None and (later := _later(found, refused)):
        first = shell.command("ckpt", *session.names.words, "undo", ids=[later])
        refused.error.hint = f"undo the later operation first: `{first}`"


def _later(found: ListedOperation, refused: RefusedStep) -> str | None:
    """Return the later operation that added what an error names, or that used the thread."""
    said, is_used = refused.error.message, isinstance(refused.error, StoreChanged)
    for one in operations(OperationLog.of_user(), found.operation.place):
        if one.op == found.op:
            return None
        operation = one.operation
        if one.undone_by is not None or refused.step.thread_id not in operation.threads:
            continue
        is_user = is_used and (operation.action not in {UNDO, REDO} or bool(operation.added))
        if is_user or any(added in said for added in operation.added):
            return one.op
    return None
