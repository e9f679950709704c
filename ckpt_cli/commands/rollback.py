"""`ckpt rollback`: roll a thread back to an earlier checkpoint."""

from __future__ import annotations

from typing import Annotated

from ckpt_cli.commands.apply_plan import show_and_apply
from ckpt_cli.commands.plan_out import plannable
from ckpt_cli.options import AsOf, At, DryRun, Force, Reason, Yes, argument, flag, option
from ckpt_cli.plans.rollback import plan_rollback
from ckpt_cli.plans.rollback_target import TargetOptions, find_target
from ckpt_cli.plans.root_branch import RollbackOptions, check_store
from ckpt_cli.session import Session


@plannable("rollback")
def rollback(
    session: Session,
    thread: Annotated[str, argument("THREAD[@REF]", "Thread id, optionally with a checkpoint.")],
    ref: Annotated[str | None, argument("[REF]", "Checkpoint to roll back to.")] = None,
    at: At = None,
    steps: Annotated[int | None, option("N", "Go N steps back.", min=1)] = None,
    to_last: Annotated[
        str | None, option("STATUS", "Newest earlier checkpoint with this status.")
    ] = None,
    last_good: Annotated[bool, flag("Input of the newest step that failed.")] = False,
    as_of: AsOf = None,
    sibling: Annotated[
        bool, flag("Add the copy as a sibling of the checkpoint, not a child.")
    ] = False,
    root_only: Annotated[bool, flag("Leave the state of stateful subgraphs as it is.")] = False,
    reason: Reason = None,
    force: Force = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Roll a thread back to an earlier checkpoint.

    Adds a copy of the checkpoint, which becomes the thread's head; LangGraph resumes from it as
    after its own time travel. Nothing is changed or removed. The abandoned branch is kept: you
    can read it, and roll back to its checkpoints.

    --last-good goes to the input of the newest step that failed, even if a retry succeeded. The
    failed task and the other tasks of that step run again; answers from earlier steps are kept.

    \b
      ckpt -s agent.db rollback user-42 f169
      ckpt -s agent.db rollback user-42 --steps 3 --dry-run
      ckpt -s agent.db rollback user-42 --last-good --dry-run
      ckpt -s agent.db rollback user-42 --to-last done --yes --reason 'wrong hotel'
      ckpt -s agent.db rollback alice@example.com --at step:3
    """
    target_options = TargetOptions(ref, at, as_of, steps, to_last, last_good)
    check_store(session.rows)
    target = find_target(
        session.store, thread, target_options, session.now, session.zone, session.note
    )
    plan = plan_rollback(
        target.reader,
        session.editable,
        target.checkpoint_id,
        session.now,
        RollbackOptions(sibling, root_only, reason, force=force),
    )
    question = f"Roll back thread '{plan.main.key.thread_id}'?"
    show_and_apply(session, plan, question, dry_run=dry_run, yes=yes, reason=reason)
