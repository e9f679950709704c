"""A checkpoint's writes, with the task of each."""

# Without `annotations` of `__future__`: a `NamedTuple` would compile each of these texts.
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

from ckpt_backends.codec import decode
from ckpt_backends.codec.values import Value
from ckpt_backends.model import Write
from ckpt_cli.core.tasks.tasks import Step, Task

_NEVER = datetime.min.replace(tzinfo=UTC)


class TaskWrite(NamedTuple):
    """A write with its node and task path."""

    write: Write
    node: str | None
    """None for the caller's writes, and if the task is not known."""
    path: str
    """The task path; computed if the layout stores none."""
    instead: Value = None
    """Value to show instead of the real one, for example when it is redacted."""

    @property
    def value(self) -> Value:
        """The decoded value, decoded again each time; None if it was not read."""
        if self.instead is not None or self.write.value is None:
            return self.instead
        return decode(self.write.value)


def task_writes(writes: Iterable[Write], step: Step) -> list[TaskWrite]:
    """Return the writes in the order in which LangGraph applies them, each with its task.

    Source: `writes_sort_key` in `langgraph/checkpoint/base`. If the layout stores no path, the path
    of the write's task is used. If it stores the time of each write, writes are sorted by that.
    """
    owned = tasks_by_id(step)
    found: list[TaskWrite] = []
    for write in writes:
        owner = owned.get(write.task_id)
        path = write.task_path or (owner.path if owner is not None else "")
        found.append(TaskWrite(write, owner.node if owner is not None else None, path))
    return sorted(found, key=_place)


def tasks_by_id(step: Step) -> dict[str, Task]:
    """Return task id to task for all writes, without the null task."""
    return {write.task_id: run for run in (*step.tasks, *step.others) for write in run.writes}


def write_order(writes: Iterable[Write], step: Step) -> list[Write]:
    """Return a checkpoint's writes in the order in which LangGraph applies them."""
    return [one.write for one in task_writes(writes, step)]


def _place(one: TaskWrite) -> tuple[datetime, str, str, int]:
    write = one.write
    return write.at or _NEVER, one.path, write.task_id, write.idx
