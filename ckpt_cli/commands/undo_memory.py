"""Takes back an operation on long-term memory: shows the plan, asks, carries it out."""

from __future__ import annotations

from collections.abc import Sequence

from ckpt_backends.errors import CkptError, PartlyDone, Refused, StoreChanged
from ckpt_backends.registry import open_memory
from ckpt_cli.apply.undo_memory import take_back_items
from ckpt_cli.commands.confirm import confirm
from ckpt_cli.operations.record import Operation
from ckpt_cli.operations.steps import OperationStep
from ckpt_cli.plans.undo_memory import item_to_take_back
from ckpt_cli.plans.undo_operation import PlannedStep, RefusedStep, refused_steps
from ckpt_cli.queries.operations import REDO, UNDO, ListedOperation
from ckpt_cli.render.operations import UNDO_PLAN_COLUMNS, undo_plan_lines, undo_plan_record
from ckpt_cli.render.values.one_line import counted
from ckpt_cli.session import Session


def undo_items(
    session: Session,
    found: ListedOperation,
    named: Operation,
    action: str,
    steps: Sequence[OperationStep],
    *,
    dry_run: bool,
    yes: bool,
) -> None:
    """Show what takes back the steps and, unless it is a dry run, carry it out.

    `named` is the operation that a person means: for a redo, what the undo took back.
    Raises the reason if none can be taken back, and `PartlyDone` if some cannot.
    """
    output = session.output
    planned = _planned(session, steps)
    if session.review is not None:
        for one in planned:
            session.review.see_step(one, None)
    refused = refused_steps(planned, is_redo=action == REDO)
    if len(refused) == len(planned):
        raise refused[0].error if refused else Refused(f"nothing of {found.op} is left")

    def show() -> None:
        output.document(
            lambda: undo_plan_record(found, action, planned, dry_run=dry_run),
            lambda: undo_plan_lines(named, action, planned, session.now, output.width),
            rows=lambda: undo_plan_record(found, action, planned, dry_run=dry_run)["threads"],
            columns=UNDO_PLAN_COLUMNS,
        )

    if dry_run or not (yes or output.machine):
        show()
    if dry_run:
        session.note_dry_run()
        return
    verb = "Undo" if action == UNDO else "Redo"
    if not yes:
        confirm(f"{verb} {named.action} {named.op}?")
    failed = [one.error for one in refused]
    taken_back: list[PlannedStep] = []
    with session.recorder.operation(
        action, undoes=found.op, reason=named.reason if action == REDO else None
    ) as recording:
        for one in planned:
            if isinstance(one, RefusedStep):
                continue
            recording.intend([one.step.turned()])
            try:
                if not_erased := take_back_items(session.names.store_url, one.step):
                    session.note(not_erased)
            except (StoreChanged, Refused) as error:
                recording.failed(error)
                failed.append(error)
            else:
                recording.done()
                taken_back.append(one)
    if yes or output.machine:
        show()
    if number := sum(one.step.number for one in taken_back):
        did = "undid" if action == UNDO else "redid"
        session.note(f"{did} {named.action} {named.op}: {counted(number, 'item')}")
    _raise_failures(failed, len(planned))


def _planned(session: Session, steps: Sequence[OperationStep]) -> list[PlannedStep | RefusedStep]:
    """Return the steps, the last one first, as they can be taken back now."""
    planned: list[PlannedStep | RefusedStep] = []
    with open_memory(session.names.store_url) as memory:
        for one in reversed(steps):
            try:
                item_to_take_back(memory, one)
            except CkptError as error:
                planned.append(RefusedStep(one, error))
            else:
                assert one.back is not None  # noqa: S101 - it was checked
                planned.append(PlannedStep(one, one.back, one.turned()))
    return planned


def _raise_failures(failed: Sequence[CkptError], number: int) -> None:
    if failed and len(failed) == number:
        raise failed[0]
    if failed:
        raise PartlyDone(f"{counted(len(failed), 'part')} not taken back: {failed[0].message}")
