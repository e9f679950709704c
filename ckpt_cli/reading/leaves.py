"""The node in a subgraph that asked a question or failed.

LangGraph stores a question and an error at every level, from the node of the innermost subgraph
up to the root graph's node that called it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from ckpt_backends.model import CheckpointKey
from ckpt_cli.core.step_nodes import asked_by, failed_at
from ckpt_cli.core.tasks import ERROR, INTERRUPT, Question, Task

if TYPE_CHECKING:
    from ckpt_cli.reading.thread import Moment, ThreadReader

_DEEPEST = 50
"""Levels of subgraphs that are looked into."""


def locate(reader: ThreadReader, moment: Moment) -> Moment:
    """A checkpoint whose questions and errors name the node in a subgraph that they are from."""
    step = moment.step
    if not any(task.questions or task.error is not None for task in (*step.tasks, *step.others)):
        return moment
    tasks = tuple(_located(reader, moment.key, task) for task in step.tasks)
    others = tuple(_located(reader, moment.key, task) for task in step.others)
    return replace(moment, step=replace(step, tasks=tasks, others=others))


def called(
    reader: ThreadReader, key: CheckpointKey, task_id: str | None, node: str | None
) -> Iterator[str]:
    """The namespaces of the subgraphs that a task called, or of the stateful one it is."""
    outer = f"{key.checkpoint_ns}|" if key.checkpoint_ns else ""
    call = f"{outer}{node}:{task_id}"
    known = reader.known_namespaces
    yield from (ns for ns in (f"{outer}{node}", call) if ns in known)
    number = 1  # The second call in one task is `node:task|1`.
    while (again := f"{call}|{number}") in known:
        yield again
        number += 1


def _located(reader: ThreadReader, key: CheckpointKey, task: Task) -> Task:
    if task.node is None or key.checkpoint_ns.count("|") >= _DEEPEST:
        return task
    if not task.questions and task.error is None:
        return task
    inner = list(_inner_tasks(reader, key, task))
    if not inner:
        return task
    found = replace(task, questions=tuple(_asked(task.node, one, inner) for one in task.questions))
    source = next((one for one in inner if one.error is not None and one.error == task.error), None)
    return found if source is None else replace(found, failed_in=(task.node, *failed_at(source)))


def _inner_tasks(reader: ThreadReader, key: CheckpointKey, task: Task) -> Iterator[Task]:
    """Tasks of the called subgraphs at the checkpoints where something asked or failed."""
    for ns in called(reader, key, task.id, task.node):
        stored = reader.store.writes(
            reader.thread_id, checkpoint_ns=ns, channels={INTERRUPT, ERROR}
        )
        ids = {write.key.checkpoint_id for write in stored}
        for moment in reader.moments(ns, ids) if ids else ():
            yield from (*moment.step.tasks, *moment.step.others)


def _asked(node: str, question: Question, inner: list[Task]) -> Question:
    """The question under the innermost node that asked it.

    It has the same id there. Without ids it has the same value, or is the only one, since an
    encrypted value differs at each level.
    """
    alike = [
        one for task in inner for one in task.questions if one.interrupt_id == question.interrupt_id
    ]
    if question.interrupt_id is None and len(alike) > 1:
        alike = [one for one in alike if one.value == question.value]
    if not alike:
        return question
    return replace(question, node=alike[0].node, path=(node, *asked_by(alike[0])))
