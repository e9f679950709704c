"""Show where a value came from, as text and as a record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo
from typing import Any

from ckpt_backends.codec import to_json
from ckpt_cli.core.state import NAME
from ckpt_cli.core.tasks import TaskWrite
from ckpt_cli.core.values import format_path
from ckpt_cli.queries.blame import Blame, By
from ckpt_cli.render.table import Column, age, optional_iso, plain_columns, step_words, when
from ckpt_cli.render.text import StyledLine, field, line, safe_text
from ckpt_cli.render.threads import counted_names
from ckpt_cli.render.values import summary

_WORDS: dict[By, str] = {
    "task": "a task",
    "input": "the graph's input",
    "caller": "the caller, with Command(update=...)",
    "update": "update_state",
    "fork": "an edit made with a fork",
    "unknown": "unknown",
}


def blame_record(found: Blame) -> dict[str, Any]:
    """Return the answer of `blame` as JSON."""
    moment, key = found.moment, found.moment.key
    one = found.writes[0].write if len(found.writes) == 1 else None
    edit = found.edit
    return {
        "thread_id": key.thread_id,
        "checkpoint_ns": key.checkpoint_ns,
        "channel": found.place.channel,
        "path": format_path(found.place.path),
        "value": to_json(found.value),
        "checkpoint_id": key.checkpoint_id,
        "parent_checkpoint_id": moment.checkpoint.parent_checkpoint_id,
        "step": moment.number,
        "ts": optional_iso(moment.at),
        "source": moment.source,
        "by": found.by,
        "node": found.node,
        "task_id": None if one is None else one.task_id,
        "write_idx": None if one is None else one.idx,
        "candidates": [_candidate(placed) for placed in found.writes] if one is None else [],
        "remark": found.remark,
        "forked_from": None if edit is None else edit.forked_from,
        "forked_by": None if edit is None else edit.forked_by,
        "reason": None if edit is None else edit.reason,
    }


def blame_columns() -> Sequence[Column]:
    """Return the columns of `blame` as TSV."""
    names = ("path", "value", "checkpoint_id", "step", "ts", "source", "by", "node", "task_id")
    return plain_columns(*names, "write_idx", "remark", "forked_from", "reason")


def blame_lines(found: Blame, now: datetime, zone: tzinfo, width: int) -> Iterator[StyledLine]:
    """Yield the value, where it was set, and by whom."""
    moment = found.moment
    path = safe_text(format_path(found.place.path))
    yield line((path, "head"), "  ", summary(found.value, max(width - len(path) - 2, 20)))
    at = "" if moment.at is None else f"  {when(moment.at, now, zone)} ({age(moment.at, now)} ago)"
    step = step_words(moment.number, moment.source)
    yield from field("set at", moment.key.checkpoint_id, width, "id")
    yield from field("step", f"{step}{at}", width)
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


def _candidate(placed: TaskWrite) -> dict[str, Any]:
    write = placed.write
    return {"node": placed.node, "task_id": write.task_id, "write_idx": write.idx}
