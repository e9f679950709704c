"""The condition of a thread, given the step after its root head."""

from __future__ import annotations

from collections.abc import Mapping

from ckpt_backends.codec.values import Value
from ckpt_backends.model import Status
from ckpt_cli.core.state import Body, source_from
from ckpt_cli.core.tasks.task_ids import is_call, is_handler
from ckpt_cli.core.tasks.tasks import Step, Task
from ckpt_cli.core.tasks.triggers import NOT_NODES, SENDS, START, named_node


def conditions_of(step: Step | None) -> tuple[Status, ...]:
    """Return all conditions of a thread, given the step after its root head, the worst first.

    `step` is None if there is no head. There is at least one condition. Only `error` and
    `interrupted` occur together, from two tasks of one step.
    """
    if step is None:
        return (Status.EMPTY,)
    found = []
    if blocking_failures(step):
        found.append(Status.ERROR)
    runs = (*step.tasks, *step.others)
    if any(not question.answered for run in runs for question in run.questions):
        found.append(Status.INTERRUPTED)
    if found:
        return tuple(found)
    if step.next is None:
        return (Status.UNKNOWN,)
    return (Status.PENDING if step.next else Status.DONE,)


def status_of(step: Step | None) -> Status:
    """Return the worst condition of a thread, given the step after its root head."""
    return conditions_of(step)[0]


def is_surely_done(body: Body, metadata: Mapping[str, Value]) -> bool:
    """Return whether nothing runs after a checkpoint on which no writes are stored.

    True only for a graph whose edges are channels, if no node reads a channel that has a value.
    `plan_step` then finds no task either. False if only `plan_step` can tell.
    """
    if body.problem is not None or body.v < 4 or source_from(metadata) == "input":
        return False
    if not body.values.keys().isdisjoint((SENDS, START)):
        return False
    named = {channel for channel in body.versions if named_node(channel) is not None}
    if not named and START not in body.versions:
        return False
    read = named.union(*(seen for node, seen in body.seen.items() if node not in NOT_NODES))
    return read.isdisjoint(body.values)


def blocking_failures(step: Step) -> list[Task]:
    """Return the tasks for whose retry a step waits: their errors give it the status error."""
    runs = (*step.tasks, *(run for run in step.others if _is_part(run, step)))
    return list(filter(has_failed, runs))


def blocking_error(step: Step) -> str | None:
    """Return the first of these errors on one line, with its node; None if there is none."""
    return next((f"{run.node or '?'}: {run.error}" for run in blocking_failures(step)), None)


def has_failed(run: Task) -> bool:
    """Return whether a task failed, and was neither retried nor handled."""
    return run.error is not None and not run.finished and not run.handled


def _is_part(run: Task, step: Step) -> bool:
    """Return whether the error of an unplanned task counts as an error of the step.

    The error of a `@task` call counts for its caller. A task without a path is treated as a call if
    all planned tasks have an id.
    """
    if is_handler(run.path) or is_call(run.path):
        return is_handler(run.path)
    return step.next is None or any(task.id is None for task in step.tasks)
