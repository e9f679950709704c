"""Find the node in a subgraph that asked a question or failed.

LangGraph stores a question or an error at every level, from the node in the innermost subgraph up
to the node of the root graph that called it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ckpt_backends.model import CheckpointKey
from ckpt_cli.core.tasks.control_channels import ERROR, INTERRUPT
from ckpt_cli.core.tasks.step_nodes import asked_by, failed_at
from ckpt_cli.core.tasks.tasks import Question, Task

if TYPE_CHECKING:
    from ckpt_cli.threads.checkpoint import Moment
    from ckpt_cli.threads.thread import ThreadReader

_DEEPEST = 50
"""Maximum depth of subgraphs that are searched."""


def locate(reader: ThreadReader, moment: Moment) -> Moment:
    """Return the checkpoint with questions and errors that name the node in a subgraph."""
    step = moment.step
    if not any(task.questions or task.error is not None for task in (*step.tasks, *step.others)):
        return moment
    tasks = tuple(_located(reader, moment.key, task) for task in step.tasks)
    others = tuple(_located(reader, moment.key, task) for task in step.others)
    return moment.with_step(step._replace(tasks=tasks, others=others))


def called(
    reader: ThreadReader, key: CheckpointKey, task_id: str | None, node: str | None
) -> Iterator[str]:
    """Yield the namespaces of the subgraphs that a task called, stateful ones included."""
    if key.checkpoint_ns.count("|") >= _DEEPEST:
        return
    outer = f"{key.checkpoint_ns}|" if key.checkpoint_ns else ""
    call = f"{outer}{node}:{task_id}"
    known = reader.known_namespaces
    yield from (ns for ns in (f"{outer}{node}", call) if ns in known)
    number = 1  # The namespace of a task's second call is `node:task|1`.
    while (again := f"{call}|{number}") in known:
        yield again
        number += 1


def _located(reader: ThreadReader, key: CheckpointKey, task: Task) -> Task:
    if task.node is None:
        return task
    if not task.questions and task.error is None:
        return task
    inner = list(_inner_tasks(reader, key, task))
    if not inner:
        return task
    found = task._replace(questions=tuple(_asked(task.node, one, inner) for one in task.questions))
    source = next((one for one in inner if one.error is not None and one.error == task.error), None)
    return found if source is None else found._replace(failed_in=(task.node, *failed_at(source)))


def _inner_tasks(reader: ThreadReader, key: CheckpointKey, task: Task) -> Iterator[Task]:
    """Yield the tasks of called subgraphs at the checkpoints where something asked or failed."""
    for ns in called(reader, key, task.id, task.node):
        stored = reader.store.writes(
            reader.thread_id, checkpoint_ns=ns, channels={INTERRUPT, ERROR}
        )
        ids = {write.key.checkpoint_id for write in stored}
        for moment in reader.moments(ns, ids) if ids else ():
            yield from (*moment.step.tasks, *moment.step.others)


def _asked(node: str, question: Question, inner: list[Task]) -> Question:
    """Return the question with the innermost node that asked it.

    The inner question has the same id. If there are no ids it has the same value, or it is the only
    one (an encrypted value differs at each level).
    """
    alike = [
        one for task in inner for one in task.questions if one.interrupt_id == question.interrupt_id
    ]
    if question.interrupt_id is None and len(alike) > 1:
        alike = [one for one in alike if one.value == question.value]
    if not alike:
        return question
    return question._replace(node=alike[0].node, path=(node, *asked_by(alike[0])))
