"""Print how long the steps of a thread took: as lines with bars, and as records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, tzinfo
from typing import Any

from ckpt_cli.core.timeline.assemble import NodeTime, OpenStep, Timeline
from ckpt_cli.core.timeline.steps import TimedStep
from ckpt_cli.render.terminal.styled_text import StyledLine, line
from ckpt_cli.render.terminal.table import Column, plain_columns
from ckpt_cli.render.terminal.units import duration, optional_iso

_DIGITS = 6
"""Decimal places of seconds: stores keep microseconds."""


def timeline_record(found: Timeline) -> dict[str, Any]:
    """Return the answer of `timeline` as JSON."""
    return {
        "thread_id": found.thread_id,
        "first_at": optional_iso(found.first_at),
        "last_at": optional_iso(found.last_at),
        "seconds": _rounded(found.seconds),
        "running_seconds": _rounded(found.running_seconds),
        "waiting_seconds": _rounded(found.waiting_seconds),
        "idle_seconds": _rounded(found.idle_seconds),
        "steps": list(step_records(found)),
        "nodes": {name: node_record(one) for name, one in by_total(found.nodes)},
        "open": None if found.open is None else _open_record(found.open),
        "left_out": found.left_out,
    }


def step_records(found: Timeline) -> Iterator[dict[str, Any]]:
    """Yield one record for each step; those of subgraphs follow the step that called them."""
    for one in found.steps:
        yield {
            "checkpoint_ns": one.checkpoint_ns,
            "checkpoint_id": one.checkpoint_id,
            "step": one.step,
            "nodes": None if one.nodes is None else list(one.nodes),
            "started_at": optional_iso(one.started_at),
            "ended_at": optional_iso(one.ended_at),
            "seconds": _rounded(one.seconds),
            "kind": one.kind,
            "cause": one.cause,
            "waiting_seconds": _rounded(one.waiting_seconds),
            "depth": one.depth,
        }


STEP_COLUMNS = plain_columns(
    "checkpoint_ns",
    "checkpoint_id",
    "step",
    "nodes",
    "started_at",
    "ended_at",
    "seconds",
    "kind",
    "cause",
    "waiting_seconds",
    "depth",
)


def node_record(one: NodeTime) -> dict[str, Any]:
    """Return the runs of one node as JSON."""
    seconds = one.seconds
    return {
        "runs": one.runs,
        "measured": seconds.count,
        "shared": one.shared,
        "seconds": _rounded(seconds.total) if seconds.count else None,
        "p50": _rounded(seconds.percentile(50)),
        "p95": _rounded(seconds.percentile(95)),
        "max": _rounded(seconds.longest),
    }


def node_columns() -> list[Column]:
    """Return the columns of a table of nodes."""
    return [
        Column("NODE", "node", style="node"),
        Column("RUNS", "runs", right=True),
        Column("MEASURED", "measured", right=True, drop=2),
        Column("SHARED", "shared", table=False),
        Column("TOTAL", "seconds", duration, right=True),
        Column("P50", "p50", duration, right=True, drop=1),
        Column("P95", "p95", duration, right=True, drop=1),
        Column("MAX", "max", duration, right=True),
    ]


def node_rows(nodes: Mapping[str, NodeTime]) -> Iterator[dict[str, Any]]:
    """Yield one record for each node, with the longest total first."""
    return ({"node": name, **node_record(one)} for name, one in by_total(nodes))


def node_remarks(nodes: Mapping[str, NodeTime]) -> list[str]:
    """Return what the times of nodes do not tell."""
    found = []
    if any(one.runs > one.seconds.count for one in nodes.values()):
        found.append("runs are not measured if an answer or a pause came within their step")
    if any(one.shared for one in nodes.values()):
        found.append("nodes that share a step, such as parallel ones, count with all of its time")
    if any(one.seconds.is_estimated for one in nodes.values()):
        found.append("P50 and P95 of more than 10,000 runs are estimates, 1 % off at most")
    return found


def remark_lines(texts: Iterable[str]) -> Iterator[StyledLine]:
    """Yield remarks below a table, after a blank line."""
    for place, text in enumerate(texts):
        if not place:
            yield line("")
        yield line((text, "dim"))


def by_total(nodes: Mapping[str, NodeTime]) -> Iterable[tuple[str, NodeTime]]:
    """Return the nodes, with the longest total first."""
    return sorted(nodes.items(), key=lambda item: (-item[1].seconds.total, item[0]))


def _open_record(step: OpenStep) -> dict[str, Any]:
    return {
        "kind": step.kind,
        "nodes": list(step.nodes),
        "since": optional_iso(step.since),
        "cause": step.cause,
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, _DIGITS)


def local(moment: datetime, zone: tzinfo) -> datetime:
    """Return a time in a zone; a stored time in the first or last year stays as it is."""
    return moment if not 1 < moment.year < 9999 else moment.astimezone(zone)


def is_shown(step: TimedStep) -> bool:
    """Return whether a step is worth a line: reading the input takes no time."""
    return bool(step.seconds is None or step.seconds >= _BRIEF) or not (
        step.is_start or (step.depth and step.cause == "input")
    )


_BRIEF = 0.1
