"""Shows a plan, asks, carries it out, and records it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from typer import Exit

from ckpt_backends.errors import (
    NotFound,
    PartlyDone,
    Refused,
    StoreChanged,
    Unreadable,
    Unsupported,
    UsageError,
)
from ckpt_cli import diagnostics
from ckpt_cli.api.answer import Answer, AnswerList
from ckpt_cli.apply.changes import ChangeReport, carry_out
from ckpt_cli.apply.recording import collected_signals
from ckpt_cli.commands.arguments import TargetId, ThreadTargets, names_and_ref
from ckpt_cli.core.forking import sealed_change, seeded_for
from ckpt_cli.diagnostics import progress
from ckpt_cli.plans.fork import RollbackOptions, check_store, plan_fork_to_thread
from ckpt_cli.plans.proposal import MOVED, Proposal
from ckpt_cli.plans.rollback import (
    PLACE,
    ManyRollbacks,
    TargetOptions,
    find_target,
    new_thread_id,
    plan_rollback,
)
from ckpt_cli.reading.store import is_redacted
from ckpt_cli.reading.thread import ThreadReader, TriggerInference
from ckpt_cli.render.fields import View
from ckpt_cli.render.plan import (
    PLAN_VIEW,
    ChangeWords,
    ShownOutcome,
    ShownPlan,
    done_lines,
    outcomes_view,
    undo_command,
)
from ckpt_cli.render.text import StyledLine
from ckpt_cli.render.values import counted
from ckpt_cli.session import Session


def confirm(question: str) -> None:
    """Ask a person. Raises `Refused` where there is none, or the answer is no."""
    answer = diagnostics.ask(question)
    if answer is None:
        raise Refused(
            "confirmation needed, but there is no terminal; nothing was written",
            hint="add --yes to go ahead, or --dry-run to see the plan",
        )
    if not answer:
        raise Refused("not confirmed; nothing was written")


def is_agreed(
    session: Session, show: Callable[[], None], question: str, *, asks: bool = True
) -> bool:
    """Show a plan, and ask whether to carry it out; False for a dry run.

    If it is not asked, it is carried out first and shown then, so that a closed pipe cannot stop it
    halfway. Raises `Refused` where nobody can be asked or the answer is no.
    """
    dry_run, yes = session.consent.dry_run, session.consent.yes or not asks
    if dry_run or not (yes or session.output.machine):
        show()
    if dry_run:
        session.note_dry_run()
    elif not yes:
        confirm(question)
    return not dry_run


def carried_out(
    session: Session,
    proposals: Iterable[Proposal],
    action: str,
    *,
    reason: str | None = None,
    undoes: str | None = None,
    total: int | None = None,
    together: bool = False,
    ended: Callable[[ChangeReport], str] = lambda report: report.stopped,
) -> tuple[ChangeReport, str | None]:
    """Carry out proposals as one operation. Returns what became of them, and the id of the
    operation if it is recorded.

    `reason` is recorded, or that of the consent. `total` is the number of the proposals if they are
    several: then a signal stops between two of them. `together` is as in `carry_out`. `ended` tells
    why the operation ended early.
    Raises the error of a single one that was not carried out, and that of the first one that failed
    otherwise than by its own thread.
    """
    reason = reason or session.consent.reason
    with session.recorder.operation(action, reason=reason, undoes=undoes) as recording:
        catching: AbstractContextManager[list[int]] = nullcontext([])
        if total is not None:
            catching = collected_signals()
        with catching as caught:
            report = carry_out(
                recording, proposals, session, total=total or 1, caught=caught, together=together
            )
        recording.finish(ended(report))
    if report.not_erased:
        session.note(report.not_erased)
    if total is None and report.errors:
        raise report.errors[0]
    return report, recording.recorded


def reviewed(session: Session, found: Proposal) -> Proposal:
    """Return a proposal, after the plan that this run saves or applies has seen its change."""
    if session.review is not None and found.change is not None:
        session.review.see_change(sealed_change(found.change, session.opening.keys()), session.rows)
    return found


def show_and_apply(
    session: Session,
    found: Proposal,
    question: str,
    *,
    undoes: str | None = None,
    more: Mapping[str, Any] | None = None,
    view: View = PLAN_VIEW,
) -> None:
    """Show the plan of a proposal and, unless it is a dry run, carry it out.

    `undoes`, the operation that it takes back, is recorded. `more` are other fields of the
    `ShownPlan`. Raises what `is_agreed` and `carried_out` raise.
    """
    dry_run = session.consent.dry_run
    plan = reviewed(session, found).plan
    assert plan is not None  # noqa: S101 - other changes have another view
    undo = ""
    if plan.action not in ("undo", "redo") and plan.is_undoable:
        undo = undo_command(session.names.words, plan.main.key.thread_id)
    hides = is_redacted(session.store)
    shown = ShownPlan(
        plan.redacted() if hides else plan, undo, dry_run, has_rows=dry_run and not hides
    )._replace(**more or {})
    show = partial(session.show, Answer(shown, view))
    if not is_agreed(session, show, question):
        return
    carried_out(session, [found], plan.action, undoes=undoes)
    if session.consent.yes or session.output.machine:
        session.show(Answer(shown._replace(is_done=True), view))
    tell_done(session, done_lines(shown.plan, undo))


def tell_done(session: Session, lines: Iterable[StyledLine]) -> None:
    """Print what was changed, behind the plan that a person saw. JSON tells it itself."""
    if session.output.text:
        session.output.document(tuple, lambda: lines)


PlanOne: TypeAlias = Callable[[ThreadReader, str | None], Proposal]
"""Plans the change of a thread, given the checkpoint that is named, if any."""

_OF_ONE_THREAD = (Refused, StoreChanged, Unreadable, Unsupported, NotFound)
"""Errors that concern a single thread; the others stop the command."""


def change_many(
    session: Session, ids: Sequence[TargetId], plan: PlanOne, words: ChangeWords
) -> None:
    """Change those of these threads that need it; those that moved or are refused are skipped.

    All of it is one operation.

    Raises `PartlyDone` if some were skipped, and `StoreChanged` or `Refused` if all were.
    """
    dry_run = session.consent.dry_run
    before: list[Proposal] = []
    seen: dict[str | None, object] | None = None
    if dry_run or not session.consent.yes or session.review is not None:
        seen = {}
        for one in _proposals(session, ids, plan, "planning"):
            reviewed(session, one)
            if one.seen is not None:
                seen[one.thread_id] = one.seen
            # A plan may hold large values, and is made again when it is carried out.
            before.append(one.without_values())
        number = sum(one.state == "planned" for one in before)

        def show() -> None:
            _show(session, before, words, dry_run=dry_run)
            if dry_run:
                _note_unneeded(session, before, words)

        question = f"{words.question} {counted(number, 'thread')}?"
        if not is_agreed(session, show, question, asks=bool(number)):
            return
        ids = [one for one in ids if one[0] in seen]
        # Threads may have changed while a person thought.
        session.store.refresh()
        session.rows.refresh()
    report, op = carried_out(
        session,
        _as_seen(_proposals(session, ids, plan, words.doing), seen),
        words.action,
        total=len(ids),
        together=True,
        ended=_stopped,
    )
    left_out = [one for one in before if one.state in {"skipped", "unneeded"}]
    outcomes = [*left_out, *report.outcomes]
    _show(session, outcomes, words, dry_run=False, op=op)
    _note_unneeded(session, outcomes, words)
    if report.signal == signal.SIGINT:
        raise Exit(130)
    _conclude(outcomes, _stopped(report))


def _proposals(
    session: Session, ids: Sequence[TargetId], plan: PlanOne, label: str
) -> Iterator[Proposal]:
    """Yield what is to be done with each thread, as it is now."""
    inference = TriggerInference(session.store)
    for thread_id, checkpoint_id, chosen_head in progress(ids, total=len(ids), label=label):
        try:
            reader = ThreadReader(session.store, thread_id, inference)
            if chosen_head is not None and reader.thread.head != chosen_head:
                raise StoreChanged(MOVED)
            with seeded_for(thread_id):
                found = plan(reader, checkpoint_id)
        except _OF_ONE_THREAD as error:
            found = Proposal(thread_id).skipped(error)
        yield found


def _as_seen(
    proposals: Iterable[Proposal], seen: Mapping[str | None, object] | None
) -> Iterator[Proposal]:
    """Yield proposals; one that is not as the user saw it is skipped."""
    for one in proposals:
        is_seen = seen is None or one.state == "skipped" or one.seen == seen[one.thread_id]
        yield one if is_seen else one.skipped(StoreChanged(MOVED))


def _stopped(report: ChangeReport) -> str:
    return f"{report.stopped}; {counted(report.left, 'thread')} left" if report.stopped else ""


def _show(
    session: Session,
    proposals: Sequence[Proposal],
    words: ChangeWords,
    *,
    dry_run: bool,
    op: str | None = None,
) -> None:
    """Print what would be done, or was. NDJSON is a list to resume, without skipped threads."""
    store, output = session.names.words, session.output
    outcomes = [one for one in proposals if one.state != "unneeded"]
    if output.streams:
        for one in outcomes:
            if one.state == "skipped":
                session.warn(f"skipped '{one.thread_id}': {one.reason}")
    shown = [one for one in outcomes if not (output.streams and one.state == "skipped")]

    found = [ShownOutcome(one, words, store, dry_run, op) for one in shown]
    session.show(AnswerList(found, outcomes_view(words)))


def _note_unneeded(session: Session, found: Sequence[Proposal], words: ChangeWords) -> None:
    """Note how many threads were left out because they need no change."""
    unneeded = sum(one.state == "unneeded" for one in found)
    if unneeded == len(found):
        session.note(f"nothing to {words.verb}")
    elif unneeded:
        session.note(f"left out {counted(unneeded, 'thread')}: nothing to {words.verb}")


def _conclude(outcomes: Sequence[Proposal], stopped: str) -> None:
    """Raise the error that tells what was not done."""
    skipped = [one for one in outcomes if one.state == "skipped"]
    is_done = any(one.state in {"done", "ready"} for one in outcomes)
    if stopped:
        raise PartlyDone(f"stopped: {stopped}", hint="run the same command again")
    if not skipped:
        if any(one.state == "done" and one.reason for one in outcomes):
            raise PartlyDone("some values could not be restored")
        return
    said = f"skipped {counted(len(skipped), 'thread')}"
    has_moved = any(one.is_moved for one in skipped)
    hint = "run the same command again" if has_moved else None
    if is_done:
        raise PartlyDone(said, hint=hint)
    error = StoreChanged if has_moved else Refused
    raise error(f"{said}: nothing was written", hint=hint)


def roll_back(
    session: Session,
    words: tuple[str | None, str | None, Sequence[str] | None],
    conditions: tuple[str | None, Sequence[str] | None],
    target: TargetOptions,
    options: RollbackOptions,
    *,
    new: str | None = None,
) -> None:
    """Roll back or fork the threads that words or conditions name: `THREAD REF MORE...`, --match
    and --where.

    `new` is the id of the new thread; of several, its template.
    """
    names, ref = names_and_ref(session, *words, has_choice=bool(target.given))
    match, where = conditions
    targets = ThreadTargets(names, None, match, where, has_all=False)
    check_store(session.rows)
    if targets.is_several:
        rollback_many(session, targets, target, options, new=new)
        return
    target = replace(target, ref=ref)
    found = find_target(session.store, names[0], target, session.now, session.zone, session.note)
    reader, rows, checkpoint_id = found.reader, session.editable, found.checkpoint_id
    if new is None:
        plan = plan_rollback(reader, rows, checkpoint_id, session.now, options)
    else:
        new_id = new_thread_id(new, reader.thread_id)
        plan = plan_fork_to_thread(reader, rows, checkpoint_id, new_id, options)
    question = f"{'Fork' if options.fork else 'Roll back'} thread '{reader.thread_id}'?"
    show_and_apply(session, Proposal.of(plan), question)


def rollback_many(
    session: Session,
    targets: ThreadTargets,
    target: TargetOptions,
    options: RollbackOptions,
    *,
    new: str | None = None,
) -> None:
    """Roll back, fork or copy many threads, each at the checkpoint that `target` chooses.

    `new` is the template of the ids of new threads. Raises `UsageError` for words that do not say
    to which checkpoint, or that would give all new threads the same id.
    """
    target.check()
    if new is not None and PLACE not in new:
        raise UsageError(
            f"--as '{new}' names one thread, but several would be made",
            hint=f"put {PLACE} into it: --as '{new}-{PLACE}'; a checkpoint is THREAD@REF",
        )
    check_store(session.rows)
    ids = targets.all(session)
    _check_refs(ids, target)
    words = ChangeWords("rollback", "roll back", "rolled back", "rolling back")
    if options.fork:
        words = ChangeWords("fork", "fork", "forked", "forking")
    if new is not None:
        if not options.edits_state:
            words = ChangeWords("copy", "copy", "copied", "copying")
        words = replace(words, new_id=partial(new_thread_id, new))
    plans = ManyRollbacks(session.editable, target, options, session.now, session.zone, new)
    change_many(session, ids, plans.plan, words)


def _check_refs(ids: Sequence[TargetId], target: TargetOptions) -> None:
    """Raise `UsageError` unless each thread has a checkpoint, or an option chooses it."""
    named = [thread_id for thread_id, checkpoint_id, _ in ids if checkpoint_id is not None]
    if target.given and named:
        raise UsageError(
            f"a checkpoint of thread '{named[0]}' is given, so {target.given[0]} cannot choose one",
            hint="give the threads alone",
        )
    if not target.given and not target.head_by_default and len(named) < len(ids):
        raise UsageError("no checkpoint given", hint=f"give {target.options}, for all threads")
