"""Print the plan and the result of a purge, as text and as records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from ckpt_backends import shell
from ckpt_backends.model import ThreadSize
from ckpt_cli.core.retention.purge_plan import (
    NOT_FOUND,
    PlannedRemoval,
    PurgeReport,
    PurgeSums,
    RemovalSum,
)
from ckpt_cli.plans.plan_file import PlanFile
from ckpt_cli.render.terminal.cell_width import wrap
from ckpt_cli.render.terminal.fields import command_field, field
from ckpt_cli.render.terminal.safe_text import safe_text
from ckpt_cli.render.terminal.styled_text import StyledLine, line
from ckpt_cli.render.terminal.table import THREAD, Column, table_lines
from ckpt_cli.render.terminal.units import size
from ckpt_cli.render.values.one_line import counted

_NAMED = 5
"""Maximum number of kept threads that are named for one reason."""


def purge_columns() -> Sequence[Column]:
    """Return the columns of a plan."""
    return [
        THREAD,
        Column("ACTION", "action", style="change"),
        Column("CHECKPOINTS", "checkpoints", right=True),
        Column("WRITES", "writes", right=True, drop=2),
        Column("BLOBS", "blobs", right=True, drop=3),
        Column("SIZE", "bytes", size, right=True),
        Column("WHY", "reason", cut=True, style="dim"),
    ]


def plan_lines(
    plan: PlanFile, width: int, most: int | None = None, more: Iterable[StyledLine] = ()
) -> Iterator[StyledLine]:
    """Yield what would be removed: a table of at most `most` threads, the threads that a rule
    keeps, `more`, and the totals.
    """
    if plan.going:
        has_blobs = plan.sums.removed.blobs + plan.sums.pruned.blobs > 0
        columns = [one for one in purge_columns() if one.key != "blobs" or has_blobs]
        yield from table_lines(islice(plan.records(), most), columns, width)
        if most is not None and plan.going > most:
            yield line((f"... and {plan.going - most} more; -o tsv lists all", "dim"))
        yield line("")
    yield from _kept_lines(plan.kept, width, "Would keep")
    yield from more
    if plan.going:
        yield from _total_lines(plan.sums, width, "Would remove", "Would prune")
    else:
        yield line("Would remove nothing.")


def report_lines(
    plan: PlanFile, report: PurgeReport, width: int, archive: Path | None = None
) -> Iterator[StyledLine]:
    """Yield what was removed, where it is archived, and what was kept."""
    sums = report.sums
    if sums.threads:
        yield from _total_lines(sums, width, "Removed", "Pruned")
        counts = sorted(report.rows.items())
        rows = ", ".join(f"{number} {table}" for table, number in counts if number)
        yield from field("rows", rows, width)
    if archive is not None and sums.threads:
        restore = shell.command("ckpt", "import", ids=[str(archive)])
        yield command_field("archive", f"{shell.word(str(archive))}; `{restore}` restores them")
    yield from _kept_lines([*plan.kept, *report.skipped.items()], width, "Kept")


def question(sums: PurgeSums) -> str:
    """Return the question for confirmation: `Remove 3 threads (15 checkpoints, 15 KiB)?`."""
    parts = []
    for verb, one in (("remove", sums.removed), ("prune", sums.pruned)):
        if one.threads:
            parts.append(f"{verb} {counted(one.threads, 'thread')} ({_amount(one, brief=True)})")
    text = " and ".join(parts)
    return f"{text[:1].upper()}{text[1:]}?"


def _total_lines(sums: PurgeSums, width: int, removed: str, pruned: str) -> Iterator[StyledLine]:
    for verb, one in ((removed, sums.removed), (pruned, sums.pruned)):
        if one.threads:
            text = f"{verb} {counted(one.threads, 'thread')}: {_amount(one)}"
            yield from (line((part, "bold")) for part in wrap(text, width))


def _amount(one: RemovalSum, *, brief: bool = False) -> str:
    """Return what is removed, such as `15 checkpoints, 40 writes, 22 blobs, 15 KiB`."""
    numbers = {"checkpoint": one.checkpoints, "write": one.writes, "blob": one.blobs}
    found = [counted(number, noun) for noun, number in numbers.items() if number]
    return ", ".join([*(found[:1] if brief else found), size(one.bytes)])


def _kept_lines(kept: Iterable[tuple[str, str]], width: int, verb: str) -> Iterator[StyledLine]:
    by_reason: dict[str, list[str]] = {}
    for thread_id, why in kept:
        if why != NOT_FOUND:  # the error at the end of the command names these
            by_reason.setdefault(why, []).append(thread_id)
    for why, names in by_reason.items():
        named = ", ".join(map(safe_text, names[:_NAMED]))
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        text = f"{verb} {counted(len(names), 'thread')} ({named}{more}): {safe_text(why)}"
        yield from (line((part, "question")) for part in wrap(text, width))


def done(plan: PlanFile, report: PurgeReport) -> Iterator[PlannedRemoval]:
    """Yield the threads that were removed or pruned."""
    for one in islice(plan.threads(), report.done):
        if one.thread_id not in report.skipped:
            yield one


def done_records(plan: PlanFile, report: PurgeReport) -> Iterator[dict[str, Any]]:
    """Yield one row per thread that was removed or pruned."""
    for one in islice(plan.records(), report.done):
        if one["thread_id"] not in report.skipped:
            yield one


def purge_record(
    plan: PlanFile, report: PurgeReport, archive: Path | None, *, dry_run: bool
) -> dict[str, Any]:
    """Return the answer of `purge` as JSON."""
    kept = [*plan.kept, *report.skipped.items()]
    return {
        "dry_run": dry_run,
        "threads": list(plan.records() if dry_run else done_records(plan, report)),
        "removed": removed_record(report),
        "kept": len(kept),
        "skipped": [{"thread_id": thread_id, "reason": why} for thread_id, why in kept],
        "left": report.left,
        "archive": None if archive is None else str(archive),
    }


def removed_record(report: PurgeReport) -> dict[str, Any]:
    """Return what was removed: threads, pruned threads, bytes, and rows by table."""
    sums = report.sums
    return {
        "threads": sums.removed.threads,
        "pruned": sums.pruned.threads,
        "bytes": sums.removed.bytes + sums.pruned.bytes,
        "rows": dict(sorted(report.rows.items())),
    }


def removed_sizes(plan: PlanFile, report: PurgeReport) -> Iterator[ThreadSize]:
    """Yield what was removed from each thread."""
    for one in done(plan, report):
        yield ThreadSize(one.checkpoints, one.writes, one.bytes, one.blobs)


def sum_record(sizes: Iterable[ThreadSize]) -> dict[str, int]:
    """Return the sum of some thread sizes."""
    total = {"checkpoints": 0, "writes": 0, "blobs": 0, "bytes": 0}
    for one in sizes:
        for name in total:
            total[name] += getattr(one, name)
    return total
