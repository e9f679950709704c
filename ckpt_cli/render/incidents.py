"""Failed tasks and open questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ckpt_cli.core.tasks import (
    HANDLED,
    RETRIED,
    NodePath,
    asked_by,
    error_start,
    node_path,
    path_text,
)
from ckpt_cli.queries.incidents import Failure, FailureGroup, GroupBy, Waiting
from ckpt_cli.render.fields import Field, Shape, known, optional
from ckpt_cli.render.table import AGE, AGO, AT, THREAD, Column
from ckpt_cli.render.text import Style
from ckpt_cli.render.types import ANY, FLAG, INTEGER, KEY, TEXT, TIME, VALUE, one_of
from ckpt_cli.render.values import value_text

BLOCKS = "failed"
LEFT = "left"
"""The thread went another way: by a new input, a rollback or a fork."""


def failure_state(found: Failure) -> str:
    """Return what became of a failed task, in one word."""
    if found.retried:
        return RETRIED
    if found.handled:
        return HANDLED
    return BLOCKS if found.blocks else LEFT


def _state_style(state: str) -> Style:
    return "error" if state == BLOCKS else "dim"


def _asker(found: Waiting) -> NodePath:
    return node_path(found.key.checkpoint_ns, asked_by(found.question))


FAILURE = Shape(
    "A task that failed.",
    *KEY,
    Field("task_id", TEXT.or_null, "Task."),
    Field("node", TEXT, "Node that failed.", lambda one: one.path[-1]),
    Field("path", TEXT.list, "Nodes from the root graph to the one that failed."),
    Field("error", TEXT, "Error."),
    Field("at", TIME.or_null, "When it was stored, or the step began."),
    Field("retried", FLAG, "Whether the task ran again, with success."),
    Field("handled", FLAG, "Whether its error handler has finished, or asks."),
    Field("state", one_of(BLOCKS, RETRIED, HANDLED, LEFT), "What became of it.", failure_state),
    Field("resume", ANY.or_null, "What retries it; null if the thread went on."),
    known("user", TEXT, "User of the thread."),
)
_USER = Column("USER", "user", cut=True, drop=2)
FAILURE_HISTORY_COLUMNS = FAILURE.columns(
    THREAD,
    _USER,
    Column("NODE", "path", path_text, style="node"),
    "node",
    Column("STATE", "state", style=_state_style),
    Column("FAILED", "at", AGO, style="time", right=True, drop=1),
    Column("ERROR", "error", error_start, style="error", cut=True),
    *("checkpoint_ns", "checkpoint_id", "task_id", "retried", "handled", "resume"),
)
FAILURE_COLUMNS = [
    one._replace(table=one.table and one.key != "state") for one in FAILURE_HISTORY_COLUMNS
]
"""Without the history, a thread waits for each failure that is listed."""

WAITING = Shape(
    "A question that waits for an answer.",
    *KEY,
    Field("task_id", TEXT, "Task that asks.", "question.task_id"),
    Field("node", TEXT.or_null, "Its node.", "question.node"),
    Field("interrupt_id", TEXT.or_null, "Id of the question.", "question.interrupt_id"),
    Field("value", VALUE, "What the node gave to interrupt().", "question.value"),
    optional("failed_answer", FLAG, "It failed when answered.", "question.failed_answer"),
    optional("response_schema", VALUE, "JSON Schema of the answer.", "question.response_schema"),
    Field("path", TEXT.list, "Nodes from the root graph to the one that asks.", _asker),
    Field("since", TIME.or_null, "When the step began that asked it."),
    optional("unloaded", TEXT, "What the saver does instead of loading this head."),
    known("user", TEXT, "User of the thread."),
)
WAITING_COLUMNS = WAITING.columns(
    THREAD,
    _USER,
    Column("NODE", "path", path_text, style="node"),
    "node",
    Column("WAITING", "since", AGE, right=True),
    Column("QUESTION", "value", value_text, cut=True, style="question"),
    Column("INTERRUPT", "interrupt_id", style="id", drop=1),
    *("response_schema", "checkpoint_ns", "checkpoint_id", "task_id"),
)


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} ×{n}" if len(counts) > 1 else name for name, n in counts.items())


def _group(by: GroupBy, others: str) -> Shape:
    return Shape(
        f"The failures of one {by}.",
        Field(by, TEXT, "What they have in common.", "name"),
        Field("failures", INTEGER, "Number of failed tasks."),
        Field("threads", INTEGER, "Number of threads that they are in."),
        Field(others, INTEGER.by_name, "Their numbers, the greatest first.", _most_common),
        Field("first_at", TIME.or_null, "When the first failed."),
        Field("last_at", TIME.or_null, "When the last failed."),
        Field("newest", TEXT, "Thread of the last."),
    )


def _most_common(found: FailureGroup) -> dict[str, int]:
    return dict(found.others.most_common())


FAILURE_GROUPS: Mapping[GroupBy, Shape] = {
    "error": _group("error", "nodes"),
    "node": _group("node", "errors"),
    "user": _group("user", "nodes"),
    "metadata": _group("metadata", "nodes"),
}


def group_columns(by: GroupBy) -> Sequence[Column]:
    """Return the columns of `errors --by`."""
    kinds = {
        "error": (
            Column("ERROR", "error", style="error", cut=True, least=30),
            Column("NODES", "nodes", _counted, style="node", cut=True),
        ),
        "node": (
            Column("NODE", "node", style="node"),
            Column("ERRORS", "errors", _counted, style="error", cut=True),
        ),
    }
    named = (
        Column(by.upper(), by, style="head", cut=True, least=20),
        Column("NODES", "nodes", _counted, style="node", cut=True),
    )
    return FAILURE_GROUPS[by].columns(
        Column("COUNT", "failures", lambda n: f"{n} ×", right=True),
        Column("THREADS", "threads", right=True, drop=3),
        *kinds.get(by, named),
        Column("SINCE", "first_at", AT, style="time", drop=2),
        Column("LAST", "last_at", AGO, style="time", right=True, drop=1),
        Column("NEWEST", "newest", style="head", drop=4),
    )
