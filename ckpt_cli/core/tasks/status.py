"""The condition of a thread, given the step after its root head."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from ckpt_backends.codec import decode, decode_checkpoint
from ckpt_backends.codec.values import CHANNELS, Value
from ckpt_backends.model import Checkpoint, Status
from ckpt_cli.core.tasks.task_ids import is_call, is_handler
from ckpt_cli.core.tasks.tasks import Step, Task
from ckpt_cli.core.tasks.triggers import NOT_NODES, SENDS, START, named_node

_MAPS = (CHANNELS, "channel_versions", "versions_seen")
_VERSIONS = frozenset((str, int, float))


def conditions_of(step: Step | None) -> tuple[Status, ...]:
    """Return all conditions of a thread, given the step after its root head, the worst first.

    `step` is None if there is no head. There is at least one condition. Only `error` and
    `interrupted` occur together, from two tasks of one step.
    """
    if step is None:
        return (Status.EMPTY,)
    # Most steps have neither, and a list asks this of each.
    if any(run.error is not None or run.questions for run in (*step.tasks, *step.others)):
        found = _met(step)
        if found:
            return tuple(found)
    if step.next is None:
        return (Status.UNKNOWN,)
    return (Status.PENDING if step.next else Status.DONE,)


def _met(step: Step) -> list[Status]:
    """Return whether a task failed, and whether one asks."""
    found = []
    if blocking_failures(step):
        found.append(Status.ERROR)
    runs = (*step.tasks, *step.others)
    if any(question.is_open for run in runs for question in run.questions):
        found.append(Status.INTERRUPTED)
    return found


def status_of(step: Step | None) -> Status:
    """Return the worst condition of a thread, given the step after its root head."""
    return conditions_of(step)[0]


def is_surely_done(checkpoint: Checkpoint) -> bool:
    """Return whether nothing runs after a checkpoint on which no writes are stored.

    Its body and metadata must have been read. True only for a graph whose edges are channels, if
    no node reads a channel that has a value. `plan_step` then finds no task either. False if only
    `plan_step` can tell.
    """
    # `read_body` would copy all of it to check each part, of every head of a store.
    body = None if checkpoint.body is None else decode_checkpoint(checkpoint.body)
    if not isinstance(body, dict) or _format(body) < 4 or _may_be_input(checkpoint):
        return False
    values, versions, seen = (body.get(name, {}) for name in _MAPS)
    if not (isinstance(values, dict) and isinstance(versions, dict) and isinstance(seen, dict)):
        return False
    if checkpoint.blobs:
        values = {**values, **dict.fromkeys(checkpoint.blobs)}
    if values.get(SENDS, []) != [] or START in values:
        return False
    if not _VERSIONS.issuperset(map(type, versions.values())):
        return False
    named = [one for one in versions if isinstance(one, str) and _names_node(one)]
    if not named and START not in versions:
        return False
    if any(one in values for one in named):
        return False
    return all(
        isinstance(channels, dict) and values.keys().isdisjoint(channels)
        for node, channels in seen.items()
        if node not in NOT_NODES
    )


def _format(body: Mapping[Value, Value]) -> int:
    v = body.get("v")
    return v if isinstance(v, int) else 0


def _may_be_input(checkpoint: Checkpoint) -> bool:
    """Return whether a checkpoint has the source `input`, or metadata of which one cannot tell."""
    metadata = checkpoint.metadata
    if metadata is None:
        return False
    if metadata.type == "json" and b'"input"' not in metadata.data and b"\\" not in metadata.data:
        # Without an escape, the text would contain it.
        return False
    found = decode(metadata)
    return not isinstance(found, dict) or found.get("source") == "input"


@lru_cache(4096)
def _names_node(channel: str) -> bool:
    # All threads of a graph have the same channels.
    return named_node(channel) is not None


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
