"""Repair many threads: plan each, ask once, then carry out each plan."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from ckpt_backends.changes.change import Change
from ckpt_backends.errors import (
    CkptError,
    NotFound,
    PartlyDone,
    Refused,
    StoreChanged,
    Unreadable,
    Unsupported,
)
from ckpt_cli.apply.recording import Recording
from ckpt_cli.apply.stopping import collected_signals
from ckpt_cli.apply.writable import applying, refuse_copy
from ckpt_cli.commands.apply_plan import confirm
from ckpt_cli.commands.repair_targets import RepairTargets
from ckpt_cli.core.forking.sealed_change import sealed_change
from ckpt_cli.core.forking.thread_repair import RepairOutcome, ThreadRepair
from ckpt_cli.core.random_numbers import seeded_for
from ckpt_cli.diagnostics import progress
from ckpt_cli.ending import Exit
from ckpt_cli.render.repair_many import (
    outcome_columns,
    outcome_lines,
    outcome_record,
)
from ckpt_cli.render.values.one_line import counted
from ckpt_cli.session import Session
from ckpt_cli.threads.thread import ThreadReader
from ckpt_cli.threads.trigger_inference import TriggerInference

PlanOne: TypeAlias = Callable[[ThreadReader, str | None], ThreadRepair | None]
"""Plans the repair of a thread, or of one checkpoint of it; None if there is nothing to mend."""
_Target: TypeAlias = tuple[str, str | None]

_MOVED = "an agent changed it meanwhile"
_OF_ONE_THREAD = (Refused, StoreChanged, Unreadable, Unsupported, NotFound)
"""Errors that concern a single thread; the others stop the whole repair."""


def repair_many(
    session: Session,
    targets: RepairTargets,
    plan: PlanOne,
    *,
    dry_run: bool,
    yes: bool,
    reason: str | None = None,
) -> None:
    """Repair the threads that need it; those that moved or are refused are skipped.

    All of it is one operation, recorded with `reason`.

    Raises `PartlyDone` if some were skipped, and `StoreChanged` or `Refused` if all were.
    """
    if not dry_run:
        refuse_copy(session.names.store_url)
    ids = targets.all(session)
    outcomes: list[RepairOutcome] = []
    heads: dict[str, Mapping[str, str]] | None = None
    if dry_run or not yes or session.review is not None:
        outcomes, heads = _plan_all(session, ids, plan)
        if dry_run or (outcomes and not yes and not session.output.machine):
            _show(session, outcomes, dry_run=dry_run)
        if dry_run:
            if not outcomes:
                session.note("nothing to repair")
            session.note_dry_run()
            return
        ids = [one for one in ids if one[0] in heads]
        if ids and not yes:
            confirm(f"Repair {counted(len(ids), 'thread')}?")
    with session.recorder.operation("repair", reason=reason) as recording:
        done, stopped, caught = _apply(session, ids, plan, heads, recording)
        recording.finish(stopped)
    outcomes = [*(one for one in outcomes if one.state == "skipped"), *done]
    _show(session, outcomes, dry_run=False)
    if not outcomes:
        session.note("nothing to repair")
    if caught == signal.SIGINT:
        raise Exit(130)
    _conclude(outcomes, stopped)


def _plan_all(
    session: Session, ids: Sequence[_Target], plan: PlanOne
) -> tuple[list[RepairOutcome], dict[str, Mapping[str, str]]]:
    """Return what would be done, and the heads of each thread that would be repaired.

    Each plan is dropped when it was described: it may hold large values.
    """
    outcomes: list[RepairOutcome] = []
    heads: dict[str, Mapping[str, str]] = {}
    inference = TriggerInference(session.store)
    for target in progress(ids, total=len(ids), label="planning"):
        found = _plan_one(session, target, plan, inference)
        if isinstance(found, ThreadRepair):
            if session.review is not None:
                change = sealed_change(found.change, session.opening.key())
                session.review.see_change(change, session.rows)
            heads[found.thread_id] = dict(found.change.heads)
            outcomes.append(_outcome(found, "planned"))
        elif found is not None:
            outcomes.append(found)
    return outcomes, heads


def _plan_one(
    session: Session, target: _Target, plan: PlanOne, inference: TriggerInference
) -> ThreadRepair | RepairOutcome | None:
    """Return the repair of a thread, or why it is skipped; None if nothing is wrong with it."""
    thread_id, checkpoint_id = target
    try:
        with seeded_for(thread_id):
            return plan(ThreadReader(session.store, thread_id, inference), checkpoint_id)
    except _OF_ONE_THREAD as error:
        return _skipped(thread_id, error)


def _apply(
    session: Session,
    ids: Sequence[_Target],
    plan: PlanOne,
    heads: Mapping[str, Mapping[str, str]] | None,
    recording: Recording,
) -> tuple[list[RepairOutcome], str, int | None]:
    """Plan each thread as it is now, and carry it out.

    Returns what was done, why it stopped early (or `''`), and the signal that stopped it. `heads`
    are those that the user saw; a thread with others is skipped.
    """
    done: list[RepairOutcome] = []
    if not ids:
        return done, "", None
    inference = TriggerInference(session.store)
    readers = (session.store, session.rows)
    key = session.opening.key()

    def carry_out(change: Change) -> None:
        change = sealed_change(change, key)
        recording.intend_change(change, session.rows)
        apply(change)
        recording.done()

    opened = applying(session.names.store_url, readers)
    with opened as apply, collected_signals() as caught:
        for number, target in enumerate(progress(ids, total=len(ids), label="repairing")):
            if caught:
                left = counted(len(ids) - number, "thread")
                return done, f"received {signal.Signals(caught[0]).name}; {left} left", caught[0]
            try:
                found = _plan_one(session, target, plan, inference)
                if isinstance(found, ThreadRepair):
                    found = _carried_out(found, carry_out, heads, recording)
                elif found is None and heads is not None:
                    found = RepairOutcome(target[0], "skipped", reason=_MOVED, is_moved=True)
            except CkptError as error:
                recording.failed(error)
                if not any(one.state == "repaired" for one in done):
                    raise
                return done, f"{error.message}; {counted(len(ids) - number, 'thread')} left", None
            if found is not None:
                done.append(found)
    return done, "", None


def _carried_out(
    found: ThreadRepair,
    apply: Callable[[Change], None],
    heads: Mapping[str, Mapping[str, str]] | None,
    recording: Recording,
) -> RepairOutcome:
    if heads is not None and dict(found.change.heads) != heads[found.thread_id]:
        return RepairOutcome(found.thread_id, "skipped", reason=_MOVED, is_moved=True)
    try:
        found.record()
        apply(found.change)
    except (StoreChanged, Refused, Unsupported) as error:
        recording.failed(error)
        return _skipped(found.thread_id, error)
    return _outcome(found, "repaired")


def _skipped(thread_id: str, error: CkptError) -> RepairOutcome:
    is_moved = isinstance(error, StoreChanged | NotFound)
    reason = _MOVED if isinstance(error, StoreChanged) else error.message
    return RepairOutcome(thread_id, "skipped", reason=reason, is_moved=is_moved)


def _outcome(found: ThreadRepair, state: Literal["planned", "repaired"]) -> RepairOutcome:
    plan = found.plan
    if plan is not None:
        nothing = Change(found.thread_id, {})
        plan = replace(plan, change=nothing, changes={}, now=None)
    return RepairOutcome(found.thread_id, state, found.mends, found.left, plan=plan)


def _show(session: Session, outcomes: Sequence[RepairOutcome], *, dry_run: bool) -> None:
    words, output = session.names.words, session.output

    def rows() -> list[dict[str, Any]]:
        return [outcome_record(one, words, dry_run=dry_run) for one in outcomes]

    output.document(
        rows,
        lambda: outcome_lines(outcomes, words, output.width, dry_run=dry_run),
        rows=rows,
        columns=outcome_columns(),
    )


def _conclude(outcomes: Sequence[RepairOutcome], stopped: str) -> None:
    """Raise the error that tells what was not done."""
    skipped = [one for one in outcomes if one.state == "skipped"]
    is_done = any(one.state == "repaired" for one in outcomes)
    if stopped:
        raise PartlyDone(f"stopped: {stopped}", hint="run the same command again")
    if not skipped:
        if any(one.reason for one in outcomes):
            raise PartlyDone("some values could not be restored")
        return
    said = f"skipped {counted(len(skipped), 'thread')}"
    if is_done:
        raise PartlyDone(said, hint="run the same command again")
    if any(one.is_moved for one in skipped):
        raise StoreChanged(f"{said}: nothing was written", hint="run the same command again")
    raise Refused(f"{said}: nothing was written")
