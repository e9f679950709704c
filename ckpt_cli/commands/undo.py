"""`ckpt undo`: take back the last change of a thread, or one operation."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated

from typer import Argument, Context, Exit

from ckpt_backends import shell
from ckpt_backends.errors import (
    CkptError,
    NotFound,
    PartlyDone,
    StoreChanged,
    StoreUnavailable,
    UsageError,
)
from ckpt_cli.api.answer import Answer
from ckpt_cli.apply.changes import ChangeReport
from ckpt_cli.commands.changing import carried_out, is_agreed, show_and_apply, tell_done
from ckpt_cli.commands.plan_out import PlanOut, plannable
from ckpt_cli.diagnostics import progress
from ckpt_cli.operations.log import OperationLog, place_of
from ckpt_cli.options import DryRun, Force, Yes
from ckpt_cli.plans.proposal import Proposal
from ckpt_cli.plans.undo import Undo, original_of, undo_of_operation, undo_of_thread
from ckpt_cli.queries.operations import (
    REDO,
    UNDO,
    ListedOperation,
    changes_of_thread,
    newest_change,
    operation_named,
    operations,
)
from ckpt_cli.render.operations import ShownUndo, operation_text, undo_view
from ckpt_cli.render.text import field, line
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
        _undo_thread(session, what, force=force)
        return
    take_back_operation(session, found, force=force)


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


def _undo_thread(session: Session, thread: str, *, force: bool) -> None:
    """Take back the last change of a thread, as the log or the thread itself tells it."""
    try:
        undo = undo_of_thread(session, thread, session.note, force=force)
    except NotFound as error:
        if _OP.fullmatch(thread) and error.message.startswith("no thread"):
            error.message = f"no thread '{thread}', and no operation whose id begins like this"
            error.hint = f"{error.hint}; `ckpt ops list` lists the operations"
        raise
    _take_back(session, undo)


def take_back_operation(session: Session, found: ListedOperation, *, force: bool = False) -> None:
    """Show what takes back an operation and, unless it is a dry run, carry it out.

    Raises `Refused` if it cannot be taken back, `StoreChanged` if all threads were used since, and
    `PartlyDone` if some were.
    """

    def watch(planned: Iterator[Proposal], total: int) -> Iterator[Proposal]:
        return progress(planned, total=total, label="planning")

    undo = undo_of_operation(session, found, force=force, watch=watch)
    _take_back(session, undo)


def _take_back(session: Session, undo: Undo) -> None:
    """Show what takes back a change and, unless it is a dry run, carry it out."""
    if session.review is not None and undo.found is not None:
        session.review.see({"operation": undo.undoes})
    if undo.single is None:
        _take_back_steps(session, undo)
        return
    thread_id, found = undo.single.thread_id, undo.found
    if found is None:
        question = f"Undo the last change of thread '{thread_id}'?"
        show_and_apply(session, undo.single, question, undoes=undo.undoes)
        return
    named = original_of(found)
    name = field(f"{undo.action}es", operation_text(named, session.now), session.output.width)
    show_and_apply(
        session,
        undo.single,
        f"{undo.action.title()} {named.action} {named.op} of thread '{thread_id}'?",
        undoes=found.op,
        more={"undoes": found.op, "more": tuple(name)},
    )


def _take_back_steps(session: Session, undo: Undo) -> None:
    """Take back the steps of an operation, the last one first."""
    found, planned, action = undo.found, undo.proposals, undo.action
    assert found is not None  # noqa: S101 - only operations have steps
    named, is_memory = original_of(found), planned[0].thread_id is None
    if session.review is not None:
        for one in planned:
            session.review.see_step(one, None if is_memory else session.rows)
    refused = [one for one in planned if one.error is not None]
    if refused and refused[0].error is not None:
        _explain(session, found, refused[0].thread_id, refused[0].error)
        if len(refused) == len(planned):
            raise refused[0].error

    shown = Answer(ShownUndo(undo, named, session.consent.dry_run), undo_view(undo))
    show = partial(session.show, shown)
    going = [one for one in planned if one.step is not None]
    question = f"{action.title()} {named.action} {named.op} in {_amount(going)}?"
    if not is_agreed(session, show, question):
        return
    report, _ = carried_out(
        session,
        progress(planned, total=len(planned), label=f"{action}ing"),
        action,
        reason=named.reason if action == REDO else None,
        undoes=found.op,
        total=len(planned),
        ended=_ended,
    )
    if session.consent.yes or session.output.machine:
        show()
    if report.done:
        did = "undid" if action == UNDO else "redid"
        tell_done(session, [line(f"{did} {named.action} {named.op} in {_amount(report.done)}")])
    if report.signal == signal.SIGINT:
        raise Exit(130)
    _conclude(report, "part" if is_memory else "thread")


def _amount(steps: Sequence[Proposal]) -> str:
    is_memory = any(one.thread_id is None for one in steps)
    return counted(sum(one.number for one in steps), "item" if is_memory else "thread")


def _ended(report: ChangeReport) -> str:
    """Return why an undo ended early, for the log; `''` if it did not."""
    return report.stopped or next((one.message for one in report.errors), "")


def _conclude(report: ChangeReport, noun: str) -> None:
    """Raise the error if nothing was done, or `PartlyDone` if something is left."""
    errors = report.errors
    if report.error is not None:
        raise report.error
    if errors and not report.done:
        raise errors[0]
    number = len(errors) + report.left
    if number:
        why = errors[0].message if errors else "stopped"
        first = errors[0].hint if errors else None
        again = "run the same command again for the rest"
        raise PartlyDone(
            f"left {number} of {number + len(report.done)} {noun}s unchanged: {why}",
            hint=again if first is None else f"{first}; then {again}",
        )


def _explain(
    session: Session, found: ListedOperation, thread_id: str | None, error: CkptError
) -> None:
    """Add to the error of a step which operation has to be undone first, if there is one."""
    if error.hint is None and (later := _later(found, thread_id, error)):
        first = shell.command("ckpt", *session.names.words, "undo", ids=[later])
        error.hint = f"undo the later operation first: `{first}`"


def _later(found: ListedOperation, thread_id: str | None, error: CkptError) -> str | None:
    """Return the later operation that added what an error names, or that used the thread."""
    for one in operations(OperationLog.of_user(), found.operation.place):
        if one.op == found.op:
            return None
        operation = one.operation
        if one.undone_by is not None or thread_id not in operation.threads:
            continue
        is_change = operation.action not in {UNDO, REDO} or bool(operation.added)
        is_user = isinstance(error, StoreChanged) and is_change
        if is_user or any(added in error.message for added in operation.added):
            return one.op
    return None
