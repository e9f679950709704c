"""What `ckpt undo` and `ckpt ops undo` share: show the plan, ask, take the operation back."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from typer import Exit

from ckpt_backends import shell
from ckpt_backends.errors import NotFound, Refused, StoreChanged, UsageError
from ckpt_cli.apply.undo_operation import stopped_by, take_back
from ckpt_cli.apply.writable import refuse_copy
from ckpt_cli.commands.apply_plan import show_and_apply
from ckpt_cli.commands.confirm import confirm
from ckpt_cli.commands.undo_memory import undo_items
from ckpt_cli.diagnostics import progress
from ckpt_cli.operations.log import OperationLog
from ckpt_cli.operations.place import place_of
from ckpt_cli.operations.record import Operation
from ckpt_cli.operations.steps import AppliedChange, OperationStep
from ckpt_cli.plans.undo import newest_added, plan_undo
from ckpt_cli.plans.undo_operation import RefusedStep, planned_steps, refused_steps, turned_now
from ckpt_cli.queries.operations import (
    REDO,
    UNDO,
    ListedOperation,
    operation_named,
    operations,
    steps_left,
)
from ckpt_cli.render.operations import (
    UNDO_PLAN_COLUMNS,
    undo_plan_lines,
    undo_plan_record,
)
from ckpt_cli.render.values.one_line import counted
from ckpt_cli.session import Session
from ckpt_cli.threads.thread import ThreadReader


def named_by(found: ListedOperation, action: str) -> Operation:
    """Return the operation that a person means: a redo is of what the undo took back."""
    original = found.operation.undoes
    if action == REDO and original is not None:
        with suppress(NotFound):
            return operation_named(OperationLog.of_user(), original, None).operation
    return found.operation


def check_place(session: Session, found: ListedOperation) -> None:
    """Raise `UsageError` if an operation changed another store than that of this run."""
    if found.operation.place != place_of(session.names.store_url):
        raise UsageError(
            f"operation {found.op} changed another store: {found.operation.store}",
            hint=f"give that store: -s {shell.word(found.operation.store)}",
        )


def undo_found(
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
    if not found.is_undoable:
        hint = "`ckpt ops list` lists earlier operations; `ckpt ops undo OP` takes back one"
        if action == REDO:
            hint = f"`ckpt ops show {named_by(found, action).op}` shows the original command"
        raise Refused(f"cannot {action} operation {found.op}: {found.why_not}", hint=hint)
    if not dry_run:
        refuse_copy(session.names.store_url)
    steps = steps_left(OperationLog.of_user(), found.op)
    if thread is not None:
        steps = [one for one in steps if one.thread_id == thread]
    if session.review is not None:
        session.review.see({"operation": found.op})
    if steps and steps[0].thread_id is None:
        named = named_by(found, action)
        undo_items(session, found, named, action, steps, dry_run=dry_run, yes=yes)
        return
    if len(steps) == 1 and (reader := _newest_of(session, steps[0])) is not None:
        is_redo = action == REDO
        _undo_newest(
            session, found, reader, steps[0], is_redo=is_redo, force=force, dry_run=dry_run, yes=yes
        )
        return
    _undo_steps(session, found, action, steps, dry_run=dry_run, yes=yes)


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


def _undo_newest(
    session: Session,
    found: ListedOperation,
    reader: ThreadReader,
    step: OperationStep,
    *,
    is_redo: bool,
    force: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Take back the newest change of a thread, by a rollback if it was used since."""
    plan = plan_undo(reader, session.editable, session.now, force=force)
    question = f"Undo the last change of thread '{reader.thread_id}'?"
    if is_redo:
        plan = replace(plan, action="redo")
        question = f"Take back the undo of thread '{reader.thread_id}'?"
    back = step.back.change.removed if isinstance(step.back, AppliedChange) else None
    is_removal = (plan.change.removed or {}).keys() == (back or {}).keys()
    show_and_apply(
        session,
        plan,
        question,
        dry_run=dry_run,
        yes=yes,
        undoes=found.op,
        more=lambda: {"undoes": found.op},
        step=turned_now(step, plan.change, session.rows) if is_removal else None,
    )


def _undo_steps(
    session: Session,
    found: ListedOperation,
    action: str,
    steps: Sequence[OperationStep],
    *,
    dry_run: bool,
    yes: bool,
) -> None:
    """Take back the steps of an operation, the last one first."""
    output, url = session.output, session.names.store_url
    planning = planned_steps(steps, session.store, session.rows)
    planned = list(progress(planning, total=len(steps), label="planning"))
    if session.review is not None:
        for one in planned:
            session.review.see_step(one, session.rows)
    refused = refused_steps(planned, is_redo=action == REDO)
    if not planned:
        raise Refused(f"nothing of operation {found.op} is left to take back")
    if refused:
        _explain(session, found, refused[0])
    if len(refused) == len(planned):
        raise refused[0].error
    named = named_by(found, action)

    def show() -> None:
        output.document(
            lambda: undo_plan_record(found, action, planned, dry_run=dry_run),
            lambda: undo_plan_lines(named, action, planned, session.now, output.width),
            rows=lambda: undo_plan_record(found, action, planned, dry_run=dry_run)["threads"],
            columns=UNDO_PLAN_COLUMNS,
        )

    if dry_run or not (yes or output.machine):
        show()
    if dry_run:
        session.note_dry_run()
        return
    if not yes:
        verb = "Undo" if action == UNDO else "Redo"
        number = counted(len(planned) - len(refused), "thread")
        confirm(f"{verb} {named.action} {named.op} in {number}?")
    seen = progress(planned, total=len(planned), label=f"{action}ing")
    with session.recorder.operation(
        action, undoes=found.op, reason=named.reason if action == REDO else None
    ) as recording:
        report = take_back(url, seen, recording, [session.store, session.rows])
        recording.finish(stopped_by(report))
    if report.not_erased:
        session.note(report.not_erased)
    if yes or output.machine:
        show()
    if report.done:
        did = "undid" if action == UNDO else "redid"
        session.note(f"{did} {named.action} {named.op} in {counted(len(report.done), 'thread')}")
    if report.signal == signal.SIGINT:
        raise Exit(130)
    report.raise_failures()


def _explain(session: Session, found: ListedOperation, refused: RefusedStep) -> None:
    """Add to the error of a step which operation has to be undone first, if there is one."""
    if refused.error.hint is None and (later := _later(found, refused)):
        words = session.names.words
        first = shell.command("ckpt", *words, "ops", "undo", ids=[later])
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
