"""Show where a condition begins to hold, as text and as a record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo
from typing import Any

from ckpt_backends import shell
from ckpt_backends.model import NULL_TASK_ID
from ckpt_cli.queries.bisect import Bisection
from ckpt_cli.render.fields import values_record
from ckpt_cli.render.table import Column, age, optional_iso, plain_columns, step_words, when
from ckpt_cli.render.text import StyledLine, command_field, field
from ckpt_cli.render.threads import counted_names
from ckpt_cli.render.values import counted, summary

_SHOWN = 1000
"""Maximum width of a value."""


def bisect_record(found: Bisection) -> dict[str, Any]:
    """Return the answer of `bisect` as JSON."""
    moment = found.moment
    record: dict[str, Any] = {
        "thread_id": found.thread_id,
        "checkpoint_ns": found.checkpoint_ns,
        "checkpoint_id": None,
        "parent_checkpoint_id": None,
        "step": None,
        "nodes": None,
        "before": None if found.before is None else values_record(found.before),
        "after": None if found.after is None else values_record(found.after),
        "ts": None,
        "source": None,
        "tasks": _tasks(found),
        "from_start": found.from_start,
        "skipped": list(found.skipped),
        "tried": found.search.tried,
        "unjudged": found.search.skipped,
    }
    if moment is not None:
        record |= {
            **moment.key._asdict(),
            "parent_checkpoint_id": moment.checkpoint.parent_checkpoint_id,
            "step": moment.number,
            "nodes": None if found.nodes is None else list(found.nodes),
            "ts": optional_iso(moment.at),
            "source": moment.source,
        }
    return record


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


def bisect_columns() -> Sequence[Column]:
    """Return the columns of `bisect` as TSV."""
    names = ("thread_id", "checkpoint_ns", "checkpoint_id", "parent_checkpoint_id", "step")
    return plain_columns(*names, "nodes", "before", "after", "ts", "source", "tasks", "tried")


def bisect_lines(
    found: Bisection, words: Sequence[str], now: datetime, zone: tzinfo, width: int
) -> Iterator[StyledLine]:
    """Yield the checkpoint, what made it, and what changed; nothing if there is none.

    `words` are the options that name the store.
    """
    moment = found.moment
    if moment is None:
        return
    at = "" if moment.at is None else f"  {when(moment.at, now, zone)} ({age(moment.at, now)} ago)"
    yield from field("first", moment.key.checkpoint_id, width, "id")
    yield from field("step", f"{step_words(moment.number, moment.source)}{at}", width)
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
