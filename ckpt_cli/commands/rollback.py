"""`ckpt rollback`: roll a thread, or many, back to an earlier checkpoint."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from ckpt_cli.commands.apply_plan import show_and_apply
from ckpt_cli.commands.plan_out import PlanOut, plannable
from ckpt_cli.commands.thread_targets import ThreadTargets, names_and_ref
from ckpt_cli.options import (
    AsOf,
    At,
    DryRun,
    Force,
    Match,
    MoreThreads,
    OptionalThread,
    Reason,
    Where,
    Yes,
    command_options,
    not_huge,
    takes,
)
from ckpt_cli.plans.rollback import plan_rollback
from ckpt_cli.plans.rollback_target import TargetOptions, find_target
from ckpt_cli.plans.root_branch import RollbackOptions, check_store
from ckpt_cli.session import Session


@command_options
class RollbackArguments:
    """The arguments and options of `ckpt rollback`."""

    thread: OptionalThread = None
    ref: Annotated[str | None, Argument(metavar="REF", help="Checkpoint to roll back to.")] = None
    more: MoreThreads = None
    match: Match = None
    where: Where = None
    at: At = None
    steps: Annotated[
        int | None,
        Option("--steps", metavar="N", help="Go N steps back.", min=1, callback=not_huge),
    ] = None
    to_last: Annotated[
        str | None,
        Option("--to-last", metavar="STATUS", help="Newest earlier checkpoint with this status."),
    ] = None
    last_good: Annotated[
        bool, Option("--last-good", help="Input of the newest step that failed.")
    ] = False
    as_of: AsOf = None
    sibling: Annotated[
        bool, Option("--sibling", help="Add the copy as a sibling of the checkpoint, not a child.")
    ] = False
    root_only: Annotated[
        bool, Option("--root-only", help="Leave the state of stateful subgraphs as it is.")
    ] = False
    reason: Reason = None
    force: Force = False
    plan_out: PlanOut = None
    dry_run: DryRun = False
    yes: Yes = False

    @property
    def of_plan(self) -> RollbackOptions:
        """The options of the plan."""
        return RollbackOptions(self.sibling, self.root_only, self.reason, force=self.force)

    def target(self, ref: str | None) -> TargetOptions:
        """Return how the checkpoint was chosen; `ref` is the REF of `THREAD REF`."""
        return TargetOptions(ref, self.at, self.as_of, self.steps, self.to_last, self.last_good)


@plannable("rollback")
@takes(RollbackArguments)
def rollback(session: Session, options: RollbackArguments) -> None:
    """Roll a thread back to an earlier checkpoint.

    Adds a copy of the checkpoint, which becomes the thread's head; LangGraph resumes from it as
    after its own time travel. Nothing is changed or removed. The abandoned branch is kept: you
    can read it, and roll back to its checkpoints.

    --last-good goes to the input of the newest step that failed, even if a retry succeeded. The
    failed task and the other tasks of that step run again; answers from earlier steps are kept.

    With --where, --match or several threads, shows one plan for all of them and asks once. There,
    --last-good leaves out threads where the newest step did not fail. -o ndjson prints the threads
    to resume, one a line.

    ```
    ckpt -s agent.db rollback user-42 f169
    ckpt -s agent.db rollback user-42 --steps 3 --dry-run
    ckpt -s agent.db rollback user-42 --to-last done --yes --reason 'wrong hotel'
    ckpt -s agent.db rollback alice@example.com --at step:3
    ckpt -s agent.db rollback --where 'status = error and idle > 1h' --last-good
    ckpt -s agent.db rollback user-41 user-42 --last-good --yes -o ndjson > resume.ndjson
    ```
    """
    has_choice = bool(options.target(None).given)
    names, ref = names_and_ref(
        session, options.thread, options.ref, options.more, has_choice=has_choice
    )
    targets = ThreadTargets(names, None, options.match, tuple(options.where or ()), has_all=False)
    targets.check()
    check_store(session.rows)
    if targets.is_several:
        # One thread does not need it.
        from ckpt_cli.commands.rollback_many import rollback_many

        rollback_many(
            session,
            targets,
            options.target(None),
            options.of_plan,
            dry_run=options.dry_run,
            yes=options.yes,
        )
        return
    target = find_target(
        session.store, names[0], options.target(ref), session.now, session.zone, session.note
    )
    plan = plan_rollback(
        target.reader, session.editable, target.checkpoint_id, session.now, options.of_plan
    )
    question = f"Roll back thread '{plan.main.key.thread_id}'?"
    show_and_apply(
        session,
        plan,
        question,
        dry_run=options.dry_run,
        yes=options.yes,
        reason=options.reason,
    )
