"""Show where a value came from, as text and as a record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ckpt_cli.core.state import NAME
from ckpt_cli.core.tasks import TaskWrite
from ckpt_cli.core.values import format_path
from ckpt_cli.queries.blame import Blame, By
from ckpt_cli.render.checkpoint import CHECKPOINT
from ckpt_cli.render.fields import Field, Shape, Type, View
from ckpt_cli.render.table import step_at
from ckpt_cli.render.text import StyledLine, Ui, field, line, safe_text
from ckpt_cli.render.threads import counted_names
from ckpt_cli.render.types import INTEGER, TEXT, VALUE, one_of
from ckpt_cli.render.values import summary

_WORDS: dict[By, str] = {
    "task": "a task",
    "input": "the graph's input",
    "caller": "the caller, with Command(update=...)",
    "update": "update_state",
    "fork": "an edit made with a fork",
    "unknown": "unknown",
}


def _of_write(key: str, kind: Type, text: str, name: str = "") -> Field:
    """Return a key of the write that set the value, if only one can have."""

    def take(found: Blame) -> Any:
        return getattr(found.writes[0].write, name or key) if len(found.writes) == 1 else None

    return Field(key, kind.or_null, text, take)


def _candidates(found: Blame) -> Sequence[TaskWrite]:
    return () if len(found.writes) == 1 else found.writes


def _of_edit(key: str, text: str) -> Field:
    def take(found: Blame) -> Any:
        return None if found.edit is None else getattr(found.edit, key)

    return Field(key, TEXT.or_null, text, take)


_CANDIDATE = Shape(
    "A write that may have set the value.",
    Field("node", TEXT.or_null, "Node."),
    Field("task_id", TEXT, "Task.", "write.task_id"),
    Field("write_idx", INTEGER, "Place among its writes.", "write.idx"),
)
BLAME = Shape(
    "Where a value came from.",
    Field("thread_id", TEXT, "Thread.", "moment.key.thread_id"),
    Field("checkpoint_ns", TEXT, "Namespace; '' is the root graph.", "moment.key.checkpoint_ns"),
    Field("channel", TEXT, "Channel.", "place.channel"),
    Field("path", TEXT, "The value.", lambda found: format_path(found.place.path)),
    Field("value", VALUE, "Its value."),
    Field("checkpoint_id", TEXT, "The first checkpoint that has it.", "moment.key.checkpoint_id"),
    *(CHECKPOINT.fields[key] for key in ("parent_checkpoint_id", "step", "ts", "source")),
    Field("by", one_of(*_WORDS), "What set it; `caller` by `Command(update=...)`."),
    Field("node", TEXT.or_null, "Node of the task."),
    _of_write("task_id", TEXT, "Task."),
    _of_write("write_idx", INTEGER, "Place among its writes.", "idx"),
    Field("candidates", _CANDIDATE.list, "Writes that may have set it.", _candidates),
    Field("remark", TEXT.or_null, "What else is to be said."),
    _of_edit("forked_from", "Checkpoint that was edited."),
    _of_edit("forked_by", "What edited it."),
    _of_edit("reason", "Why."),
)


def _lines(found: Blame, ui: Ui) -> Iterator[StyledLine]:
    """Yield the value, where it was set, and by whom."""
    moment, width = found.moment, ui.width
    path = safe_text(format_path(found.place.path))
    yield line((path, "head"), "  ", summary(found.value, max(width - len(path) - 2, 20)))
    yield from field("set at", moment.key.checkpoint_id, width, "id")
    yield from field("step", step_at(moment.number, moment.source, moment.at, ui), width)
    who = _WORDS[found.by]
    if found.edit is not None and found.edit.forked_by == NAME:
        who = "an edit made with `ckpt fork`"
    if found.by == "task" and (found.node is not None or len(found.writes) > 1):
        nodes = [one.node or "?" for one in found.writes if found.node is None]
        who = found.node or counted_names(list(dict.fromkeys(nodes)))
        yield from field("by", who, width, "node")
    else:
        yield from field(
            "by", who if found.node is None else f"{who} ({found.node})", width, "node"
        )
    if found.edit is not None:
        yield from field("reason", found.edit.reason or "none given", width)
        if found.edit.forked_from is not None:
            yield from field("fork of", found.edit.forked_from, width, "id")
    for placed in found.writes:
        which = "" if len(found.writes) == 1 else f"{placed.node or '?'}  "
        yield from field("task", f"{which}{placed.write.task_id}  write {placed.write.idx}", width)
    if found.remark is not None:
        yield from field("note", found.remark, width, "dim")


BLAME_VIEW = View(
    BLAME.record,
    _lines,
    lambda found: [BLAME.record(found)],
    BLAME.columns(
        *("path", "value", "checkpoint_id", "step", "ts", "source", "by", "node", "task_id"),
        *("write_idx", "remark", "forked_from", "reason"),
    ),
)
