"""Print what a copy did, or would do, as text and as a record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ckpt_cli.core.copying.outcomes import CopiedThread, CopyReport, CopyStep
from ckpt_cli.render.terminal.safe_text import safe_text
from ckpt_cli.render.terminal.styled_text import StyledLine, line
from ckpt_cli.render.terminal.table import THREAD, Column, table_lines
from ckpt_cli.render.terminal.units import size
from ckpt_cli.render.values.one_line import counted


def copy_record(report: CopyReport) -> dict[str, Any]:
    """Return the whole answer as a JSON object."""
    return {
        "source": report.source,
        "target": report.target,
        "dry_run": report.is_dry_run,
        "threads": report.number,
        "checkpoints": report.counts.checkpoints,
        "writes": report.counts.writes,
        "values": report.counts.values,
        "bytes": report.counts.bytes,
        "added": report.added,
        "present": report.present,
        "replaced": report.replaced,
        "skipped": [{"thread_id": one.thread_id, "reason": one.reason} for one in report.skipped],
        "verified": report.is_verified,
    }


def _columns() -> Sequence[Column]:
    """Return the columns of the threads."""
    return [
        THREAD,
        Column("ACTION", "action", style="change"),
        Column("CHECKPOINTS", "checkpoints", right=True),
        Column("WRITES", "writes", right=True, drop=2),
        Column("SIZE", "bytes", size, right=True),
        Column("ADDED", "added", right=True),
        Column("WHY", "reason", cut=True, style="dim"),
    ]


def _rows(report: CopyReport) -> Iterator[dict[str, Any]]:
    """Yield one row for each thread that is listed."""
    return map(_row, (*report.listed, *report.skipped))


def _row(one: CopiedThread) -> dict[str, Any]:
    reason = one.reason
    if one.step is CopyStep.REPLACE:
        reason = f"removes {counted(one.removed.checkpoints, 'checkpoint')} of the target"
    return {
        "thread_id": one.thread_id,
        "action": one.step.value,
        "checkpoints": one.counts.checkpoints,
        "writes": one.counts.writes,
        "bytes": one.counts.bytes,
        "added": one.added,
        "reason": reason,
    }


def copy_lines(report: CopyReport, width: int) -> Iterator[StyledLine]:
    """Yield a table of the threads, and the sums."""
    if report.listed or report.skipped:
        yield from table_lines(_rows(report), _columns(), width)
        if more := report.changed - len(report.listed):
            yield line(f"… and {counted(more, 'more thread')}")
        yield line("")
    what = (
        f"{counted(report.number, 'thread')}, {counted(report.counts.checkpoints, 'checkpoint')},"
        f" {counted(report.counts.writes, 'write')}, {size(report.counts.bytes)}"
    )
    be, added = ("would be", "to add") if report.is_dry_run else ("are now", "added")
    yield line(f"{safe_text(report.target)}: {what} {be} there")
    yield line(f"{counted(report.added, 'row')} {added}, {report.present} there before")
    if report.is_verified and report.number:
        yield line("verified: the target was read back and is equal")
