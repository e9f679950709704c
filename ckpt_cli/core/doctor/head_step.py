"""Find faults in the step that a thread has stopped at, from the writes of its tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ckpt_backends.codec import decode
from ckpt_backends.codec.values import Opaque, Value
from ckpt_backends.model import NULL_TASK_ID, CheckpointKey, Status, Write
from ckpt_cli.core.doctor.finding import Finding
from ckpt_cli.core.tasks.control_channels import RESUME
from ckpt_cli.core.tasks.resume import StoredAnswer
from ckpt_cli.core.tasks.status import conditions_of
from ckpt_cli.core.tasks.tasks import Step, Task
from ckpt_cli.core.values.equality import same


def step_findings(key: CheckpointKey, step: Step, writes: Sequence[Write]) -> Iterator[Finding]:
    """Yield what is wrong with the step after a head that no agent is working on."""
    if is_uncommitted(step):
        nodes = ", ".join(sorted({f"'{task.node}'" for task in step.tasks}))
        yield _finding("step-uncommitted", key, f"{nodes} finished, and no checkpoint followed")
    yield from stale_resumes(key, step, writes)


def is_uncommitted(step: Step) -> bool:
    """Return whether all tasks of a step finished, which the next checkpoint would have told."""
    return (
        bool(step.next)
        and not step.assumed
        and all(task.finished for task in step.tasks)
        and all(run.finished for run in step.others if run.questions or run.error is not None)
    )


def stale_resumes(key: CheckpointKey, step: Step, writes: Sequence[Write]) -> Iterator[Finding]:
    """Yield the answers that LangGraph would give to a question that they were not meant for.

    `Command(resume=...)` stores its answer for the null task, and `invoke(None)` gives it to the
    next question that a task asks. The answer stays there after a task has used it: then it is also
    in the task's own list of answers (langgraph issue 8837).
    """
    answers = [value for write in writes for value in _answers(write, NULL_TASK_ID)]
    if not answers:
        return
    runs = (*step.tasks, *step.others)
    asking = [run for run in runs if any(one.is_open for one in run.questions)]
    for run in asking:
        if any(same(one, answer) for one in _used(run) for answer in answers):
            node = f"'{run.node}'" if run.node is not None else "a task"
            what = f"{node} has used the stored answer; invoke(None) would use it once more"
            yield _finding("resume-stale", key, what, run.id)
    if not any(run.questions for run in runs) and conditions_of(step) == (Status.PENDING,):
        what = "an answer is stored, but no task asked; the next question would get it"
        yield _finding("resume-stale", key, what)


def unused_answer(
    key: CheckpointKey, step: Step, writes: Sequence[Write], becomes: StoredAnswer | None
) -> Iterator[Finding]:
    """Yield the answer that the caller gave last, if no task will use it.

    `becomes` is what `stored_answer` says of the questions that wait. Without a next node nothing
    asks, and a new input drops what is stored with the head (`_first` in
    `langgraph/pregel/_loop.py`).
    """
    if not any(True for write in writes for _ in _answers(write, NULL_TASK_ID)):
        return
    if becomes == "unused":
        asking = sorted(
            {f"'{run.node}'" for run in step.tasks if run.questions and not run.finished}
        )
        nodes = ", ".join(asking) or "a task"
        what = f"{nodes} has an earlier answer, which is used first"
        yield _finding("answer-unused", key, what)
    elif step.next == () and not step.assumed:
        yield _finding("answer-unused", key, "nothing is next, so no task asks for it")


def _used(run: Task) -> Iterator[Value]:
    """Yield the answers that a task has used."""
    for write in run.writes:
        for value in _answers(write, write.task_id):
            yield from value if isinstance(value, list) else [value]


def _answers(write: Write, task_id: str) -> Iterator[Value]:
    if write.task_id == task_id and write.channel == RESUME and write.value is not None:
        value = decode(write.value)
        if not isinstance(value, Opaque):
            yield value


def _finding(code: str, key: CheckpointKey, detail: str, task_id: str | None = None) -> Finding:
    return Finding(
        code=code,
        detail=detail,
        thread_id=key.thread_id,
        checkpoint_ns=key.checkpoint_ns,
        checkpoint_id=key.checkpoint_id,
        task_id=task_id,
    )
