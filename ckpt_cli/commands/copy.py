"""`ckpt threads copy`: copy a thread with all its history."""

from __future__ import annotations

from typing import Annotated

import typer

from ckpt_backends.errors import UsageError
from ckpt_cli.commands.carrying_out import write
from ckpt_cli.options import DryRun, Yes
from ckpt_cli.reading.copy import plan_copy
from ckpt_cli.reading.thread import ThreadReader
from ckpt_cli.render.lines import line
from ckpt_cli.render.table import Column
from ckpt_cli.render.text import safe_text
from ckpt_cli.session import Session


def copy(
    ctx: typer.Context,
    thread: Annotated[str, typer.Argument(metavar="THREAD", help="The thread to copy.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The id of the copy.")],
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Copy a thread with all its history.

    All branches and namespaces are copied as they are, with what waits for an answer. `ckpt fork
    --to` copies what led to one checkpoint, and can be undone.

    \b
      ckpt -s agent.db threads copy user-42 user-42-try
      ckpt -s agent.db threads copy user-42 before-migration --yes
    """
    session: Session = ctx.obj
    if not new:
        raise UsageError("the copy has no name", hint="give one: ckpt threads copy THREAD NEW")
    if session.settings.get("copy") and not dry_run:
        raise UsageError("a private copy is not what is to be changed", hint="leave out --copy")
    plan = plan_copy(ThreadReader(session.store, thread), session.rows, new)
    if not dry_run:
        number = f"{plan.checkpoints} checkpoints and {plan.writes} writes"
        write(session, plan.change, f"Copy {number} of '{thread}' to '{new}'?", yes=yes)
    record = {
        "thread_id": new,
        "copied_from": plan.source,
        "checkpoints": plan.checkpoints,
        "writes": plan.writes,
        "dry_run": dry_run,
    }
    verb = "would copy" if dry_run else "copied"
    text = f"{verb} {plan.checkpoints} checkpoints and {plan.writes} writes to "
    session.output.document(
        lambda: record,
        lambda: [line(text, (safe_text(new), "head"))],
        rows=lambda: [record],
        columns=[Column(key.upper(), key) for key in record],
    )
    if dry_run:
        session.note("a dry run: nothing was written")
