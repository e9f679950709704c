"""The plan and the report of a purge, as text and as records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
    return (doomed_record(one) for one in threads if one.action != "keep")


def plan_lines(threads: Iterable[Doomed], width: int) -> Iterator[Line]:
    """A table of what goes, and below it what is kept by a rule."""
    kept: list[Doomed] = []
    gone = [0, 0, 0]

    def rows() -> Iterator[dict[str, Any]]:
        for one in threads:
            if one.action == "keep":
                kept.append(one)
                continue
            gone[0] += 1
            gone[1] += one.checkpoints
            gone[2] += one.bytes
            yield doomed_record(one)

    yield from table_lines(rows(), purge_columns(), width)
    yield line("")
    yield from field(
        "removes", f"{_threads(gone[0])}, {gone[1]} checkpoints, {size(gone[2])}", width
    )
    for one in kept:
        text = f"{safe_text(one.thread_id)}: {one.reason}"
        yield from field("keeps", text, width, "question")


def report_lines(plan: PlanFile, report: Report, width: int) -> Iterator[Line]:
    """What a purge did."""
    parts = [_threads(report.threads)]
    if report.pruned:
        parts.append(f"parts of {report.pruned}")
    parts += [f"{number} {table}" for table, number in sorted(report.rows.items())]
    yield from field("removed", ", ".join([*parts, size(report.bytes)]), width)
    kept = [(one.thread_id, one.reason) for one in plan.threads() if one.action == "keep"]
    for name, why in [*kept, *report.skipped.items()]:
        yield from field("keeps", f"{safe_text(name)}: {why}", width, "question")


def done(plan: PlanFile, report: Report) -> Iterator[Doomed]:
    """The threads of which something went."""
    going = (one for one in plan.threads() if one.action != "keep")
    for number, one in enumerate(going):
        if number < report.done and one.thread_id not in report.skipped:
            yield one


def purge_record(
    plan: PlanFile, report: Report, archive: Path | None, *, dry_run: bool
) -> dict[str, Any]:
    """The answer of `purge`."""
    threads = plan.threads() if dry_run else done(plan, report)
    return {
        "dry_run": dry_run,
        "threads": [doomed_record(one) for one in threads if one.action != "keep"],
        "removed": removed_record(report),
        "kept": sum(one.action == "keep" for one in plan.threads()) + len(report.skipped),
        "skipped": [
            *(
                {"thread_id": one.thread_id, "reason": one.reason}
                for one in plan.threads()
                if one.action == "keep"
            ),
            *({"thread_id": name, "reason": why} for name, why in report.skipped.items()),
        ],
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
        yield ThreadSize(one.checkpoints, one.writes, one.bytes)


def sum_record(sizes: Iterable[ThreadSize]) -> dict[str, int]:
    """Sizes of threads, summed up."""
    total = {"checkpoints": 0, "writes": 0, "bytes": 0}
    for one in sizes:
        for name in total:
            total[name] += getattr(one, name)
    return total


def _threads(number: int) -> str:
    return f"{number} thread" + ("" if number == 1 else "s")
