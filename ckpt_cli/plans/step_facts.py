"""What a saved plan says of the steps of an operation that is taken back."""

from __future__ import annotations

from typing import Any

from ckpt_cli.operations.steps import OperationStep, step_record
from ckpt_cli.plans.plan_facts import StoredRows, record_digest, thread_fact
from ckpt_cli.plans.undo_operation import PlannedStep, RefusedStep


def step_fact(one: PlannedStep | RefusedStep, rows: StoredRows | None) -> dict[str, Any]:
    """Return the thread of a step, what it has, and a digest of what takes the step back.

    `rows` is the store as stored; None for steps of long-term memory, which have no thread.
    """
    if isinstance(one, RefusedStep):
        return {"thread_id": one.step.thread_id, "refused": True}
    thread_id = one.step.thread_id
    back = record_digest(step_record(OperationStep(thread_id, one.part, one.step.done)))
    there = {} if thread_id is None else thread_fact(thread_id, rows=rows)
    return {"thread_id": thread_id, **there, "sha256": back}
