"""`ckpt repair`: mend messages, values and answers that are stored wrongly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated

from typer import Argument, Context, Option

from ckpt_backends import shell
from ckpt_backends.errors import NotFound, PartlyDone, Refused
from ckpt_cli.api.answer import Answer
from ckpt_cli.commands import changing
from ckpt_cli.commands.arguments import Reason, ThreadTargets
from ckpt_cli.commands.plan_out import PlanOut, plannable
from ckpt_cli.core.forking import CheckpointPlan, Repair
from ckpt_cli.core.reducers import known_reducers
from ckpt_cli.options import At, DryRun, Force, Match, Where, Yes
from ckpt_cli.plans import repair
from ckpt_cli.plans.proposal import Proposal, new_step
from ckpt_cli.plans.rollback import with_reason
from ckpt_cli.reading.thread import ThreadReader
from ckpt_cli.render.plan import (
    PLAN_VIEW,
    REPAIR,
    REPAIR_VIEW,
    ChangeWords,
    ShownRepair,
    refused_lines,
    undo_command,
)
from ckpt_cli.render.text import line
from ckpt_cli.render.values import counted
from ckpt_cli.session import Session

_WORDS = ChangeWords("repair", "repair", "repaired", "repairing")

Threads = Annotated[
    list[str] | None,
    Argument(metavar="THREAD[@REF]", help="Thread ids, optionally with a checkpoint."),
]
Everything = Annotated[bool, Option("--all", help="Repair all threads that need it.")]


@plannable("repair messages")
def messages(
    ctx: Context,
    threads: Threads = None,
    at: At = None,
    match: Match = None,
    where: Where = None,
    everything: Everything = False,
    content: Annotated[
        str | None,
        Option("--content", metavar="CONTENT", help="Content of the results that are added."),
    ] = None,
    reason: Reason = None,
    force: Force = False,
    plan_out: PlanOut = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
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
    session: Session = ctx.obj
    targets = ThreadTargets(threads, at, match, where, everything=everything)

    def plan(reader: ThreadReader, checkpoint_id: str | None) -> CheckpointPlan:
        try:
            return repair.plan_message_repair(
                reader,
                session.editable,
                checkpoint_id,
                session.now,
                content=content,
                force=force,
                final=not targets.is_several,
            )
        except repair.AwaitedCall as error:
            if targets.is_several:
                raise NotFound(error.message) from error
            raise

    _repair(session, targets, "messages", plan)


@plannable("repair writes")
def writes(
    ctx: Context,
    threads: Threads = None,
    at: At = None,
    match: Match = None,
    where: Where = None,
    everything: Everything = False,
    reason: Reason = None,
    force: Force = False,
    plan_out: PlanOut = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
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
    session: Session = ctx.obj
    targets = ThreadTargets(threads, at, match, where, everything=everything)

    def plan(reader: ThreadReader, checkpoint_id: str | None) -> CheckpointPlan:
        return repair.plan_write_repair(
            reader,
            session.editable,
            checkpoint_id,
            session.now,
            force=force,
            failed=not targets.is_several,
        )

    _repair(session, targets, "the answers", plan)


@plannable("repair values")
def values(
    ctx: Context,
    threads: Threads = None,
    at: At = None,
    match: Match = None,
    where: Where = None,
    everything: Everything = False,
    reason: Reason = None,
    force: Force = False,
    plan_out: PlanOut = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
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
    session: Session = ctx.obj
    targets = ThreadTargets(threads, at, match, where, everything=everything)
    told = known_reducers(dict(session.names.reducers))

    def plan(reader: ThreadReader, checkpoint_id: str | None) -> Repair:
        return _value_plan(session, told, reader, checkpoint_id, force=force)

    if targets.is_several:

        def plan_one(reader: ThreadReader, checkpoint_id: str | None) -> Proposal:
            return _one_of_many(plan(reader, checkpoint_id))

        changing.change_many(session, targets.all(session), plan_one, _WORDS)
        return
    reader, checkpoint_id = targets.one(session)
    found = plan(reader, checkpoint_id)
    if not found.rebuilt and not found.refused:
        nothing = "no value is missing or unreadable"
        raise NotFound(f"nothing to repair in thread '{reader.thread_id}': {nothing}")
    show_values_repair(session, found)


def _value_plan(
    session: Session,
    told: Mapping[str, str],
    reader: ThreadReader,
    checkpoint_id: str | None,
    *,
    force: bool,
) -> Repair:
    found = repair.plan_value_repair(
        reader, session.editable, checkpoint_id, session.now, told, force=force
    )
    if found.plan is None:
        return found
    plan = with_reason(found.plan, session.consent.reason)
    return replace(found, plan=plan, change=plan.change)


def _repair(
    session: Session,
    targets: ThreadTargets,
    what: str,
    plan_one: Callable[[ThreadReader, str | None], CheckpointPlan],
) -> None:
    """Repair one thread as `rollback` changes one, or many."""

    def plan(reader: ThreadReader, checkpoint_id: str | None) -> CheckpointPlan:
        return with_reason(plan_one(reader, checkpoint_id), session.consent.reason)

    if targets.is_several:

        def plan_for_many(reader: ThreadReader, checkpoint_id: str | None) -> Proposal:
            try:
                found = plan(reader, checkpoint_id)
            except NotFound:
                return Proposal(reader.thread_id, state="unneeded")
            return replace(Proposal.of(found), mends=found.mends or (found.why,))

        changing.change_many(session, targets.all(session), plan_for_many, _WORDS)
        return
    reader, checkpoint_id = targets.one(session)
    question = f"Repair {what} of thread '{reader.thread_id}'?"
    found = Proposal.of(plan(reader, checkpoint_id))
    changing.show_and_apply(session, found, question)


def _one_of_many(found: Repair) -> Proposal:
    """Return the repair of one of many threads. Raises `Refused` if nothing can be restored."""
    left = "; ".join(f"{one.place.channel}: {one.reason}" for one in found.refused)
    if not found.rebuilt and left:
        raise Refused(left)
    if not found.rebuilt:
        return Proposal(found.thread_id, state="unneeded")
    names = dict.fromkeys(one.place.channel for one in found.rebuilt)
    mends = (f"{counted(len(found.rebuilt), 'value')} of {', '.join(names)}",)
    return replace(_proposal(found), mends=mends, remark=left)


def _proposal(found: Repair) -> Proposal:
    if found.plan is not None:
        return Proposal.of(found.plan)
    change = found.change
    return Proposal(found.thread_id, new_step(change), heads=change.heads)


def show_values_repair(session: Session, found: Repair) -> None:
    """Show which values a repair restores and, unless it is a dry run, store them.

    Raises `PartlyDone` or `Refused` if some, or all, of the damaged values cannot be restored, and
    what `apply` raises.
    """
    question = f"Restore {counted(len(found.rebuilt), 'value')} of thread '{found.thread_id}'?"
    if found.plan is not None:
        changing.show_and_apply(
            session,
            _proposal(found),
            question,
            more={"repair": found, "more": tuple(refused_lines(found))},
            view=PLAN_VIEW._replace(record=REPAIR.record),
        )
    else:
        _store_again(session, found, question)
    if not found.refused:
        return
    said = f"cannot restore {counted(len(found.refused), 'value')}"
    if found.rebuilt:
        raise PartlyDone(said)
    words = session.names.words
    again = shell.command("ckpt", *words, "repair", "values", "--dry-run", ids=[found.thread_id])
    raise Refused(said, hint=None if session.consent.dry_run else f"`{again}` says why")


def _store_again(session: Session, found: Repair, question: str) -> None:
    """Store values again that a layout stores apart."""
    proposal = changing.reviewed(session, _proposal(found))
    undo = undo_command(session.names.words, found.thread_id) if found.rebuilt else ""
    show = partial(
        session.show, Answer(ShownRepair(found, undo, session.consent.dry_run), REPAIR_VIEW)
    )
    if not found.rebuilt:
        show()
    elif changing.is_agreed(session, show, question):
        _, op = changing.carried_out(session, [proposal], "repair")
        if op is None:
            session.warn("`ckpt undo` will not find this repair: it is not recorded")
        if session.consent.yes or session.output.machine:
            show()
        changing.tell_done(session, [line(f"restored {counted(len(found.rebuilt), 'value')}")])
