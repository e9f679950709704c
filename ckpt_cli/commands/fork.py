"""`ckpt fork`: go on from a checkpoint elsewhere."""

from __future__ import annotations

from typing import Annotated

import typer

from ckpt_cli.commands.carrying_out import carry_out
from ckpt_cli.options import AsOf, At, DryRun, Force, Reason, Yes
from ckpt_cli.reading.back import Back, find_target
from ckpt_cli.reading.clone import plan_clone
from ckpt_cli.reading.rollback import Wishes, plan_rollback
from ckpt_cli.session import Session


def fork(
    ctx: typer.Context,
    thread: Annotated[
        str, typer.Argument(metavar="THREAD[@REF]", help="Thread id, perhaps with a checkpoint.")
    ],
    ref: Annotated[
        str | None, typer.Argument(metavar="[REF]", help="The checkpoint to go on from.")
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="NEW", help="Copy it to a new thread.")
    ] = None,
    at: At = None,
    as_of: AsOf = None,
    reason: Reason = None,
    force: Force = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Go on from a checkpoint in a new branch or thread.

    Without --to, a copy of the checkpoint becomes the thread's head, as with rollback. With it,
    the checkpoint and what led to it are copied to a new thread; of a thread's head also what its
    tasks stored, so that a question that waits there waits in both.

    \b
      ckpt -s agent.db fork user-42 head --to user-42-try
      ckpt -s agent.db fork user-42 step:3 --to what-if --dry-run
    """
    session: Session = ctx.obj
    back = Back(ref, at, as_of)
    target = find_target(session.store, thread, back, session.now, session.zone, session.note)
    if to is not None:
        plan = plan_clone(target.reader, session.rows, target.checkpoint_id, to, reason)
    else:
        wishes = Wishes(reason=reason, fork=True, force=force)
        plan = plan_rollback(target.reader, session.rows, target.checkpoint_id, session.now, wishes)
    question = f"Fork thread '{target.reader.thread_id}'?"
    carry_out(session, plan, question, dry_run=dry_run, yes=yes)
