"""Show what happens in a store, as lines and as records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any

from ckpt_backends.codec import from_json, to_json
from ckpt_backends.codec.values import Value
from ckpt_cli.core.diff import StepChanges, short_changes
from ckpt_cli.core.tasks import marks
from ckpt_cli.queries.tail import Movement
from ckpt_cli.render.history import alarming, said_at
from ckpt_cli.render.records import moment_record
from ckpt_cli.render.replay import changes_text
from ckpt_cli.render.table import Column, optional_iso, plain_columns, step_number
from ckpt_cli.render.text import Span, StyledLine, line, safe_text, short_ns
from ckpt_cli.render.threads import counted_names, marks_style, next_node_names
from ckpt_cli.render.values import summary

_SHOWN = 80
"""Maximum width of a new message."""


def movement_record(found: Movement) -> dict[str, Any]:
    """Return one event of `tail` without THREAD."""
    if found.moment is None:
        return {"event": found.event, "thread_id": found.thread_id, "ts": optional_iso(found.at)}
    return {
        "event": found.event,
        **moment_record(found.moment, found.children),
        "nodes": None if found.nodes is None else list(found.nodes),
        "marks": marks(found.moment.step, passed=bool(found.children)),
        "changed": list(found.changes.channels),
        "added": {
            name: [to_json(item) for item in items] for name, items in found.changes.added.items()
        },
        "turned": {
            name: [to_json(one) for one in values] for name, values in found.changes.turned.items()
        },
    }


def movement_columns() -> Sequence[Column]:
    """Return the columns of `tail` without THREAD as TSV."""
    names = ("ts", "event", "thread_id", "checkpoint_ns", "checkpoint_id", "step", "source")
    return plain_columns(*names, "nodes", "next", "marks", "changed")


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

    def values(field: str) -> dict[str, list[Value]]:
        return {name: list(map(from_json, found)) for name, found in record[field].items()}

    found = StepChanges(tuple(record["changed"]), values("added"), values("turned"))
    return changes_text(short_changes(found, lambda value: summary(value, _SHOWN)))
