"""Print what `ckpt rekey` did, or would do, as text and as a record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ckpt_cli.core.rekeying import RekeyReport
from ckpt_cli.render.terminal.safe_text import safe_text
from ckpt_cli.render.terminal.styled_text import StyledLine, line
from ckpt_cli.render.terminal.table import THREAD, Column, table_lines
from ckpt_cli.render.values.one_line import counted


def rekey_record(report: RekeyReport) -> dict[str, Any]:
    """Return the whole answer as a JSON object."""
    return {
        "store": report.store,
        "dry_run": report.is_dry_run,
        "threads": report.number,
        "values": report.counts.values,
        "rekeyed": report.counts.rekeyed,
        "done_before": report.counts.done_before,
        "skipped": [{"thread_id": one.thread_id, "reason": one.skipped} for one in report.skipped],
        "verified": not report.is_dry_run and not report.skipped,
    }


def rekey_columns() -> Sequence[Column]:
    """Return the columns of the threads."""
    return [
        THREAD,
        Column("VALUES", "values", right=True),
        Column("REKEYED", "rekeyed", right=True),
        Column("DONE BEFORE", "done_before", right=True, drop=2),
        Column("WHY", "reason", cut=True, style="dim"),
    ]


def rekey_rows(report: RekeyReport) -> Iterator[dict[str, Any]]:
    """Yield one row for each thread with changed values, or that was skipped."""
    for one in report.threads:
        yield {
            "thread_id": one.thread_id,
            "values": one.counts.values,
            "rekeyed": one.counts.rekeyed,
            "done_before": one.counts.done_before,
            "reason": one.skipped,
        }


def rekey_lines(report: RekeyReport, width: int) -> Iterator[StyledLine]:
    """Yield a table of the threads, and the sums."""
    if report.threads:
        yield from table_lines(rekey_rows(report), rekey_columns(), width)
        yield line("")
    done = "Would rekey" if report.is_dry_run else "Rekeyed"
    values = counted(report.counts.rekeyed, "value")
    threads = counted(report.number, "thread")
    yield line(f"{done} {values} in {threads} of {safe_text(report.store)}")
    if report.counts.done_before:
        yield line(f"{counted(report.counts.done_before, 'value')} had the right key before")
    if not report.is_dry_run and report.counts.rekeyed and not report.skipped:
        yield line("verified: the values were read back and open with the key")
