"""`ckpt undo`: undo the last rollback, fork or repair."""

from __future__ import annotations

from typing import Annotated

from ckpt_cli.commands.apply_plan import show_and_apply
from ckpt_cli.options import DryRun, Force, Yes, argument
from ckpt_cli.plans.undo import plan_undo
from ckpt_cli.session import Session
from ckpt_cli.threads.target import find_thread


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
    thread and nothing used it since, the whole thread is removed.

    \b
      ckpt -s agent.db undo user-42
      ckpt -s agent.db undo user-42 --dry-run
    """
    reader = find_thread(session.store, thread, session.note)
    plan = plan_undo(reader, session.rows, session.now, force=force)
    question = f"Undo the last change of thread '{reader.thread_id}'?"
    show_and_apply(session, plan, question, dry_run=dry_run, yes=yes)
