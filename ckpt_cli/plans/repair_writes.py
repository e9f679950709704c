"""Plans that drop a stored answer: LangGraph would give it to another question, or a task failed
with it and would get it again."""

from __future__ import annotations

from datetime import datetime, timedelta

from ckpt_backends.errors import NotFound, Refused, Unsupported
from ckpt_backends.model import Capability
from ckpt_backends.protocol import Store
from ckpt_cli.core.doctor.head_step import stale_resumes
from ckpt_cli.core.forking.plan import CheckpointPlan
from ckpt_cli.core.support_matrix import NO_ANSWERS
from ckpt_cli.core.tasks.step_nodes import asked_by, path_text
from ckpt_cli.core.tasks.tasks import failed_answers
from ckpt_cli.core.tasks.used_answers import callers_answer, is_used
from ckpt_cli.plans.head_copy import plan_head_copy, readable_head
from ckpt_cli.plans.root_branch import check_store
from ckpt_cli.threads.checkpoint import Moment
from ckpt_cli.threads.nested_nodes import writes_inside
from ckpt_cli.threads.thread import ThreadReader

_GRACE = timedelta(minutes=1)
"""An agent may be about to use an answer that was stored within this time."""


def plan_write_repair(
    reader: ThreadReader,
    rows: Store,
    checkpoint_id: str | None,
    now: datetime,
    *,
    force: bool = False,
    failed: bool = True,
) -> CheckpointPlan:
    """Plan to add a copy of the head without the caller's answer that was used already, and, if
    `failed`, without the answers with which a task failed: it asks again.

    Raises `NotFound` if there is none, `Refused` if an agent may be about to use it, and everything
    that `plan_rollback` raises.
    """
    check_store(rows)
    info = rows.describe()
    if reader.is_values_only or Capability.WRITES not in info.capabilities:
        raise Unsupported(
            f"a store of layout '{info.layout}' {NO_ANSWERS}",
            hint="the application asks again when it resumes",
        )
    head = readable_head(reader, checkpoint_id, "the writes", state=False)
    asked = [one for task in head.step.tasks for one in task.questions if one.is_open]
    stale = [one.detail for one in stale_resumes(head.key, head.step, head.writes)]
    if not stale and _is_used_inside(reader, head):
        whom = ", ".join(dict.fromkeys(path_text(asked_by(one)) for one in asked))
        stale = [f"'{whom}' has used the stored answer; invoke(None) would use it once more"]
    answered = [one for task in head.step.tasks for one in failed_answers(task)] if failed else []
    stale += [
        f"'{path_text(asked_by(one))}' failed with the stored answer; without it, it asks again"
        for one in answered
    ]
    if not stale:
        raise NotFound(
            f"nothing to repair in thread '{reader.thread_id}': no answer is stored that was used"
            " already, or that made a task fail"
        )
    if not asked and not answered and now - (reader.thread.last_at or now) < _GRACE:
        raise Refused(
            "an agent may be about to use the stored answer",
            hint="run the command again when the thread has been idle for a minute",
        )
    dropped = {one.task_id for one in answered}
    return plan_head_copy(reader, rows, head, now, mends=stale, force=force, unanswered=dropped)


def _is_used_inside(reader: ThreadReader, head: Moment) -> bool:
    """Return whether a subgraph that asks has used the caller's answer."""
    answer = callers_answer(head.writes)
    if answer is None:
        return False
    if not any(q.is_open for one in head.step.tasks for q in one.questions):
        return False
    return any(is_used(answer, writes) for writes in writes_inside(reader, head))
