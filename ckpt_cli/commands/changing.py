"""Shows a plan, asks, carries it out, and records it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any, Literal, TypeAlias

from typer import Exit

from ckpt_backends.changes import Change
from ckpt_backends.errors import (
    CkptError,
    NotFound,
    PartlyDone,
    Refused,
    StoreChanged,
    Unreadable,
    Unsupported,
    UsageError,
)
from ckpt_cli import diagnostics
from ckpt_cli.apply.recording import (
    Recording,
    apply_change,
    applying,
    collected_signals,
    refuse_copy,
)
from ckpt_cli.commands.arguments import TargetId, ThreadTargets
from ckpt_cli.core.forking import ChangeOutcome, CheckpointPlan, ThreadChange, sealed_change
from ckpt_cli.core.random_numbers import seeded_for
from ckpt_cli.diagnostics import progress
from ckpt_cli.operations.log import OperationStep
from ckpt_cli.plans.fork import RollbackOptions, check_store
from ckpt_cli.plans.rollback import PLACE, ManyRollbacks, TargetOptions, new_thread_id
from ckpt_cli.reading.store import is_redacted
from ckpt_cli.reading.thread import ThreadReader, TriggerInference
from ckpt_cli.render.plan import (
    ChangeWords,
    done_lines,
    outcome_columns,
    outcome_lines,
    outcome_record,
    plan_columns,
    plan_lines,
    plan_record,
    plan_rows,
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


def show_and_apply(
    session: Session,
    plan: CheckpointPlan,
    question: str,
    *,
    dry_run: bool,
    yes: bool,
    reason: str | None = None,
    undoes: str | None = None,
    step: OperationStep | None = None,
    more: Callable[[], Mapping[str, Any]] = dict,
    lines: Callable[[], Iterable[StyledLine]] = tuple,
) -> None:
    """Show a plan and, unless it is a dry run, carry it out.

    `reason`, `undoes`, the operation that it takes back, and `step`, what it does if that is known,
    are recorded. `more` is added to its record, `lines` to its text. With `yes` it is carried out
    first, so that a closed pipe cannot stop it halfway.
    Raises `Refused` where nobody can be asked or the answer is no, and what `apply` raises.
    """
    if not dry_run:
        refuse_copy(session.names.store_url)
    plan = replace(plan, change=sealed_change(plan.change, session.opening.keys()))
    if session.review is not None:
        session.review.see_change(plan.change, session.rows)
    output = session.output
    undo = ""
    if plan.action not in ("undo", "redo") and plan.is_undoable:
        undo = undo_command(session.names.words, plan.main.key.thread_id)
    carry_out = partial(
        write,
        session,
        plan.change,
        question,
        action=plan.action,
        reason=reason,
        undoes=undoes,
        step=step,
    )
    hides = is_redacted(session.store)
    shown = plan.redacted() if hides else plan
    if yes and not dry_run:
        carry_out(yes=True)
    if dry_run or not output.machine:
        rows = dry_run and not hides
        output.document(
            lambda: {**plan_record(shown, undo, dry_run=dry_run, rows=rows), **more()},
            lambda: chain(
                plan_lines(shown, output.width, undo=undo, is_done=not dry_run and yes), lines()
            ),
            rows=lambda: plan_rows(shown),
            columns=plan_columns(),
        )
    if dry_run:
        session.note_dry_run()
        return
    if not yes:
        carry_out(yes=False)
    if output.machine:
        record = {**plan_record(shown, undo, dry_run=False, rows=False), **more()}
        output.document(lambda: record, tuple)
    elif output.text:
        output.document(tuple, lambda: done_lines(shown, undo))


def write(
    session: Session,
    change: Change,
    question: str,
    *,
    yes: bool,
    action: str,
    reason: str | None = None,
    undoes: str | None = None,
    step: OperationStep | None = None,
) -> str | None:
    """Ask unless `yes`, carry out a change, and record it as an operation.

    `step` is what is recorded; if it is None, it is computed. Returns the id of the operation; None
    if it could not be recorded. Raises `Refused`, and what `apply` raises.
    """
    if not yes:
        confirm(question)
    change = sealed_change(change, session.opening.keys())
    # An open read of a file that is not in WAL mode would block its agent.
    session.store.refresh()
    with session.recorder.operation(action, reason=reason, undoes=undoes) as recording:
        if step is None:
            recording.intend_change(change, session.rows)
        else:
            recording.intend([step])
        readers = (session.store, session.rows)
        if not_erased := apply_change(session.names.store_url, change, readers):
            session.note(not_erased)
    return recording.recorded


PlanOne: TypeAlias = Callable[[ThreadReader, str | None], ThreadChange | ChangeOutcome | None]
"""Plans the change of a thread, given the checkpoint that is named, if any.

