"""Print how long nodes took over many threads, as a table and as records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ckpt_cli.queries.node_times import NodeTimes
from ckpt_cli.render.terminal.styled_text import StyledLine, line
from ckpt_cli.render.terminal.table import table_lines
from ckpt_cli.render.terminal.units import duration
from ckpt_cli.render.timeline import (
    by_total,
    node_columns,
    node_record,
    node_remarks,
    node_rows,
    remark_lines,
)
from ckpt_cli.render.values.one_line import counted


def node_times_record(found: NodeTimes) -> dict[str, Any]:
    """Return the answer of `stats --time` as JSON."""
    return {
        "threads": found.threads,
        "steps": found.steps,
        "waiting_seconds": round(found.waiting_seconds, 6),
        "idle_seconds": round(found.idle_seconds, 6),
        "nodes": {name: node_record(one) for name, one in by_total(found.nodes)},
    }


def node_times_lines(found: NodeTimes, top: int, width: int) -> Iterator[StyledLine]:
    """Yield the totals, and a table of the nodes that took longest."""
    parts = [counted(found.threads, "thread"), counted(found.steps, "step")]
    if found.waiting_seconds:
        parts.append(f"{duration(found.waiting_seconds)} waiting for answers")
    if found.idle_seconds:
        parts.append(f"{duration(found.idle_seconds)} idle")
    yield line(", ".join(parts))
    rows = list(node_rows(found.nodes))
    if not rows:
        return
    yield line("")
    yield from table_lines(rows[:top], node_columns(), width)
    if len(rows) > top:
        yield line((f"… and {len(rows) - top} more", "dim"))
    yield from remark_lines(node_remarks(found.nodes))
