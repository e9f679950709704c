"""Faults in the step that a thread has stopped at."""

from typing import Any

import ormsgpack

from ckpt_backends.model import NULL_TASK_ID, CheckpointKey, TypedBytes, Write
from ckpt_cli.core.doctor.checks import step_findings
from ckpt_cli.core.doctor.findings import Finding
from ckpt_cli.core.resume import Unsaved
from ckpt_cli.core.tasks import Question, Step, Task, is_uncommitted
from tests.kit.cases import cases

KEY = CheckpointKey("t", "", "c")


def write(task_id: str, channel: str, value: Any) -> Write:
    data = ormsgpack.packb(value)
    return Write(KEY, task_id, "", 0, channel, len(data), TypedBytes("msgpack", data))


def task(
    node: str, *writes: Write, asks: str = "", finished: bool = False, error: str | None = None
) -> Task:
    question = Question("i", node, node, asks, answered=finished)
    questions = (question,) if asks else ()
    return Task(node, node, "", finished, error, False, questions, writes)


def step(*tasks: Task, others: tuple[Task, ...] = (), assumed: bool = False) -> Step:
    nodes = tuple(str(one.node) for one in tasks)
    waiting = tuple(str(one.node) for one in tasks if not one.finished)
    return Step(tasks, others, nodes, waiting, assumed)


def found(step: Step, *null: Write) -> list[tuple[str, str | None]]:
    writes = [*null, *(one for run in (*step.tasks, *step.others) for one in run.writes)]
    findings: list[Finding] = list(step_findings(KEY, step, writes, Unsaved))
    assert all(one.checkpoint_id == "c" for one in findings)
    return [(one.code, one.task_id) for one in findings]


def test_a_step_whose_tasks_all_finished_should_have_a_checkpoint() -> None:
    assert found(step(task("a", finished=True), task("b", finished=True))) == [
        ("step-uncommitted", None)
    ]


@cases(
    "one",
    step(),
    step(task("a", finished=True), task("b")),
    step(task("a", finished=True), assumed=True),
    step(task("a", finished=True), others=(task("call", asks="sure?"),)),
    step(task("a", finished=True), others=(task("handler", error="no"),)),
    Step((), (), None, None, False),
)
def test_any_other_step_may_wait(one: Step) -> None:
    assert not is_uncommitted(one)
    assert found(one) == []


def resume(value: Any) -> Write:
    return write(NULL_TASK_ID, "__resume__", value)


def test_an_answer_that_its_task_has_used_waits_for_the_next_question() -> None:
    asking = task("a", write("a", "__resume__", ["yes"]), asks="again?")
    assert found(step(asking), resume("yes")) == [("resume-stale", "a")]
    assert (found(step(asking)), found(step(asking), resume("no"))) == ([], [])


@cases("used answer", ([1], True), ([True], 1), (["1"], 1), ([["yes"]], "yes"))
def test_only_the_same_answer_is_stale(used: Any, answer: Any) -> None:
    asking = task("a", write("a", "__resume__", used), asks="again?")
    assert found(step(asking), resume(answer)) == []


def test_an_answer_that_no_task_has_used_belongs_to_the_question() -> None:
    """The agent was killed after it got the answer."""
    assert found(step(task("a", asks="sure?")), resume("yes")) == []


def test_an_answer_without_any_question_waits_for_the_next_one() -> None:
    assert found(step(task("a")), resume("yes")) == [("resume-stale", None)]
    assert found(step(), resume("yes")) == []


def test_an_answer_that_cannot_be_read_is_left_alone() -> None:
    damaged = Write(KEY, NULL_TASK_ID, "", 0, "__resume__", 1, TypedBytes("msgpack", b"\xc1"))
    assert found(step(task("a")), damaged) == []
