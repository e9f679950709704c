"""The kinds of `ckpt repair`: messages, values and answers that are stored wrongly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated

from typer import Argument, Option

from ckpt_backends.errors import NotFound
from ckpt_cli.commands.apply_plan import show_and_apply
from ckpt_cli.commands.change_many import change_many
from ckpt_cli.commands.plan_out import PlanOut, plannable
from ckpt_cli.commands.repair_values import as_thread_change, nothing_damaged, show_values_repair
from ckpt_cli.commands.thread_targets import ThreadTargets
from ckpt_cli.core.forking.plan import CheckpointPlan
from ckpt_cli.core.forking.thread_change import ThreadChange
from ckpt_cli.core.replay.reducer_options import known_reducers
from ckpt_cli.core.replay.repair_plan import Repair
from ckpt_cli.options import (
    At,
    DryRun,
    Force,
    Match,
    Reason,
    Where,
    Yes,
    command_options,
    takes,
)
from ckpt_cli.plans.head_copy import with_reason
from ckpt_cli.plans.repair_values import plan_value_repair
from ckpt_cli.plans.repair_writes import plan_write_repair
from ckpt_cli.render.change_many import ChangeWords
from ckpt_cli.session import Session
from ckpt_cli.threads.thread import ThreadReader

_WORDS = ChangeWords("repair", "repair", "repaired", "repairing")


@command_options
class RepairOptions:
    """The arguments and options of all repairs."""

    threads: Annotated[
        list[str] | None,
        Argument(metavar="THREAD[@REF]", help="Thread ids, optionally with a checkpoint."),
    ] = None
    at: At = None
    match: Match = None
    where: Where = None
    everything: Annotated[bool, Option("--all", help="Repair all threads that need it.")] = False
    reason: Reason = None
    force: Force = False
    plan_out: PlanOut = None
    dry_run: DryRun = False
    yes: Yes = False

    @property
    def targets(self) -> ThreadTargets:
        """The threads that are named or described."""
        return ThreadTargets(
            tuple(self.threads or ()),
            self.at,
            self.match,
            tuple(self.where or ()),
            everything=self.everything,
        )


@command_options
class MessageRepairOptions(RepairOptions):
    """The arguments and options of `ckpt repair messages`."""

    content: Annotated[
        str | None,
        Option("--content", metavar="CONTENT", help="Content of the results that are added."),
    ] = None


@plannable("repair messages")
@takes(MessageRepairOptions)
def messages(session: Session, options: MessageRepairOptions) -> None:
    """Answer tool calls that have no result.

    Adds a copy of the head, or of REF, in which each tool call without a result has one with the
    status error, and results that answer no call are removed. Model APIs refuse such histories.
    A call is left alone while it waits for an answer, or while its tool has yet to run. Where many
    threads are repaired, a call in the last message is left to the application.

    ```
    ckpt -s agent.db repair messages user-42 --dry-run
    ckpt -s agent.db repair messages user-42 --content 'The server was restarted.'
    ckpt -s prod repair messages --where 'status = error' --yes -o json
    ```
    """
    # Another kind of repair does not need it.
    from ckpt_cli.plans.repair_messages import AwaitedCall, plan_message_repair

    def plan(reader: ThreadReader, checkpoint_id: str | None) -> CheckpointPlan:
        try:
            return plan_message_repair(
                reader,
                session.editable,
                checkpoint_id,
                session.now,
                content=options.content,
                force=options.force,
                final=not options.targets.is_several,
            )
        except AwaitedCall as error:
            if options.targets.is_several:
                raise NotFound(error.message) from error
            raise

    _repair(session, options, "messages", plan)


@plannable("repair writes")
@takes(RepairOptions)
def writes(session: Session, options: RepairOptions) -> None:
    """Drop answers that were used already, or that made a task fail.

    LangGraph keeps the answer of Command(resume=...) after a task has used it, and invoke(None)
    gives it to the next question of that step. It also keeps an answer with which a task failed,
    and uses it again before any later one. Adds a copy of the head without these answers, so that
    the question is asked again. The copy has the results of the tasks that finished, and the
    answers of other questions. Where many threads are repaired, answers of failed tasks are kept:
    the failure may have another cause.

    ```
    ckpt -s agent.db repair writes user-42 --dry-run
    ckpt -s prod repair writes --where 'status = interrupted'
    ```
    """

    def plan(reader: ThreadReader, checkpoint_id: str | None) -> CheckpointPlan:
        return plan_write_repair(
            reader,
            session.editable,
            checkpoint_id,
            session.now,
            force=options.force,
            failed=not options.targets.is_several,
        )

    _repair(session, options, "the answers", plan)


@plannable("repair values")
@takes(RepairOptions)
def values(session: Session, options: RepairOptions) -> None:
    """Restore values that are missing or unreadable.

    Rebuilds them from what the tasks wrote, as `ckpt replay` does. It never changes a readable
    value, and refuses a value on which the possible reducers disagree.

    Where a store keeps values apart from checkpoints, they are stored again in their place. Where
    they are part of a checkpoint, a copy of the head gets them; other checkpoints are left alone.

    ```
    ckpt -s agent.db repair values user-42 --dry-run
    ckpt -s agent.db repair values user-42 --reducer notes=append
    ckpt -s postgresql://db/agents repair values --all --yes
    ```
    """
    told = known_reducers(dict(session.names.reducers))
    targets = options.targets
    targets.check()

    def plan(reader: ThreadReader, checkpoint_id: str | None) -> Repair:
        return _value_plan(session, options, told, reader, checkpoint_id)

    if targets.is_several:

        def plan_one(reader: ThreadReader, checkpoint_id: str | None) -> ThreadChange | None:
            return as_thread_change(session, plan(reader, checkpoint_id))

        change_many(
            session,
            targets.all(session),
            plan_one,
            _WORDS,
            dry_run=options.dry_run,
            yes=options.yes,
            reason=options.reason,
        )
        return
    reader, checkpoint_id = targets.one(session)
    found = plan(reader, checkpoint_id)
    if not found.rebuilt and not found.refused:
        raise nothing_damaged(reader.thread_id)
    show_values_repair(
        session, found, dry_run=options.dry_run, yes=options.yes, reason=options.reason
    )


def _value_plan(
    session: Session,
    options: RepairOptions,
    told: Mapping[str, str],
    reader: ThreadReader,
    checkpoint_id: str | None,
) -> Repair:
    found = plan_value_repair(
        reader, session.editable, checkpoint_id, session.now, told, force=options.force
    )
    if found.plan is None:
        return found
    plan = with_reason(found.plan, options.reason)
    return replace(found, plan=plan, change=plan.change)


def _repair(
    session: Session,
    options: RepairOptions,
    what: str,
    plan_one: Callable[[ThreadReader, str | None], CheckpointPlan],
) -> None:
    """Repair one thread as `rollback` changes one, or many."""
    targets = options.targets
    targets.check()

    def plan(reader: ThreadReader, checkpoint_id: str | None) -> CheckpointPlan:
        return with_reason(plan_one(reader, checkpoint_id), options.reason)

    if targets.is_several:

        def plan_for_many(reader: ThreadReader, checkpoint_id: str | None) -> ThreadChange | None:
            try:
                found = plan(reader, checkpoint_id)
            except NotFound:
                return None
            mends = found.mends or (found.why,)
            return ThreadChange(reader.thread_id, found.change, found.change.heads, mends, found)

        change_many(
            session,
            targets.all(session),
            plan_for_many,
            _WORDS,
            dry_run=options.dry_run,
            yes=options.yes,
            reason=options.reason,
        )
        return
    reader, checkpoint_id = targets.one(session)
    question = f"Repair {what} of thread '{reader.thread_id}'?"
    found = plan(reader, checkpoint_id)
    show_and_apply(
        session,
        found,
        question,
        dry_run=options.dry_run,
        yes=options.yes,
        reason=options.reason,
    )
