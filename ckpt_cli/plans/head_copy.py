"""Plans that add a mended copy of the head, with what its tasks have done so far."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from ckpt_backends import shell
from ckpt_backends.codec.edits import Put
from ckpt_backends.codec.set_keys import set_keys
from ckpt_backends.encryption import is_encrypted_type
from ckpt_backends.errors import Refused
from ckpt_backends.model import Checkpoint, CheckpointKey, Write
from ckpt_backends.protocol import Store
from ckpt_cli.core.forking.checkpoint_copy import NEWEST_FORMAT
from ckpt_cli.core.forking.edit_state import VALUES
from ckpt_cli.core.forking.marks import REASON, WRITES
from ckpt_cli.core.forking.plan import CheckpointPlan
from ckpt_cli.core.state import read_metadata
from ckpt_cli.core.tasks.control_channels import RESUME
from ckpt_cli.core.tasks.moved_ids import moved_id
from ckpt_cli.core.tasks.task_ids import TaskIdBase, origin_of
from ckpt_cli.core.tasks.tasks import CONTROL, Task
from ckpt_cli.plans.rollback import plan_rollback
from ckpt_cli.plans.root_branch import RollbackOptions, head_notes
from ckpt_cli.threads.checkpoint import Moment
from ckpt_cli.threads.thread import ThreadReader


def plan_head_copy(
    reader: ThreadReader,
    rows: Store,
    head: Moment,
    now: datetime,
    *,
    mends: Sequence[str],
    values: Mapping[str, Put] | None = None,
    force: bool = False,
    unanswered: Collection[str] = (),
) -> CheckpointPlan:
    """Plan to add a copy of the root's head, with other `values` of some channels.

    The copy has no answers of the caller. It has the results of finished tasks, and the answers
    that other tasks have used, but for those of the tasks `unanswered`, if the ids of these tasks
    can be computed for the copy; the others run again.

    Raises everything that `plan_rollback` raises.
    """
    options = RollbackOptions(force=force)
    back = plan_rollback(reader, rows, head.key.checkpoint_id, now, options)
    *others, copy = back.change.checkpoints
    carried = [
        (task, write)
        for task, write in _carried(rows, head, copy.key)
        if write.channel != RESUME or task.id not in unanswered
    ]
    copy = _with_values(_with_writes(copy, len(carried)), values or {})
    change = replace(
        back.change,
        checkpoints=(*others, copy),
        writes=(*back.change.writes, *(write for _, write in carried)),
    )
    at = dict(back.configurable or {})
    if carried:
        # With an id, LangGraph travels in time and runs the tasks again.
        at.pop("checkpoint_id", None)
    ids = {task.id for task, _ in carried}
    kept = [one for one in head.step.tasks if one.finished and one.id in ids]
    to_run = [one for one in head.step.tasks if one not in kept]
    return replace(
        back,
        action="repair",
        change=change,
        configurable=at,
        next=None if head.step.next is None else _nodes(to_run),
        saved=_nodes(kept),
        again=_nodes([one for one in to_run if one.finished]),
        notes=(
            *(f"the result of {node} is kept" for node in dict.fromkeys(_nodes(kept))),
            *(one for one in back.notes if one not in set(head_notes(head))),
        ),
        mends=tuple(mends),
    )


def with_reason(plan: CheckpointPlan, reason: str | None) -> CheckpointPlan:
    """Return a plan that records a reason in the metadata of the checkpoints that it adds."""
    if reason is None:
        return plan
    marked = tuple(
        one._replace(metadata=set_keys(one.metadata, {REASON: Put(reason)}))
        for one in plan.change.checkpoints
        if one.metadata is not None
    )
    return replace(plan, change=replace(plan.change, checkpoints=marked))


def readable_head(
    reader: ThreadReader, checkpoint_id: str | None, what: str, *, state: bool
) -> Moment:
    """Return the root's head, which is to be copied; with `state`, also its values.

    Raises `Refused` if another checkpoint is named, or if the body of the head cannot be decoded,
    and `Unreadable` if it is encrypted.
    """
    head = reader.head("")
    if head is None:
        raise Refused(f"thread '{reader.thread_id}' has no checkpoint in the root namespace")
    if checkpoint_id not in (None, head):
        raise Refused(
            f"cannot repair {what} of checkpoint '{checkpoint_id}': it is not the head",
            hint="only a copy of the head can be mended; nothing that a saver stored is changed",
        )
    found = reader.moment("", head, state=state)
    if found.body.problem is not None and is_encrypted_type(found.body.problem.type):
        found.check_readable()
    if found.body.problem is not None:
        back = shell.command("ckpt", "rollback", ids=[reader.thread_id, "~1"])
        raise Refused(
            f"cannot repair checkpoint '{head}': it cannot be decoded",
            hint=f"roll back to its parent: `{back}`",
        )
    return found


def _carried(rows: Store, head: Moment, copy: CheckpointKey) -> Iterator[tuple[Task, Write]]:
    """Yield the writes that the copy also gets, under the ids that their tasks have there."""
    origin, there = _origin(head, head.key), _origin(head, copy)
    if origin is None or there is None or head.body.v < NEWEST_FORMAT:
        return
    moved: dict[str, tuple[Task, str]] = {}
    for task in head.step.tasks:
        new = moved_id(task, head.body, origin, there) if task.id is not None else None
        if task.id is not None and new is not None:
            moved[task.id] = task, new
    stored = rows.writes(
        head.key.thread_id,
        checkpoint_ns=head.key.checkpoint_ns,
        checkpoint_ids=[head.key.checkpoint_id],
        values=True,
    )
    for write in stored:
        if write.task_id in moved:
            task, new = moved[write.task_id]
            is_wanted = write.channel not in CONTROL if task.finished else write.channel == RESUME
            if is_wanted:
                yield task, write._replace(key=copy, task_id=new)


def _origin(head: Moment, key: CheckpointKey) -> TaskIdBase | None:
    """Return what the ids of tasks at the head, or at its copy, are hashed from."""
    number = head.number or 0
    return origin_of(
        key.checkpoint_id,
        key.checkpoint_ns,
        number + 1 if key == head.key else number + 2,
        head.body.v,
        is_numeric=not any(isinstance(one, str) for one in head.body.versions.values()),
    )


def _with_writes(copy: Checkpoint, more: int) -> Checkpoint:
    """Return the copy with the number of its writes, by which `undo` knows what was added."""
    if not more or copy.metadata is None:
        return copy
    known = read_metadata(copy).get(WRITES, 0)
    number = known if isinstance(known, int) else 0
    return copy._replace(metadata=set_keys(copy.metadata, {WRITES: Put(number + more)}))


def _with_values(copy: Checkpoint, values: Mapping[str, Put]) -> Checkpoint:
    if not values or copy.body is None:
        return copy
    return copy._replace(body=set_keys(copy.body, {VALUES: dict(values)}))


def _nodes(tasks: Iterable[Task]) -> tuple[str, ...]:
    """Return the nodes of some tasks."""
    return tuple(one.node or "?" for one in tasks)
