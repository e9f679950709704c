"""Print matching lines as records and columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ckpt_cli.core.tasks.step_nodes import path_text
from ckpt_cli.core.values.paths import format_path
from ckpt_cli.queries.grep import GrepHit
from ckpt_cli.render.terminal.table import THREAD, Column
from ckpt_cli.render.terminal.units import optional_iso

_BEFORE, _AFTER = 24, 200
"""Characters around a match that are kept for a table; the table cuts them to its width."""


def hit_record(hit: GrepHit) -> dict[str, Any]:
    """Return one matching line of `grep` as JSON."""
    match = hit.match
    return {
        **hit.key._asdict(),
        "ref": hit.ref,
        "ts": optional_iso(hit.at),
        "in": hit.kind,
        "node": hit.path[-1] if hit.path else hit.node,
        "node_path": list(hit.path),
        "task_id": hit.task_id,
        "channel": hit.channel,
        "path": format_path((hit.channel, *match.path)),
        "line_number": match.number,
        "line": match.line,
        "start": match.start,
        "end": match.end,
    }


def table_record(hit: GrepHit) -> dict[str, Any]:
    """Return the same with the line cut to the part around the match, for a table."""
    record = hit_record(hit)
    line = excerpt(hit.match.line, hit.match.start, hit.match.end)
    return {**record, "line": line, "node": path_text(hit.path) or hit.node}


def excerpt(text: str, start: int, end: int) -> str:
    """Return the part of a line around a match."""
    begin = max(start - _BEFORE, 0)
    stop = min(max(end, start + 1) + _AFTER, begin + 4 * _AFTER)
    blank = text.find(" ", begin, start)
    if begin and blank >= 0:
        begin = blank + 1
    return ("…" if begin else "") + text[begin:stop].strip() + ("…" if stop < len(text) else "")


def hit_columns() -> Sequence[Column]:
    """Return the columns of `grep`; a table shows short refs, TSV full ids."""
    return [
        THREAD,
        Column("CHECKPOINT", "checkpoint_id", table=False),
        Column("REF", "ref", style="id"),
        Column("NAMESPACE", "checkpoint_ns", cut=True, style="dim", drop=3),
        Column("IN", "in", drop=1),
        Column("NODE", "node", style="node", drop=2),
        Column("PATH", "path", cut=True, style="change"),
        Column("TEXT", "line", cut=True),
        Column("CHANNEL", "channel", table=False),
        Column("TASK_ID", "task_id", table=False),
        Column("LINE_NUMBER", "line_number", table=False),
        Column("START", "start", table=False),
        Column("END", "end", table=False),
        Column("TIME", "ts", table=False),
    ]
