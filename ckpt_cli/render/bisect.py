"""Show where a condition begins to hold, as text and as a record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter, itemgetter
from typing import Any

from ckpt_backends import shell
from ckpt_backends.model import NULL_TASK_ID
from ckpt_cli.queries.bisect import Bisection
from ckpt_cli.render.fields import Field, Shape, View
from ckpt_cli.render.table import step_at
from ckpt_cli.render.text import StyledLine, Ui, command_field, field
from ckpt_cli.render.threads import counted_names
from ckpt_cli.render.types import FLAG, INTEGER, TEXT, TIME, VALUE
from ckpt_cli.render.values import counted, summary

_SHOWN = 1000
"""Maximum width of a value."""


def _of_moment(name: str) -> Callable[[Bisection], Any]:
    """Return what takes something of the checkpoint; None if there is none."""
    take = attrgetter(name)
    return lambda found: None if found.moment is None else take(found.moment)


def _tasks(found: Bisection) -> list[dict[str, Any]]:
    """Return the tasks that made the checkpoint, each with the channels that it wrote."""
    tasks: dict[str, dict[str, Any]] = {}
    for one in found.writes:
        task_id = one.write.task_id
        task: dict[str, Any] = {"task_id": task_id, "node": one.node, "channels": []}
        channels = tasks.setdefault(task_id, task)["channels"]
        if one.write.channel not in channels:
            channels.append(one.write.channel)
    return list(tasks.values())


_TASK = Shape(
    "A task.",
    Field("task_id", TEXT, "Task.", itemgetter("task_id")),
    Field("node", TEXT.or_null, "Its node.", itemgetter("node")),
    Field("channels", TEXT.list, "What it wrote.", itemgetter("channels")),
)
_VALUES = VALUE.by_name.or_null
BISECTION = Shape(
    "Where a condition begins to hold.",
    Field("thread_id", TEXT, "Thread."),
    Field("checkpoint_ns", TEXT, "Namespace."),
    Field(
        "checkpoint_id",
        TEXT.or_null,
        "First checkpoint where it holds; null if it holds nowhere.",
        _of_moment("key.checkpoint_id"),
    ),
    Field(
        "parent_checkpoint_id",
        TEXT.or_null,
        "Its parent.",
        _of_moment("checkpoint.parent_checkpoint_id"),
    ),
    Field("step", INTEGER.or_null, "Its step.", _of_moment("number")),
    Field(
        "nodes", TEXT.list.or_null, "Nodes that ran to make it; null if its parent is not stored."
    ),
    Field("before", _VALUES, "At the parent, what the condition names."),
    Field("after", _VALUES, "The same at the checkpoint."),
    Field("ts", TIME.or_null, "When it was saved.", _of_moment("at")),
    Field("source", TEXT.or_null, "Its source.", _of_moment("source")),
    Field("tasks", _TASK.list, "Tasks that made it.", _tasks),
    Field("from_start", FLAG, "No earlier checkpoint is known where it does not hold."),
    Field("skipped", TEXT.list, "Checkpoints directly before that could not be judged."),
    Field("tried", INTEGER, "Number of checkpoints that were judged.", "search.tried"),
    Field("unjudged", INTEGER, "How many of them could not be.", "search.skipped"),
)


def _lines(found: Bisection, ui: Ui, words: Sequence[str]) -> Iterator[StyledLine]:
    """Yield the checkpoint, what made it, and what changed; nothing if there is none.

    `words` are the options that name the store.
    """
    moment, width = found.moment, ui.width
    if moment is None:
        return
    yield from field("first", moment.key.checkpoint_id, width, "id")
    yield from field("step", step_at(moment.number, moment.source, moment.at, ui), width)
    if found.nodes:
        yield from field("by", counted_names(found.nodes), width, "node")
    for task in _tasks(found):
        who = f"{task['node'] or '?'}  {task['task_id']}"
        if task["task_id"] == NULL_TASK_ID:
            who = "the caller, with Command(update=...)"
        yield from field("task", f"{who}  wrote {', '.join(task['channels'])}", width)
    yield from _value_lines(found, width)
    tried = f"{found.search.tried} of {counted(found.total, 'checkpoint')}"
    yield from field("tried", tried, width, "dim")
    if moment.checkpoint.parent_checkpoint_id is not None and not found.from_start:
        at_ns = ["--ns", found.checkpoint_ns] if found.checkpoint_ns else []
        target = f"{found.thread_id}@{moment.key.checkpoint_id}"
        yield command_field("see", shell.command("ckpt", *words, "diff", *at_ns, ids=[target]))


def _value_lines(found: Bisection, width: int) -> Iterator[StyledLine]:
    for name in found.asked:
        for label, values in (("before", found.before), ("after", found.after)):
            if values is not None:
                value = summary(values[name], _SHOWN) if name in values else "(nothing)"
                yield from field(label, f"{name}: {value}", width)


BISECTION_VIEW = View(
    BISECTION.record,
    _lines,
    lambda found: [BISECTION.record(found)] if found.moment else [],
    BISECTION.columns(
        *("thread_id", "checkpoint_ns", "checkpoint_id", "parent_checkpoint_id", "step", "nodes"),
        *("before", "after", "ts", "source", "tasks", "tried"),
    ),
)
