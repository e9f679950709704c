"""`ckpt fork`: branch off from a checkpoint, in the same thread or a new one."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from ckpt_backends.errors import UsageError
from ckpt_cli.commands.apply_plan import show_and_apply
from ckpt_cli.commands.plan_out import PlanOut, plannable
from ckpt_cli.commands.thread_targets import ThreadTargets, names_and_ref
from ckpt_cli.core.forking.edit_state import parse_edit
from ckpt_cli.core.forking.plan import CheckpointPlan
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
    takes,
)
from ckpt_cli.plans.fork_to_thread import plan_fork_to_thread
from ckpt_cli.plans.one_of_many import new_thread_id
from ckpt_cli.plans.rollback import plan_rollback
from ckpt_cli.plans.rollback_target import FORK_OPTIONS, TargetOptions, find_target
from ckpt_cli.plans.root_branch import RollbackOptions
from ckpt_cli.session import Session


@command_options
class ForkArguments:
    """The arguments and options of `ckpt fork`."""

    thread: OptionalThread = None
    ref: Annotated[
        str | None,
        Argument(metavar="REF", help="Checkpoint to fork from. [default with --to: head]"),
    ] = None
    more: MoreThreads = None
    to: Annotated[
        str | None,
        Option(
            "--to",
            metavar="NEW",
            help="Fork to a new thread with the id NEW, such as '{thread}-retry'.",
        ),
    ] = None
    match: Match = None
    where: Where = None
    at: At = None
    as_of: AsOf = None
    set_: Annotated[
        list[str] | None,
        Option(
            "--set",
            metavar="CHANNEL=JSON",
            help="Merge a value with the channel's reducer; repeatable.",
        ),
    ] = None
    append: Annotated[
        list[str] | None,
        Option("--append", metavar="CHANNEL=JSON", help="Append an item to a list; repeatable."),
    ] = None
    replace: Annotated[
        list[str] | None,
        Option("--replace", metavar="CHANNEL=JSON", help="Replace the stored value; repeatable."),
    ] = None
    as_node: Annotated[
        str | None, Option("--as-node", metavar="NODE", help="Continue as if NODE had just run.")
    ] = None
    reason: Reason = None
    force: Force = False
    plan_out: PlanOut = None
    dry_run: DryRun = False
    yes: Yes = False

    @property
    def of_plan(self) -> RollbackOptions:
        """The options of the plan. Raises `UsageError` for an edit that cannot be parsed."""
        edits = [parse_edit("set", text) for text in self.set_ or ()]
        edits += [parse_edit("append", text) for text in self.append or ()]
        edits += [parse_edit("replace", text) for text in self.replace or ()]
        return RollbackOptions(
            reason=self.reason,
            fork=True,
            edits=tuple(edits),
            as_node=self.as_node,
            force=self.force,
        )

    def target(self, ref: str | None) -> TargetOptions:
        """Return how the checkpoint was chosen; `ref` is the REF of `THREAD REF`."""
        return TargetOptions(
            ref, self.at, self.as_of, options=FORK_OPTIONS, head_by_default=self.to is not None
        )


@plannable("fork")
@takes(ForkArguments)
def fork(session: Session, options: ForkArguments) -> None:
    """Fork a branch or a new thread from a checkpoint.

    Without --to, a copy of the checkpoint becomes the thread's head, as with rollback. With --to,
    the checkpoint and its ancestors are copied to a new thread. A copy of the head also gets the
    writes of its tasks, so that a waiting question waits in both threads. '{thread}' in NEW is
    the id of the thread that is forked.

    --set does what Command(update=...) does: the application's reducer merges the value when the
    thread resumes. --append and --replace change the stored value without the reducer.
    --as-node continues with the nodes that followed NODE when it last ran in this thread.

    With --where, --match or several threads, shows one plan for all of them and asks once.
    -o ndjson prints the threads to resume, one a line.

    ```
    ckpt -s agent.db fork user-42 --to user-42-try
    ckpt -s agent.db fork user-42 step:3 --set 'messages=[{"role": "user", "content": "Kyoto"}]'
    ckpt -s agent.db fork user-42 step:3 --replace 'hotel={"name": "Ryokan"}' --dry-run
    ckpt -s agent.db fork user-42 f169 --append 'notes="checked"' --as-node review
    ckpt -s agent.db fork --where 'status = error' --to '{thread}-retry'
    ```
    """
    if options.to == "":
        raise UsageError("the new thread id is empty", hint="ckpt fork THREAD --to NEW")
    has_choice = bool(options.target(None).given)
    names, ref = names_and_ref(
        session, options.thread, options.ref, options.more, has_choice=has_choice
    )
    targets = ThreadTargets(names, None, options.match, tuple(options.where or ()), has_all=False)
    targets.check()
    if targets.is_several:
        # One thread does not need it.
        from ckpt_cli.commands.rollback_many import rollback_many

        rollback_many(
            session,
            targets,
            options.target(None),
            options.of_plan,
            to=options.to,
            dry_run=options.dry_run,
            yes=options.yes,
        )
        return
    plan = _plan(session, options, names[0], ref)
    question = f"Fork thread '{plan.before.thread_id}'?"
    show_and_apply(
        session,
        plan,
        question,
        dry_run=options.dry_run,
        yes=options.yes,
        reason=options.reason,
    )


def _plan(session: Session, options: ForkArguments, thread: str, ref: str | None) -> CheckpointPlan:
    """Plan the fork of one thread."""
    plan_options = options.of_plan
    target = find_target(
        session.store, thread, options.target(ref), session.now, session.zone, session.note
    )
    if options.to is not None:
        return plan_fork_to_thread(
            target.reader,
            session.editable,
            target.checkpoint_id,
            new_thread_id(options.to, target.reader.thread_id),
            plan_options,
        )
    return plan_rollback(
        target.reader, session.editable, target.checkpoint_id, session.now, plan_options
    )
