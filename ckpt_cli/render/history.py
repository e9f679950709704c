"""Lists of checkpoints, and what `tail` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Any

from ckpt_backends.codec import from_json
from ckpt_backends.codec.values import Value
from ckpt_backends.model import Status
from ckpt_cli.core.conversation import as_message, said
from ckpt_cli.core.tasks import marks, path_text
from ckpt_cli.render.checkpoint import NODES, OPERATION, checkpoint_fields
from ckpt_cli.render.fields import Field, Shape, inside, known, optional
from ckpt_cli.render.messages import MESSAGE
from ckpt_cli.render.table import AT, Column, step_number
from ckpt_cli.render.text import Span, StyledLine, line, safe_text, short_ns
from ckpt_cli.render.threads import STATUS, counted_names, marks_style, next_node_names
from ckpt_cli.render.types import FLAG, INTEGER, TEXT, TIME, VALUE, either, one_of
from ckpt_cli.render.values import changes_text, summary, value_text

if TYPE_CHECKING:
    from ckpt_cli.queries.history import Entry
    from ckpt_cli.queries.tail import Movement

_QUIET = {Status.PENDING, Status.UNKNOWN, Status.EMPTY}
"""Conditions that `tail` does not print, because a run probably continues."""
_SHOWN = 200
"""Maximum width of a value in a table."""
_NEW = 80
"""Maximum width of a new message."""


def _state(found: Entry) -> str | None:
    """Return the status; if other checkpoints follow, nothing is pending any more."""
    status = found.moment.conditions[0]
    return None if found.children and status == Status.PENDING else status.value


def _marks(found: Entry | Movement) -> list[str]:
    assert found.moment is not None  # noqa: S101
    return marks(found.moment.step, passed=bool(found.children))


_NODES = Field("nodes", NODES, "Nodes that ran to make it, one for each task.")
_MARKS = Field("marks", TEXT.list, "What `history` says about its tasks.", _marks)
ENTRY = Shape(
    "A checkpoint of a list.",
    *checkpoint_fields(),
    Field("depth", INTEGER, "Forks between it and the branch of the head."),
    _NODES,
    Field("state", STATUS.or_null, "The status; null if the run went on.", _state),
    _MARKS,
    optional("operation", OPERATION, "The operation that added it."),
    optional("plaintext", FLAG, "It is stored plain, in a thread with encrypted checkpoints."),
    known("input", VALUE, "The input that waits there, if no write tells what it was.", "given"),
)
HISTORY = Shape(
    ENTRY.text, *ENTRY, optional("messages", MESSAGE.list, "The conversation, with --messages.")
)
_KINDS = one_of("checkpoint", "step", "deleted")
_EVENT = Field("event", _KINDS, "What happened; `step`: a known one failed, or asked a question.")
_MOVED = Shape(
    "A checkpoint that was saved, or whose step failed or asked a question.",
    _EVENT,
    *checkpoint_fields(),
    _NODES,
    _MARKS,
    *inside(
        "changes",
        Field("changed", TEXT.list, "Channels that changed.", "channels"),
        Field("added", VALUE.list.by_name, "New items of lists that only grew."),
        Field("turned", VALUE.list.by_name, "Plain values before, if there was one, and after."),
    ),
)
_DELETED = Shape(
    "A thread that was deleted.",
    _EVENT,
    Field("thread_id", TEXT, "Thread."),
    Field("ts", TIME.or_null, "When that was noticed.", "at"),
)
MOVEMENT = either("What happened to a thread.", _MOVED, _DELETED)


def movement_record(found: Movement) -> dict[str, Any]:
    """Return one event of `tail` without THREAD."""
    return (_DELETED if found.moment is None else _MOVED).record(found)


MOVEMENT_COLUMNS = _MOVED.columns(
    *("ts", "event", "thread_id", "checkpoint_ns", "checkpoint_id", "step", "source"),
    *("nodes", "next", "marks", "changed"),
)


def history_columns(shorts: Mapping[str, str], *, all_ns: bool) -> Sequence[Column]:
    """Return the columns of `history`; a table shows short refs, TSV full ids."""

    def short(checkpoint_id: str) -> str:
        return shorts.get(checkpoint_id, checkpoint_id)

    return ENTRY.columns(
        Column("REF", "checkpoint_id", short, style="id"),
        Column("NAMESPACE", "checkpoint_ns", short_ns, table=all_ns),
        Column("STEP", "step", right=True),
        Column("SOURCE", "source", drop=2),
        Column("PARENT", "parent_checkpoint_id", short, style="dim", drop=4),
        Column("NODE", "nodes", counted_names, cut=True, style="node"),
        "next",
        Column("NEXT", "next_paths", next_node_names, cut=True, style="node"),
        "state",
        Column("STATUS", "marks", ", ".join, style=marks_style),
        Column("INPUT", "input", lambda one: given_text(from_json(one)), cut=True, drop=3),
        Column("WRITES", "write_count", right=True, drop=3),
        Column("TIME", "ts", AT, style="time", drop=1),
    )


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


def movement_line(record: Mapping[str, Any], zone: tzinfo) -> StyledLine:
    """Return one event as a line."""
    ts = record["ts"]
    at = "" if ts is None else f"{datetime.fromisoformat(ts).astimezone(zone):%H:%M:%S}"
    start: list[Span] = [(f"{at:8}", "time"), (f"  {safe_text(record['thread_id'])}", "head")]
    if record["event"] == "deleted":
        return line(*start, ("  deleted", "remove"))
    shown, nodes, ns = alarming(record), record["nodes"], record["checkpoint_ns"]
    made = counted_names(nodes) if nodes else safe_text(record["source"] or "?")
    said, style = said_at(record), marks_style(shown)
    return line(
        *start,
        (f"  {step_number(record['step']):>3}", "plain"),
        (f"  {made}", "node") if record["event"] == "checkpoint" else "",
        f"  {_changes(record)}" if record["changed"] else "",
        (f"  next: {next_node_names(record['next_paths'])}", "dim"),
        (f"  {', '.join(shown)}" if shown else "", style),
        (f"  {safe_text(said)}" if said else "", style),
        (f"  in {safe_text(short_ns(ns))}" if ns else "", "dim"),
    )


def _changes(record: Mapping[str, Any]) -> str:
    """Return what changed in short: new messages, lists that grew, and other channels."""
    # Late: lists do not need it.
    from ckpt_cli.core.diff import StepChanges, short_changes

    def values(field: str) -> dict[str, list[Value]]:
        return {name: list(map(from_json, found)) for name, found in record[field].items()}

    found = StepChanges(tuple(record["changed"]), values("added"), values("turned"))
    return changes_text(short_changes(found, lambda value: summary(value, _NEW)))
