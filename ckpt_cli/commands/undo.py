"""`ckpt undo`: undo the last rollback, fork or repair."""

from __future__ import annotations

from typing import Annotated

from ckpt_backends.errors import UsageError
from ckpt_cli.commands.apply_plan import show_and_apply, write
from ckpt_cli.commands.plan_out import plannable
from ckpt_cli.options import DryRun, Force, Yes, argument
from ckpt_cli.plans.plan_facts import change_fact
from ckpt_cli.plans.undo import plan_undo
from ckpt_cli.plans.undo_values import ValuesUndo, forget_repair, plan_values_undo
from ckpt_cli.render.repair import VALUES_UNDO_COLUMNS, values_undo_lines, values_undo_record
from ckpt_cli.render.values.one_line import counted
from ckpt_cli.session import Session
from ckpt_cli.threads.target import find_thread


@plannable("undo")
def undo(
    session: Session,
    thread: Annotated[str, argument("THREAD", "Thread id.")],
    force: Force = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Undo the last rollback, fork or repair.

    If nothing followed the added checkpoint, it is removed, and the thread is as before.
    Otherwise the thread is rolled back to its head from before. If `fork --to` created the
    thread and nothing used it since, the whole thread is removed. Values that `repair values`
    stored again are removed, or replaced by what was there, if you made the repair as this user.

    \b
      ckpt -s agent.db undo user-42
      ckpt -s agent.db undo user-42 --dry-run
    """
    reader = find_thread(session.store, thread, session.note)
    stored = plan_values_undo(reader, session.rows)
    if stored is not None:
        _undo_values(session, stored, dry_run=dry_run, yes=yes)
        return
    plan = plan_undo(reader, session.editable, session.now, force=force)
    question = f"Undo the last change of thread '{reader.thread_id}'?"
    show_and_apply(session, plan, question, dry_run=dry_run, yes=yes)


def _undo_values(session: Session, found: ValuesUndo, *, dry_run: bool, yes: bool) -> None:
    """Take back the values that a repair stored."""
    if session.review is not None:
        session.review.see(change_fact(found.change))
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
        session.note("dry run: nothing was written")
        return
    write(
        session,
        found.change,
        f"Undo the last repair of thread '{found.thread_id}'?",
        yes=yes,
        action="undo",
    )
    try:
        forget_repair(session.rows, found)
    except UsageError as error:
        session.warn(f"{error.message}; the values were taken back all the same")
    if output.machine:
        show()
    session.note(f"took back {counted(len(found.values), 'value')}")
