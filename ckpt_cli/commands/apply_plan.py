"""What commands that change a thread share: show the plan, ask, write, say how to resume."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

from ckpt_backends.changes.change import Change
from ckpt_cli.apply.writable import apply_change, refuse_copy
from ckpt_cli.commands.confirm import confirm
from ckpt_cli.core.forking.plan import CheckpointPlan
from ckpt_cli.core.forking.sealed_change import sealed_change
from ckpt_cli.operations.steps import OperationStep
from ckpt_cli.render.plan import (
    done_lines,
    plan_columns,
    plan_lines,
    plan_record,
    plan_rows,
    undo_command,
)
from ckpt_cli.render.terminal.styled_text import StyledLine
from ckpt_cli.session import Session
from ckpt_cli.threads import redaction


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
    is_redacted = redaction.is_redacted(session.store)
    shown = redaction.plan(plan) if is_redacted else plan
    if yes and not dry_run:
        carry_out(yes=True)
    if dry_run or not output.machine:
        rows = dry_run and not is_redacted
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
) -> None:
    """Ask unless `yes`, carry out a change, and record it as an operation.

    `step` is what is recorded; if it is None, it is computed. Raises `Refused`, and what `apply`
    raises.
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
