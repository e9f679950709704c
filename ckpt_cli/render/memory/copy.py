"""Print what a copy of items did, or would do, as text and as a record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ckpt_cli.core.copying.items import CopiedItem, MemoryCopyReport
from ckpt_cli.core.copying.outcomes import CopyStep
from ckpt_cli.core.memory.item_filter import format_namespace
from ckpt_cli.render.terminal.safe_text import safe_text
from ckpt_cli.render.terminal.styled_text import StyledLine, line
from ckpt_cli.render.terminal.table import Column, table_lines
from ckpt_cli.render.terminal.units import size
from ckpt_cli.render.values.one_line import counted


def memory_copy_record(report: MemoryCopyReport) -> dict[str, Any]:
    """Return the whole answer as a JSON object."""
    return {
        "source": report.source,
        "target": report.target,
        "dry_run": report.is_dry_run,
        "items": report.number,
        "bytes": report.bytes,
        "added": report.added,
        "present": report.number - report.added,
        "replaced": [_address(one) for one in report.items if one.step is CopyStep.REPLACE],
        "expired": report.expired,
        "without_vectors": report.embedded,
        "skipped": [{**_address(one), "reason": one.reason} for one in report.skipped],
        "verified": report.is_verified,
    }


def _address(one: CopiedItem) -> dict[str, Any]:
    return {"namespace": list(one.key.namespace), "key": one.key.key}


def memory_copy_columns() -> Sequence[Column]:
    """Return the columns of the items."""
    return [
        Column("NAMESPACE", "namespace", style="node"),
        Column("KEY", "key", style="head"),
        Column("ACTION", "action", style="change"),
        Column("STEP", "step", table=False),
        Column("SIZE", "bytes", size, right=True),
        Column("WHY", "reason", cut=True, style="dim"),
    ]


def memory_copy_rows(report: MemoryCopyReport) -> Iterator[dict[str, Any]]:
    """Yield one row for each item that is not merely present."""
    for one in report.items:
        yield {
            "namespace": format_namespace(one.key.namespace),
            "key": one.key.key,
            "action": one.step.value,
            "step": one.step.value,
            "bytes": one.size,
            "reason": one.reason,
        }


def memory_copy_lines(report: MemoryCopyReport, width: int) -> Iterator[StyledLine]:
    """Yield a table of the items that need a look, and the sums; all items in a dry run."""
    shown = [
        row
        for row in memory_copy_rows(report)
        if report.is_dry_run or row["action"] != CopyStep.COPY.value
    ]
    if shown:
        yield from table_lines(shown, memory_copy_columns(), width)
        yield line("")
    done = "Would copy" if report.is_dry_run else "Copied"
    what = f"{counted(report.number, 'item')}, {size(report.bytes)}"
    yield line(f"{done} {what}, to {safe_text(report.target)}")
    yield line(f"{report.added} new, {report.number - report.added} were there before")
    if report.is_verified and report.number:
        yield line("verified: the target was read back and is equal")
