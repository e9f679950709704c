"""A thread as tests: what is left of it where only one step is wanted."""

from typing import Any

from ckpt_cli.core.thread_tests import LeftOut, TaskRecord, ThreadRecord


def test_behind_a_checkpoint_only_its_own_tasks_are_tested() -> None:
    def task(name: str, checkpoint_id: str, **more: Any) -> TaskRecord:
        return TaskRecord(name, name, "", 1, checkpoint_id=checkpoint_id, **more)

    tasks = [
        task("calls", "1", is_tested=True, inside=["called"]),
        task("called", "in the subgraph", is_tested=True),
        task("failed", "1"),
        task("after", "2", is_tested=True),
    ]
    left_out = [LeftOut("failed", "why"), LeftOut("after", "why")]
    found = ThreadRecord("t", "2", None, "", {}, tasks, None, left_out).behind("1")
    assert [one.name for one in found.tasks] == ["calls", "called", "failed"]
    assert [one.name for one in found.tested] == ["calls"]
    assert found.left_out == left_out[:1]
