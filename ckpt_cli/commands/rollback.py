"""`ckpt rollback`: roll a thread, or many, back to an earlier checkpoint."""

from __future__ import annotations

from typing import Annotated, Literal

from typer import Argument, Context, Option

from ckpt_cli.commands.arguments import MoreThreads, Reason
from ckpt_cli.commands.changing import roll_back
from ckpt_cli.commands.plan_out import PlanOut, plannable
from ckpt_cli.options import At, DryRun, Force, HeadAt, Match, OptionalThread, Where, Yes, number
from ckpt_cli.plans.fork import RollbackOptions
from ckpt_cli.plans.rollback import TargetOptions
from ckpt_cli.session import Session


@plannable("rollback")
def rollback(
    ctx: Context,
    thread: OptionalThread = None,
    ref: Annotated[str | None, Argument(metavar="REF", help="Checkpoint to roll back to.")] = None,
    more: MoreThreads = None,
    match: Match = None,
    where: Where = None,
    at: At = None,
    steps: Annotated[int | None, number("Go N steps back.", "--steps")] = None,
    to_last: Annotated[
        Literal["error", "interrupted", "pending", "done", "unknown"] | None,
        Option("--to-last", metavar="STATUS", help="Newest earlier checkpoint with this status."),
    ] = None,
    last_good: Annotated[
        bool, Option("--last-good", help="Input of the newest step that failed.")
    ] = False,
    reopen: Annotated[
        bool, Option("--reopen", help="Where the last answered question was asked: ask it again.")
    ] = False,
    as_of: HeadAt = None,
    sibling: Annotated[
        bool, Option("--sibling", help="Add the copy as a sibling of the checkpoint, not a child.")
    ] = False,
    root_only: Annotated[
        bool, Option("--root-only", help="Leave the state of stateful subgraphs as it is.")
    ] = False,
    reason: Reason = None,
    force: Force = False,
    plan_out: PlanOut = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Roll a thread back to an earlier checkpoint.

    Adds a copy of the checkpoint, which becomes the thread's head; LangGraph resumes from it as
    after its own time travel. Nothing is changed or removed. The abandoned branch is kept: you
    can read it, and roll back to its checkpoints.

    --last-good goes to the input of the newest step that failed, even if a retry succeeded. The
    failed task and the other tasks of that step run again; answers from earlier steps are kept.

    --reopen goes to the newest checkpoint at which a question was asked that was answered since.
    The answer is not copied, so a resume asks it again.

    With --where, --match or several threads, shows one plan for all of them and asks once. There,
    --last-good leaves out threads where the newest step did not fail. -o ndjson prints the threads
    to resume, one a line.

    ```
    ckpt -s agent.db rollback user-42 f169
    ckpt -s agent.db rollback user-42 --steps 3 --dry-run
    ckpt -s agent.db rollback user-42 --to-last done --yes --reason 'wrong hotel'
    ckpt -s agent.db rollback user-42 --reopen
    ckpt -s agent.db rollback alice@example.com --at step:3
    ckpt -s agent.db rollback --where 'status = error and idle > 1h' --last-good
    ckpt -s agent.db rollback user-41 user-42 --last-good --yes -o ndjson > resume.ndjson
    ```
    """
    session: Session = ctx.obj
    options = RollbackOptions(sibling, root_only, reason, force=force)
    choice = TargetOptions(None, at, as_of, steps, to_last, last_good, reopen)
    words, conditions = (thread, ref, more), (match, where)
    roll_back(session, words, conditions, choice, options)
