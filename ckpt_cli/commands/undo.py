"""`ckpt undo`: undo the last change of a thread."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from typer import Argument, Context

from ckpt_backends.checkpoint_ids import time_of
from ckpt_backends.errors import NotFound, UsageError
from ckpt_cli.commands.apply_plan import show_and_apply, write
from ckpt_cli.commands.plan_out import PlanOut, plannable
from ckpt_cli.commands.undo_operation import undo_found
from ckpt_cli.operations.log import OperationLog
from ckpt_cli.operations.place import place_of
from ckpt_cli.operations.steps import AppliedChange, OperationStep
from ckpt_cli.options import DryRun, Force, Yes
from ckpt_cli.plans.undo import newest_added, plan_undo
from ckpt_cli.plans.undo_values import ValuesUndo, forget_repair, plan_values_undo
from ckpt_cli.queries.operations import (
    REDO,
    UNDO,
    ListedOperation,
    changes_of_thread,
    is_recorded,
    steps_left,
)
from ckpt_cli.render.repair import VALUES_UNDO_COLUMNS, values_undo_lines, values_undo_record
from ckpt_cli.render.values.one_line import counted
from ckpt_cli.session import Session
from ckpt_cli.threads.target import find_thread
from ckpt_cli.threads.thread import ThreadReader


@plannable("undo")
def undo(
    ctx: Context,
    thread: Annotated[str, Argument(metavar="THREAD", help="Thread id.")],
    force: Force = False,
    plan_out: PlanOut = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Undo the last change of a thread.

    Takes back what ckpt last did to the thread, such as a rollback, fork, repair, import, or a
    purge with --archive. If nothing followed an added checkpoint, it is removed, and the thread is
    as before. Otherwise the thread is rolled back to its head from before. `ckpt ops` takes back
    earlier changes.

    A rollback or fork by another user, or on another machine, is found in the thread itself.

    ```
    ckpt -s agent.db undo user-42
    ckpt -s agent.db undo user-42 --dry-run
    ```
    """
    session: Session = ctx.obj
    session.settle()
    recorded = _recorded(session, thread)
    try:
        reader = find_thread(session.store, thread, session.note)
    except NotFound:
        if recorded is None:
            raise
    else:
        if recorded is None or _is_of_values(recorded):
            stored = plan_values_undo(reader, session.rows)
            if stored is not None:
                op = None if recorded is None else recorded.op
                _undo_values(session, stored, op, dry_run=dry_run, yes=yes)
                return
        is_lost = recorded is not None and _has_lost_steps(reader, recorded)
        if recorded is None or is_lost or _has_newer(session, reader, recorded):
            plan = plan_undo(reader, session.editable, session.now, force=force)
            question = f"Undo the last change of thread '{reader.thread_id}'?"
            undoes = recorded.op if is_lost and recorded is not None else None
            show_and_apply(session, plan, question, dry_run=dry_run, yes=yes, undoes=undoes)
            return
    action = REDO if recorded.operation.action == UNDO else UNDO
    undo_found(session, recorded, action, thread=thread, force=force, dry_run=dry_run, yes=yes)


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


def _is_of_values(one: ListedOperation) -> bool:
    """Return whether an operation stored values of one thread, and added no checkpoint."""
    return one.operation.action == "repair" and not one.operation.added


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


def _undo_values(
    session: Session, found: ValuesUndo, op: str | None, *, dry_run: bool, yes: bool
) -> None:
    """Take back the values that a repair stored."""
    if session.review is not None:
        session.review.see_change(found.change, session.rows)
    output = session.output

    def show() -> None:
        output.document(
            lambda: values_undo_record(found, dry_run=dry_run),
            lambda: values_undo_lines(found),
            rows=lambda: values_undo_record(found, dry_run=dry_run)["values"],
            columns=VALUES_UNDO_COLUMNS,
        )

    if dry_run or not output.machine:
        show()
    if dry_run:
        session.note_dry_run()
        return
    write(
        session,
        found.change,
        f"Undo the last repair of thread '{found.thread_id}'?",
        yes=yes,
        action=UNDO,
        undoes=op,
    )
    try:
        forget_repair(session.rows, found)
    except UsageError as error:
        session.warn(f"{error.message}; the values were taken back all the same")
    if output.machine:
        show()
    session.note(f"took back {counted(len(found.values), 'value')}")
