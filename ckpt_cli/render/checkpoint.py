"""Checkpoints as records, with their tasks, questions and writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ckpt_cli.core.tasks import Task, TaskWrite, asked_by, failed_at, next_paths
from ckpt_cli.render.fields import Field, Part, Shape, inside, known, optional
from ckpt_cli.render.threads import STATUS
from ckpt_cli.render.types import BYTES, FLAG, INTEGER, KEY, TEXT, TIME, VALUE, VALUES

if TYPE_CHECKING:
    from collections.abc import Sequence


def _failed_in(task: Task) -> tuple[str, ...] | None:
    return None if task.error is None else failed_at(task)


def _with_value(placed: TaskWrite) -> TaskWrite | None:
    """Return a write, if its value was read."""
    return None if placed.write.value is None else placed


def _type(placed: TaskWrite) -> str | None:
    return None if placed.write.value is None else placed.write.value.type


def _next_paths(found: Any) -> Sequence[Sequence[str]] | None:
    return next_paths(found.moment.step)


def _problem(found: Any) -> str | None:
    problem = found.moment.body.problem
    return None if problem is None else problem.reason


_PARENT = "checkpoint.parent_checkpoint_id"
_BEGINS_RUN = "moment.checkpoint.begins_run"
NODES = TEXT.list.or_null
QUESTION = Shape(
    "A question of a task.",
    Field("task_id", TEXT, "Task that asks."),
    Field("node", TEXT.or_null, "Its node."),
    Field("path", TEXT.list, "Nodes from this one to the one that asks.", asked_by),
    Field("interrupt_id", TEXT.or_null, "Id of the question."),
    Field("value", VALUE, "What the node gave to interrupt()."),
    Field("answered", FLAG, "Whether it was answered."),
    optional("failed_answer", FLAG, "The task failed with the answer that is stored."),
    known("response_schema", VALUE, "JSON Schema of the answer, where the graph gave one."),
)
TASK = Shape(
    "A task of the next step.",
    Field("id", TEXT.or_null, "Task."),
    Field("node", TEXT.or_null, "Node; null if not known."),
    Field("path", TEXT, "Task path."),
    Field("finished", FLAG, "Whether it has output."),
    Field("error", TEXT.or_null, "Its error."),
    known("failed_in", TEXT.list, "Nodes from this one to the one that failed.", _failed_in),
    Field("interrupts", QUESTION.list, "Its questions.", "questions"),
)
WRITE = Shape(
    "What a task wrote on one channel.",
    Field("task_id", TEXT, "Task; only zeros for writes of the caller.", "write.task_id"),
    Field("node", TEXT.or_null, "Node; null for writes of the caller."),
    Field("task_path", TEXT, "Task path.", "path"),
    Field("idx", INTEGER, "Place among the writes of the task.", "write.idx"),
    Field("channel", TEXT, "Channel.", "write.channel"),
    Field("type", TEXT.or_null, "Type tag of the serializer.", _type),
    Field("bytes", BYTES, "Length of the stored value.", "write.size"),
    known("at", TIME, "When it was stored, in layouts that store that.", "write.at"),
    Part(
        Shape(
            "A write with its value.",
            Field("value", VALUE, "Value."),
            optional("encrypted", FLAG, "It is stored encrypted.", "write.value.encrypted"),
        ),
        _with_value,
    ),
)
OPERATION = Shape(
    "A change that `ckpt` made.",
    Field("op", TEXT, "Operation.", "operation.op"),
    Field("action", TEXT, "What it did.", "operation.action"),
    Field("at", TIME.or_null, "When.", "operation.at"),
    Field("user", TEXT, "Who ran it.", "operation.user"),
    Field("reason", TEXT.or_null, "Why.", "operation.reason"),
    Field("undone_by", TEXT.or_null, "Operation that took it back."),
)
CHECKPOINT = Shape(
    "A checkpoint without its values and writes.",
    *inside(
        "moment",
        *KEY,
        Field("parent_checkpoint_id", TEXT.or_null, "Checkpoint before it.", _PARENT),
        Field("ts", TIME.or_null, "When it was saved.", "at"),
        Field("step", INTEGER.or_null, "Step.", "number"),
        Field("source", TEXT.or_null, "How it was made: input, loop, update, fork."),
        Field("next", NODES, "Nodes of the step after it; null if not known.", "step.next"),
    ),
    Field("next_paths", TEXT.list.list.or_null, "The same, with those in subgraphs.", _next_paths),
    Field("waiting", NODES, "Those without output.", "moment.step.waiting"),
    Field("status", STATUS, "The worst of `conditions`.", lambda one: one.moment.conditions[0]),
    Field("conditions", STATUS.list, "All that hold, the worst first.", "moment.conditions"),
    Field("tasks", TASK.list, "Tasks of the step after it.", "moment.step.runs"),
    Field("metadata", VALUES, "Metadata.", "moment.metadata"),
    Field("interrupts", QUESTION.list, "Questions of these tasks.", "moment.step.questions"),
    Field("children", TEXT.list, "Checkpoints made from it, oldest first."),
    Field("versions", VALUES, "Channel to version.", "moment.body.versions"),
    Field("write_count", INTEGER, "Writes stored with it.", lambda one: len(one.moment.writes)),
    known("problem", TEXT, "Why its body cannot be read.", _problem),
    optional("assumed", FLAG, "What is next is not stored, and assumed.", "moment.step.assumed"),
    optional("begins_run", FLAG, "Its parent is not stored, and assumed.", _BEGINS_RUN),
)
"""Of an object with a `moment` and its `children`."""


def checkpoint_fields(*left_out: str) -> list[Field]:
    """Return the keys of a checkpoint, without some."""
    return [one for key, one in CHECKPOINT.fields.items() if key not in left_out]
