"""Columns of lists of checkpoints, writes, changes and questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any

from ckpt_backends.codec import from_json
from ckpt_backends.codec.values import Value
from ckpt_backends.model import Status
from ckpt_cli.core.conversation import as_message, said
from ckpt_cli.core.tasks import path_text
from ckpt_cli.render.table import AT, Column, size, step_number
from ckpt_cli.render.text import StyledLine, line, safe_text, short_ns
from ckpt_cli.render.threads import counted_names, marks_style, next_node_names, node_names
from ckpt_cli.render.values import summary, value_text

_QUIET = {Status.PENDING, Status.UNKNOWN, Status.EMPTY}
"""Conditions that `tail` does not print, because a run probably continues."""
_SHOWN = 200
"""Maximum width of a value in a table."""


def history_columns(shorts: Mapping[str, str], *, all_ns: bool) -> Sequence[Column]:
    """Return the columns of `history`; a table shows short refs, TSV full ids."""

    def short(checkpoint_id: str) -> str:
        return shorts.get(checkpoint_id, checkpoint_id)

    return [
        Column("REF", "checkpoint_id", short, style="id"),
        Column("NAMESPACE", "checkpoint_ns", short_ns, table=all_ns),
        Column("STEP", "step", right=True),
        Column("SOURCE", "source", drop=2),
        Column("PARENT", "parent_checkpoint_id", short, style="dim", drop=4),
        Column("NODE", "nodes", counted_names, cut=True, style="node"),
        Column("NEXT", "next", node_names, table=False),
        Column("NEXT", "next_paths", next_node_names, cut=True, style="node"),
        Column("STATUS", "state", table=False),
        Column("STATUS", "marks", ", ".join, style=marks_style),
        Column("INPUT", "input", lambda one: given_text(from_json(one)), cut=True, drop=3),
        Column("WRITES", "write_count", right=True, drop=3),
        Column("TIME", "ts", AT, style="time", drop=1),
    ]


def given_text(given: Value) -> str:
    """Return an input on one line: its last message, or else all of it."""
    if isinstance(given, dict) and len(given) == 1:
        (given,) = given.values()
    given = said(given)
    if isinstance(given, list) and given and as_message(given[-1]) is not None:
        given = given[-1]
    return summary(given, _SHOWN)


def history_line(record: Mapping[str, Any], zone: tzinfo, *, all_ns: bool) -> StyledLine:
    """Return one checkpoint as a line of `tail`, which cannot be aligned with later lines."""
    ts, ns = record["ts"], record["checkpoint_ns"]
    at = "" if ts is None else f"{datetime.fromisoformat(ts).astimezone(zone):%H:%M:%S}"
    said, marks, nodes = said_at(record), alarming(record), record["nodes"]
    return line(
        (f"{at:8}", "time"),
        (f"  {safe_text(record['checkpoint_id'])}", "id"),
        (f"  {step_number(record['step']):>3} {safe_text(record['source'] or '?'):6}", "plain"),
        (f"  {counted_names(nodes)}" if nodes else "", "node"),
        (f"  next: {next_node_names(record['next_paths'])}", "node"),
        (f"  {', '.join(marks)}" if marks else "", marks_style(marks)),
        (f"  {safe_text(said)}" if said else "", marks_style(marks)),
        (f"  in {safe_text(ns)}" if all_ns and ns else "", "dim"),
    )


def said_at(record: Mapping[str, Any]) -> str:
    """Return the errors and open questions of a checkpoint on one line, not yet escaped."""
    asked = [one for one in record["interrupts"] if not one["answered"]]
    failed = [task for task in record["tasks"] if task["error"] is not None]
    said = [f"{path_text(task['failed_in'])}: {task['error']}" for task in failed]
    said += [f"{path_text(one['path'])}: {value_text(one['value'])}" for one in asked]
    return "; ".join(said)


def alarming(record: Mapping[str, Any]) -> list[str]:
    """Return the marks of a checkpoint that `tail` prints."""
    return [mark for mark in record["marks"] if mark not in _QUIET]


def write_columns() -> Sequence[Column]:
    """Return the columns of a checkpoint's writes."""
    return [
        Column("NODE", "node", style="node"),
        Column("TASK", "task_id", lambda text: text[:8], style="dim"),
        Column("IDX", "idx", right=True),
        Column("CHANNEL", "channel", style="head"),
        Column("TYPE", "type"),
        Column("SIZE", "bytes", size, right=True),
        Column("VALUE", "value", value_text, cut=True),
    ]


def channel_columns() -> Sequence[Column]:
    """Return the columns of a checkpoint's values as TSV."""
    return [Column("CHANNEL", "channel"), Column("VALUE", "value"), Column("REBUILT", "rebuilt")]
