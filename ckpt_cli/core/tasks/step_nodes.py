"""The nodes of a step: which ran, which failed, and which asked inside a subgraph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ckpt_backends.model import Status
from ckpt_cli.core.state import Version
from ckpt_cli.core.tasks.followers import graph_of
from ckpt_cli.core.tasks.status import conditions_of
from ckpt_cli.core.tasks.task_ids import UPDATE_PATH, is_call
from ckpt_cli.core.tasks.tasks import Question, Step, Task
from ckpt_cli.core.tasks.triggers import NOT_NODES, START, is_greater

RETRIED = "retried"
HANDLED = "handled"
_NO_RUN = {"input", "update", "fork"}

NodePath = tuple[str, ...]
"""The nodes that called each other's subgraphs, outermost first, then the node itself."""


def node_path(checkpoint_ns: str, nodes: Iterable[str]) -> NodePath:
    """Return nodes within a namespace as a path from the root graph."""
    return (*graph_of(checkpoint_ns), *nodes)


def path_text(path: NodePath) -> str:
    """Return a path in readable form: `research > ask`."""
    return " > ".join(path)


def asked_by(question: Question) -> NodePath:
    """Return the path of the node that asked, relative to the checkpoint's namespace."""
    return question.path or (question.node or "?",)


def failed_at(task: Task) -> NodePath:
    """Return the path of the node that failed, relative to the checkpoint's namespace."""
    return task.failed_in or (task.node or "?",)


def next_paths(step: Step) -> tuple[NodePath, ...] | None:
    """Return the nodes that run next; for a subgraph that asks, the path to the node that asked.

    Returns None if the next nodes are not known.
    """
    if step.next is None:
        return None
    return _paths(step.tasks)


def waiting_paths(step: Step) -> tuple[NodePath, ...] | None:
    """Return the same for the tasks without a saved result, of which `get_state` of LangGraph 1.2
    gives the nodes as `next`.
    """
    if step.waiting is None:
        return None
    return _paths(task for task in step.tasks if not task.finished)


def _paths(tasks: Iterable[Task]) -> tuple[NodePath, ...]:
    return tuple(path for task in tasks if task.node is not None for path in _task_paths(task))


def _task_paths(task: Task) -> list[NodePath]:
    asking = [asked_by(question) for question in task.questions if question.is_open]
    return asking or [(task.node or "?",)]


def failures(step: Step) -> list[Task]:
    """Return the tasks that failed, including those that were retried with success or handled.

    Calls of `@task` functions are left out: their failure counts for the caller, or was caught
    there.
    """
    return [
        run
        for run in (*step.tasks, *step.others)
        if run.error is not None and not is_call(run.path)
    ]


def marks(step: Step, *, passed: bool) -> list[str]:
    """Return the marks of a checkpoint's step: its conditions, and whether failures were handled.

    `passed`: other checkpoints follow this one, so nothing is pending any more.
    """
    conditions = conditions_of(step)
    found: list[str] = []
    if not (passed and conditions == (Status.PENDING,)):
        found += [one.value for one in conditions]
    if failed := failures(step):
        if any(run.finished for run in failed):
            found.append(RETRIED)
        if any(run.handled and not run.finished for run in failed):
            found.append(HANDLED)
    return found


def ran_here(source: str | None) -> bool:
    """Return whether a run made the checkpoint: False for inputs, updates and forks."""
    return source not in _NO_RUN


def ran(
    before: Step,
    seen_before: Mapping[str, Mapping[str, Version]],
    seen: Mapping[str, Mapping[str, Version]],
) -> tuple[str, ...]:
    """Return the nodes that ran to make a checkpoint, one entry per task.

    These are the tasks of its parent with output, and nodes that have read newer channel versions
    than at the parent: such nodes ran even if none of their writes is stored. If a new input came
    in between, as `durability="exit"` stores it, what was next at the parent did not run.
    """
    started = new_input(before, seen_before, seen)
    found = () if started is not None else finished(before)
    read = {
        node
        for node, versions in seen.items()
        if node not in NOT_NODES
        and versions != seen_before.get(node)
        and (
            started is None
            or node == START
            or any(is_greater(version, started) for version in versions.values())
        )
    }
    called = {run.node for run in before.others if is_call(run.path)}
    return (*found, *sorted(read.difference(found, called)))


def new_input(
    before: Step,
    seen_before: Mapping[str, Mapping[str, Version]],
    seen: Mapping[str, Mapping[str, Version]],
) -> Version | None:
    """Return the version of a new input that a StateGraph read after the parent; None if none came.

    An input drops the tasks of its parent, and what they stored. It notes in `versions_seen` what
    they would have read. What runs after it reads newer versions than its own.
    """
    version = seen.get(START, {}).get(START)
    known = seen_before.get(START, {}).get(START)
    is_old = version is None or version == known or any(one.node == START for one in before.tasks)
    return None if is_old else version


def finished(step: Step) -> tuple[str, ...]:
    """Return the nodes with stored output, one entry per task."""
    runs: Sequence[Task] = [
        *step.tasks,
        *(
            run
            for run in step.others
            if not is_call(run.path) and not run.path.startswith(UPDATE_PATH)
        ),
    ]
    return tuple(run.node for run in runs if run.finished and run.node is not None)
