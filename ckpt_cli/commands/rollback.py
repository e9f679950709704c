"""`ckpt rollback`: go back to an earlier checkpoint."""

from __future__ import annotations

from typing import Annotated

import typer

from ckpt_cli.commands.carrying_out import carry_out
from ckpt_cli.options import AsOf, At, DryRun, Force, Reason, Yes
from ckpt_cli.reading.back import Back, find_target
from ckpt_cli.reading.rollback import Wishes, plan_rollback
from ckpt_cli.session import Session


def rollback(
    ctx: typer.Context,
    thread: Annotated[
        str, typer.Argument(metavar="THREAD[@REF]", help="Thread id, perhaps with a checkpoint.")
    ],
    ref: Annotated[
        str | None, typer.Argument(metavar="[REF]", help="The checkpoint to go back to.")
    ] = None,
    at: At = None,
    steps: Annotated[
        int | None, typer.Option("--steps", metavar="N", min=1, help="So many steps back.")
    ] = None,
    to_last: Annotated[
        str | None,
        typer.Option("--to-last", metavar="STATUS", help="The last one that was done, say."),
    ] = None,
    last_good: Annotated[
        bool, typer.Option("--last-good", help="The one before the first error.")
    ] = False,
    as_of: AsOf = None,
    sibling: Annotated[
        bool, typer.Option("--sibling", help="Put the copy beside the checkpoint, not under it.")
    ] = False,
    root_only: Annotated[
        bool, typer.Option("--root-only", help="Leave the memory of subgraphs as it is.")
    ] = False,
    reason: Reason = None,
    force: Force = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Go back to an earlier checkpoint, by adding a copy of it.

    LangGraph resumes from the copy as from its own time travel. Nothing that is stored is
    changed or removed; the branch that is left can still be read and gone back to.

    \b
      ckpt -s agent.db rollback user-42 f169
      ckpt -s agent.db rollback user-42 --steps 3 --dry-run
      ckpt -s agent.db rollback user-42 --to-last done --yes --reason 'wrong hotel'
      ckpt -s agent.db rollback alice@example.com --at step:3
    """
    session: Session = ctx.obj
    back = Back(ref, at, as_of, steps, to_last, last_good)
    target = find_target(session.store, thread, back, session.now, session.zone, session.note)
    plan = plan_rollback(
        target.reader,
        session.rows,
        target.checkpoint_id,
        session.now,
        Wishes(sibling, root_only, reason, force=force),
    )
    question = f"Roll thread '{plan.main.key.thread_id}' back?"
    carry_out(session, plan, question, dry_run=dry_run, yes=yes)
