"""`ckpt threads copy`: copy a thread with all its history."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Context

from ckpt_backends.errors import UsageError
from ckpt_cli.apply.writable import refuse_copy
from ckpt_cli.commands.apply_plan import write
from ckpt_cli.commands.plan_out import PlanOut, plannable
from ckpt_cli.options import DryRun, Yes
from ckpt_cli.plans.thread_copy import plan_thread_copy
from ckpt_cli.render.terminal.safe_text import safe_text
from ckpt_cli.render.terminal.styled_text import line
from ckpt_cli.render.terminal.table import plain_columns
from ckpt_cli.render.values.one_line import counted
from ckpt_cli.session import Session
from ckpt_cli.threads.thread import ThreadReader


@plannable("threads copy")
def copy(
    ctx: Context,
    thread: Annotated[str, Argument(metavar="THREAD", help="The thread to copy.")],
    new: Annotated[str, Argument(metavar="NEW", help="The id of the copy.")],
    plan_out: PlanOut = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Copy a thread with all its history.

    Copies every branch and namespace, including questions that wait for an answer. To copy only
    the history of one checkpoint, use `ckpt fork --to`, which can be undone.

    ```
    ckpt -s agent.db threads copy user-42 user-42-try
    ckpt -s agent.db threads copy user-42 before-migration --yes
    ```
    """
    session: Session = ctx.obj
    if not new:
        raise UsageError("the new thread id is empty", hint="ckpt threads copy THREAD NEW")
    if not dry_run:
        refuse_copy(session.names.store_url)
    plan = plan_thread_copy(ThreadReader(session.store, thread), session.rows, new)
    if session.review is not None:
        session.review.see_change(plan.change, session.rows)
    amount = f"{counted(plan.checkpoints, 'checkpoint')}, {counted(plan.writes, 'write')}"
    if not dry_run:
        question = f"Copy '{thread}' to '{new}' ({amount})?"
        write(session, plan.change, question, yes=yes, action="threads copy")
    record = {
        "thread_id": new,
        "copied_from": plan.source,
        "checkpoints": plan.checkpoints,
        "writes": plan.writes,
        "dry_run": dry_run,
    }
    text = f"{'Would copy' if dry_run else 'Copied'} {amount} to "
    session.output.document(
        lambda: record,
        lambda: [line(text, (safe_text(new), "head"))],
        rows=lambda: [record],
        columns=plain_columns(*record),
    )
    if dry_run:
        session.note_dry_run()