Returns an outcome for a thread that is ready as it is, and None for one that needs no change.
"""

_MOVED = "an agent changed it meanwhile"
_OF_ONE_THREAD = (Refused, StoreChanged, Unreadable, Unsupported, NotFound)
"""Errors that concern a single thread; the others stop the command."""


@dataclass(slots=True)
class _Planned:
    """What the user is shown before a change."""

    outcomes: list[ChangeOutcome] = field(default_factory=list)
    seen: dict[str, object] = field(default_factory=dict)
    """By thread, what must still be so when it is changed."""
    unneeded: int = 0
    """The number of threads that need no change."""

    @property
    def changes(self) -> int:
        """The number of threads that would be changed."""
        return sum(one.state == "planned" for one in self.outcomes)


def change_many(
    session: Session,
    ids: Sequence[TargetId],
    plan: PlanOne,
    words: ChangeWords,
    *,
    dry_run: bool,
    yes: bool,
    reason: str | None = None,
) -> None:
    """Change those of these threads that need it; those that moved or are refused are skipped.

    All of it is one operation, recorded with `reason`.

    Raises `PartlyDone` if some were skipped, and `StoreChanged` or `Refused` if all were.
    """
    if not dry_run:
        refuse_copy(session.names.store_url)
    planned: _Planned | None = None
    if dry_run or not yes or session.review is not None:
        planned = _plan_all(session, ids, plan)
        if dry_run or (planned.outcomes and not yes and not session.output.machine):
            _show(session, planned.outcomes, words, dry_run=dry_run)
        if dry_run:
            _note_unneeded(session, planned.outcomes, planned.unneeded, words)
            session.note_dry_run()
            return
        if planned.changes and not yes:
            confirm(f"{words.question} {counted(planned.changes, 'thread')}?")
        ids = [one for one in ids if one[0] in planned.seen]
    with session.recorder.operation(words.action, reason=reason) as recording:
        done, stopped, caught = _apply(session, ids, plan, words, planned, recording)
        recording.finish(stopped)
    if planned is not None:
        done.outcomes[:0] = [one for one in planned.outcomes if one.state == "skipped"]
        done.unneeded += planned.unneeded
    _show(session, done.outcomes, words, dry_run=False, op=recording.recorded)
    _note_unneeded(session, done.outcomes, done.unneeded, words)
    if caught == signal.SIGINT:
        raise Exit(130)
    _conclude(done.outcomes, stopped)


def _plan_all(session: Session, ids: Sequence[TargetId], plan: PlanOne) -> _Planned:
    """Return what would be done.

    Each plan is dropped when it was described: it may hold large values.
    """
    planned = _Planned()
    inference = TriggerInference(session.store)
    for target in progress(ids, total=len(ids), label="planning"):
        found = _plan_one(session, target, plan, inference)
        if found is None:
            planned.unneeded += 1
            continue
        if isinstance(found, ThreadChange) and session.review is not None:
            change = sealed_change(found.change, session.opening.keys())
            session.review.see_change(change, session.rows)
        seen = _seen(found)
        if seen is not None:
            planned.seen[found.thread_id] = seen
        done = found if isinstance(found, ChangeOutcome) else _outcome(found, "planned")
        planned.outcomes.append(done)
    return planned


def _plan_one(
    session: Session, target: TargetId, plan: PlanOne, inference: TriggerInference
) -> ThreadChange | ChangeOutcome | None:
    """Return the change of a thread, or why there is none; None if it needs none."""
    thread_id, checkpoint_id, chosen_head = target
    try:
        reader = ThreadReader(session.store, thread_id, inference)
        if chosen_head is not None and reader.thread.head != chosen_head:
            return _moved(thread_id)
        with seeded_for(thread_id):
            return plan(reader, checkpoint_id)
    except _OF_ONE_THREAD as error:
        return _skipped(thread_id, error)


def _seen(found: ThreadChange | ChangeOutcome) -> object:
    """Return what must still be so when a thread is changed; None if it is skipped."""
    if isinstance(found, ThreadChange):
        return dict(found.heads)
    return found.resume


def _apply(
    session: Session,
    ids: Sequence[TargetId],
    plan: PlanOne,
    words: ChangeWords,
    planned: _Planned | None,
    recording: Recording,
) -> tuple[_Planned, str, int | None]:
    """Plan each thread as it is now, and carry it out.

    Returns what was done, why it stopped early (or `''`), and the signal that stopped it. A thread
    that is not as the user saw it in `planned` is skipped.
    """
    done = _Planned()
    if not ids:
        return done, "", None
    inference = TriggerInference(session.store)
    readers = (session.store, session.rows)
    keys = session.opening.keys()

    def carry_out(change: Change) -> None:
        change = sealed_change(change, keys)
        recording.intend_change(change, session.rows)
        apply(change)
        recording.done()

    opened = applying(session.names.store_url, readers)
    with opened as apply, collected_signals() as caught:
        for number, target in enumerate(progress(ids, total=len(ids), label=words.doing)):
            left = counted(len(ids) - number, "thread")
            if caught:
                return done, f"received {signal.Signals(caught[0]).name}; {left} left", caught[0]
            try:
                found = _plan_one(session, target, plan, inference)
                if planned is not None and _has_moved(target[0], found, planned):
                    found = _moved(target[0])
                if isinstance(found, ThreadChange):
                    found = _carried_out(found, carry_out, recording)
            except CkptError as error:
                recording.failed(error)
                if not any(one.state == "done" for one in done.outcomes):
                    raise
                return done, f"{error.message}; {left} left", None
            if found is None:
                done.unneeded += 1
            else:
                done.outcomes.append(found)
    return done, "", None


def _has_moved(
    thread_id: str, found: ThreadChange | ChangeOutcome | None, planned: _Planned
) -> bool:
    """Return whether a thread is not as the user saw it, unless it is skipped for a reason."""
    if isinstance(found, ChangeOutcome) and found.state == "skipped":
        return False
    return found is None or _seen(found) != planned.seen[thread_id]


def _carried_out(
    found: ThreadChange, apply: Callable[[Change], None], recording: Recording
) -> ChangeOutcome:
    try:
        apply(found.change)
    except (StoreChanged, Refused, Unsupported) as error:
        recording.failed(error)
        return _skipped(found.thread_id, error)
    return _outcome(found, "done")


def _skipped(thread_id: str, error: CkptError) -> ChangeOutcome:
    if isinstance(error, StoreChanged):
        return _moved(thread_id)
    is_gone = isinstance(error, NotFound)
    return ChangeOutcome(thread_id, "skipped", reason=error.message, is_moved=is_gone)


def _moved(thread_id: str) -> ChangeOutcome:
    return ChangeOutcome(thread_id, "skipped", reason=_MOVED, is_moved=True)


def _outcome(found: ThreadChange, state: Literal["planned", "done"]) -> ChangeOutcome:
    plan = found.plan
    if plan is not None:
        nothing = Change(found.thread_id, {})
        plan = replace(plan, change=nothing, changes={}, now=None)
    return ChangeOutcome(found.thread_id, state, found.mends, found.left, plan=plan)


def _show(
    session: Session,
    outcomes: Sequence[ChangeOutcome],
    words: ChangeWords,
    *,
    dry_run: bool,
    op: str | None = None,
) -> None:
    """Print what would be done, or was. NDJSON is a list to resume, without skipped threads."""
    store, output = session.names.words, session.output
    if output.streams:
        for one in outcomes:
            if one.state == "skipped":
                session.warn(f"skipped '{one.thread_id}': {one.reason}")
        outcomes = [one for one in outcomes if one.state != "skipped"]

    def rows() -> list[dict[str, Any]]:
        return [outcome_record(one, words, store, dry_run=dry_run, op=op) for one in outcomes]

    output.document(
        rows,
        lambda: outcome_lines(outcomes, words, store, output.width, dry_run=dry_run, op=op),
        rows=rows,
        columns=outcome_columns(words),
    )


def _note_unneeded(
    session: Session, outcomes: Sequence[ChangeOutcome], unneeded: int, words: ChangeWords
) -> None:
    """Note how many threads were left out because they need no change."""
    if not outcomes:
        session.note(f"nothing to {words.verb}")
    elif unneeded:
        session.note(f"left out {counted(unneeded, 'thread')}: nothing to {words.verb}")


def _conclude(outcomes: Sequence[ChangeOutcome], stopped: str) -> None:
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


def rollback_many(
    session: Session,
    targets: ThreadTargets,
    target: TargetOptions,
    options: RollbackOptions,
    *,
    new: str | None = None,
    dry_run: bool,
    yes: bool,
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
    change_many(session, ids, plans.plan, words, dry_run=dry_run, yes=yes, reason=options.reason)


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
