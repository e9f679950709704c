"""The id that a task of one checkpoint has at a copy of that checkpoint."""

from __future__ import annotations

from collections.abc import Iterator

from ckpt_cli.core.state import Body
from ckpt_cli.core.tasks.task_ids import (
    TaskIdBase,
    pull_ids,
    pulled_node,
    send_ids,
    sent_index,
    trigger_sets,
)
from ckpt_cli.core.tasks.tasks import Task
from ckpt_cli.core.tasks.triggers import START, learn


def moved_id(task: Task, body: Body, origin: TaskIdBase, copy: TaskIdBase) -> str | None:
    """Return the id of a task at the copy; None if its id cannot be hashed.

    The hash that gives the stored id at `origin` is computed again for `copy`.
    """
    old, new = _ids(task, body, origin), _ids(task, body, copy)
    return next((there for here, there in zip(old, new, strict=True) if here == task.id), None)


def _ids(task: Task, body: Body, origin: TaskIdBase) -> Iterator[str]:
    """Yield the ids that a task may have, always in the same order."""
    if task.node is None:
        return
    index = sent_index(task.path)
    if index is not None:
        yield from send_ids(origin, task.node, index)
    elif pulled_node(task.path) == task.node:
        read = {channel for channel, nodes in learn([body]).items() if task.node in nodes}
        known = {*read, f"branch:to:{task.node}", START}
        yield from pull_ids(origin, task.node, trigger_sets(known, ()))
