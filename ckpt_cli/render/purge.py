"""The plan and the report of a purge, as text and as records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from ckpt_backends.model import ThreadSize
from ckpt_cli.core.purge import Doomed, Report, doomed_record
from ckpt_cli.reading.plan_file import PlanFile
from ckpt_cli.render.lines import Line, line
from ckpt_cli.render.table import Column, table_lines
from ckpt_cli.render.text import safe_text
from ckpt_cli.render.thread import field
from ckpt_cli.render.units import size
from ckpt_cli.render.value import counted


def purge_columns() -> Sequence[Column]:
    """The columns of a plan."""
    return [
        Column("THREAD", "thread_id", style="head"),
        Column("ACTION", "action", style="change"),
        Column("CHECKPOINTS", "checkpoints", right=True),
        Column("WRITES", "writes", right=True, drop=2),
        Column("BLOBS", "blobs", right=True, drop=3),
        Column("BYTES", "bytes", size, right=True),
        Column("WHY", "reason", cut=True, style="dim"),
    ]


def plan_rows(threads: Iterable[Doomed]) -> Iterator[dict[str, Any]]:
    """What goes, one row a thread."""
    return map(doomed_record, threads)


def plan_lines(plan: PlanFile, width: int) -> Iterator[Line]:
    """A table of what goes, and below it what is kept by a rule."""
    gone = [0, 0]

    def rows() -> Iterator[dict[str, Any]]:
        for one in plan.threads():
            gone[0] += one.checkpoints
            gone[1] += one.bytes
            yield doomed_record(one)

    yield from table_lines(rows(), purge_columns(), width)
    yield line("")
    text = f"{counted(plan.going, 'thread')}, {counted(gone[0], 'checkpoint')}, {size(gone[1])}"
    yield from field("removes", text, width)
    yield from _kept_lines(plan.kept, width)


def report_lines(
    plan: PlanFile, report: Report, width: int, archive: Path | None = None
) -> Iterator[Line]:
    """What a purge did."""
    parts = [counted(report.threads, "thread")]
    if report.pruned:
        parts.append(f"parts of {report.pruned}")
    parts += [f"{number} {table}" for table, number in sorted(report.rows.items())]
    yield from field("removed", ", ".join([*parts, size(report.bytes)]), width)
    if archive is not None and (report.threads or report.pruned):
        yield from field("archived", f"in {archive}; `ckpt import` puts it back", width)
    yield from _kept_lines([*plan.kept, *report.skipped.items()], width)


def _kept_lines(kept: Iterable[tuple[str, str]], width: int) -> Iterator[Line]:
    for thread_id, why in kept:
        yield from field("keeps", f"{safe_text(thread_id)}: {why}", width, "question")


def done(plan: PlanFile, report: Report) -> Iterator[Doomed]:
    """The threads of which something went."""
    for one in islice(plan.threads(), report.done):
        if one.thread_id not in report.skipped:
            yield one


def purge_record(
    plan: PlanFile, report: Report, archive: Path | None, *, dry_run: bool
) -> dict[str, Any]:
    """The answer of `purge`."""
    kept = [*plan.kept, *report.skipped.items()]
    return {
        "dry_run": dry_run,
        "threads": list(map(doomed_record, plan.threads() if dry_run else done(plan, report))),
        "removed": removed_record(report),
        "kept": len(kept),
        "skipped": [{"thread_id": thread_id, "reason": why} for thread_id, why in kept],
        "left": report.left,
        "archive": None if archive is None else str(archive),
    }


def removed_record(report: Report) -> dict[str, Any]:
    """What went: threads, threads in part, bytes, and rows by table."""
    return {
        "threads": report.threads,
        "pruned": report.pruned,
        "bytes": report.bytes,
        "rows": dict(sorted(report.rows.items())),
    }


def removed_sizes(plan: PlanFile, report: Report) -> Iterator[ThreadSize]:
    """What the threads had of which something went."""
    for one in done(plan, report):
        yield ThreadSize(one.checkpoints, one.writes, one.bytes, one.blobs)


def sum_record(sizes: Iterable[ThreadSize]) -> dict[str, int]:
    """Sizes of threads, summed up."""
    total = {"checkpoints": 0, "writes": 0, "blobs": 0, "bytes": 0}
    for one in sizes:
        for name in total:
            total[name] += getattr(one, name)
    return total
