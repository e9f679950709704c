"""The nodes of a step: which ran, which failed, and which one asks in a subgraph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ckpt_backends.model import Status
from ckpt_cli.core.state import Version
from ckpt_cli.core.task_ids import is_call
from ckpt_cli.core.tasks import Question, Step, Task, conditions_of
from ckpt_cli.core.triggers import NOT_NODES

RETRIED = "retried"
HANDLED = "handled"
_UPDATE = "~__interrupt__"
_NO_RUN = {"input", "update", "fork"}

NodePath = tuple[str, ...]
"""A node, after the nodes that called the subgraph it is in, the outermost first."""


def node_path(checkpoint_ns: str, nodes: Iterable[str]) -> NodePath:
    """Nodes within a namespace as a path from the root graph."""
    outer = (
        segment.rpartition(":")[0] or segment
        for segment in checkpoint_ns.split("|")
        if segment and not segment.isdecimal()
    )
    return (*outer, *nodes)


def path_text(path: NodePath) -> str:
    """A path as people read it: `research > ask`."""
    return " > ".join(path)


def asked_by(question: Question) -> NodePath:
    """The node that asked, from the namespace of the checkpoint on."""
    return question.path or (question.node or "?",)


def failed_at(task: Task) -> NodePath:
    """The node whose failure made the task fail, from the namespace of the checkpoint on."""
    return task.failed_in or (task.node or "?",)


def next_paths(step: Step) -> tuple[NodePath, ...] | None:
    """The nodes that are next; a subgraph that asks is followed by its node that does."""
    if step.next is None:
        return None
    return tuple(_next_path(task) for task in step.tasks if task.node is not None)


def _next_path(task: Task) -> NodePath:
    asking = [question for question in task.questions if not question.answered]
    return asked_by(asking[0]) if asking else (task.node or "?",)


def failures(step: Step) -> list[Task]:
    """The tasks that failed, also those that were retried and finished, or were handled.

    A `@task` call is left out: its failure is that of its caller, or was caught there.
    """
    return [
        run
        for run in (*step.tasks, *step.others)
        if run.error is not None and not is_call(run.path)
    ]


def marks(step: Step, *, passed: bool) -> list[str]:
    """What to say of a checkpoint's step: its conditions, and what became of failures.

    `passed` tells that other checkpoints followed it, so that nothing is pending any more.
    """
    conditions = conditions_of(step)
    found: list[str] = []
    if not (passed and conditions == (Status.PENDING,)):
        found += conditions
    failed = failures(step)
    if any(run.finished for run in failed):
        found.append(RETRIED)
    if any(run.handled and not run.finished for run in failed):
        found.append(HANDLED)
    return found


def ran_here(source: str | None) -> bool:
    """Whether nodes ran to make a checkpoint, which was not added from outside of a run."""
    return source not in _NO_RUN


def ran(
    before: Step,
    seen_before: Mapping[str, Mapping[str, Version]],
    seen: Mapping[str, Mapping[str, Version]],
) -> tuple[str, ...]:
    """The nodes that ran to make a checkpoint, one entry per task.

    They are the tasks of its parent that have output, and nodes that have read newer channel
    versions than at the parent: these ran even where nothing that they wrote is stored.
    """
    found = finished(before)
    read = {
        node
        for node, versions in seen.items()
        if node not in NOT_NODES and versions != seen_before.get(node)
    }
    called = {run.node for run in before.others if is_call(run.path)}
    return (*found, *sorted(read.difference(found, called)))


def finished(step: Step) -> tuple[str, ...]:
    """The nodes whose output is stored, one entry per task."""
    runs: Sequence[Task] = [
        *step.tasks,
        *(run for run in step.others if not is_call(run.path) and not run.path.startswith(_UPDATE)),
    ]
    return tuple(run.node for run in runs if run.finished and run.node is not None)
