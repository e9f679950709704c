"""Removals of threads, and of what is inside them: plans, what was done, and sums."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from ckpt_backends import shell
from ckpt_backends.model import ThreadSize
from ckpt_cli.core.retention import NOT_FOUND, PlannedRemoval, PurgeReport, PurgeSums, RemovalSum
from ckpt_cli.plans.purge import PlanFile
from ckpt_cli.render.fields import Field, Shape, View, known, optional
from ckpt_cli.render.summaries import grouped_count, most_frequent
from ckpt_cli.render.table import THREAD, Column, size, table_lines
from ckpt_cli.render.text import StyledLine, Ui, command_field, field, line, safe_text, wrap
from ckpt_cli.render.types import BYTES, FLAG, INTEGER, OBJECT, SECONDS, TEXT, one_of
from ckpt_cli.render.values import counted

_NAMED = 5
"""Maximum number of kept threads that are named for one reason."""
_AT_MOST = 20
"""Number of threads that are shown on a terminal."""


class RemovedThreads(NamedTuple):
    """A removal that was planned, or carried out."""

    plan: PlanFile
    report: PurgeReport
    is_dry_run: bool
    archive: Path | None = None
    store: Sequence[str] = ()
    """The words that name the store."""
    memories: Sequence[dict[str, Any]] | None = None
    """The items of long-term memory that came from the threads; None if no memory is known."""
    after: Sequence[ThreadSize] | None = None
    """What is left of the threads, for a receipt."""

    def records(self) -> Iterable[dict[str, Any]]:
        """Return the threads of the plan, or those that were removed or pruned."""
        if self.is_dry_run:
            return self.plan.records()
        done = islice(self.plan.records(), self.report.done)
        return (one for one in done if one["thread_id"] not in self.report.skipped)

    @property
    def kept(self) -> list[tuple[str, str]]:
        """The threads that stay, with the reason."""
        return [*self.plan.kept, *self.report.skipped.items()]


def done_threads(plan: PlanFile, report: PurgeReport) -> Iterator[PlannedRemoval]:
    """Yield the threads that were removed or pruned."""
    for one in islice(plan.threads(), report.done):
        if one.thread_id not in report.skipped:
            yield one


REMOVED = Shape(
    "A thread that is removed, or from which checkpoints are removed.",
    Field("thread_id", TEXT, "Thread."),
    Field("action", one_of("remove", "prune"), "Remove it whole, or some of its checkpoints."),
    Field("reason", TEXT, "Why."),
    Field("checkpoints", INTEGER, "Checkpoints that go."),
    Field("writes", INTEGER, "Writes that go."),
    Field("blobs", INTEGER, "Values stored apart that go."),
    Field("bytes", BYTES, "What they take."),
)
REMOVED_COLUMNS = REMOVED.columns(
    THREAD,
    Column("ACTION", "action", style="change"),
    Column("CHECKPOINTS", "checkpoints", right=True),
    Column("WRITES", "writes", right=True, drop=2),
    Column("BLOBS", "blobs", right=True, drop=3),
    Column("SIZE", "bytes", size, right=True),
    Column("WHY", "reason", cut=True, style="dim"),
)
_THREADS = REMOVED.list.converted_by(list)
"""Records as a plan file holds them."""
_SUMS = Shape(
    "Sums over all threads.",
    Field("threads", INTEGER, "Threads that were removed.", "sums.removed.threads"),
    Field("pruned", INTEGER, "Threads that were pruned.", "sums.pruned.threads"),
    Field("bytes", BYTES, "What went.", "sums.bytes"),
    Field(
        "rows", INTEGER.by_name, "Rows by table.", lambda report: dict(sorted(report.rows.items()))
    ),
)
_KEPT = Shape(
    "A thread that stays.",
    Field("thread_id", TEXT, "Thread.", lambda one: one[0]),
    Field("reason", TEXT, "Why.", lambda one: one[1]),
)
_TOTAL = Shape(
    "The size of some threads.",
    Field("checkpoints", INTEGER, "Checkpoints."),
    Field("writes", INTEGER, "Writes."),
    Field("blobs", INTEGER, "Values stored apart."),
    Field("bytes", BYTES, "Stored bytes."),
)


def _before(found: RemovedThreads) -> RemovalSum | None:
    if found.after is None:
        return None
    return _sum(done_threads(found.plan, found.report))


def _after(found: RemovedThreads) -> RemovalSum | None:
    return None if found.after is None else _sum(found.after)


def _sum(sizes: Iterable[PlannedRemoval | ThreadSize]) -> RemovalSum:
    total = RemovalSum()
    for one in sizes:
        total.add(one)
    return total


REMOVAL = Shape(
    "What a purge, a gc or a deletion removed, or would remove.",
    Field("dry_run", FLAG, "Whether nothing was removed.", "is_dry_run"),
    Field(
        "threads", _THREADS, "The threads that are removed or pruned.", lambda one: one.records()
    ),
    Field("removed", _SUMS, "What was removed; zeros in a dry run.", "report"),
    Field("kept", INTEGER, "Number of threads that stay.", lambda found: len(found.kept)),
    Field("skipped", _KEPT.list, "The threads that stay because of a rule or a change.", "kept"),
    Field("left", INTEGER, "Threads left for the next run.", "report.left"),
    Field(
        "archive",
        TEXT.or_null,
        "Folder of the archives.",
        lambda one: one.archive and str(one.archive),
    ),
    known(
        "memories",
        OBJECT.list,
        "Items of long-term memory that came from removed threads and stay, if a memory is known.",
    ),
    optional("before", _TOTAL, "Of a deletion: what the threads had.", _before),
    optional("after", _TOTAL, "Of a deletion: what is left of them.", _after),
)


def removal_lines(found: RemovedThreads, ui: Ui) -> Iterator[StyledLine]:
    """Yield what would be removed, or what was, and the threads that stay."""
    yield from _plan_lines(found, ui) if found.is_dry_run else _report_lines(found, ui)


def _plan_lines(found: RemovedThreads, ui: Ui) -> Iterator[StyledLine]:
    """Yield a table of the threads, those that a rule keeps, and the totals."""
    plan, most = found.plan, _AT_MOST if ui.terminal else None
    if plan.going:
        has_blobs = plan.sums.removed.blobs + plan.sums.pruned.blobs > 0
        columns = [one for one in REMOVED_COLUMNS if one.key != "blobs" or has_blobs]
        yield from table_lines(islice(plan.records(), most), columns, ui)
        if most is not None and plan.going > most:
            yield line((f"... and {plan.going - most} more; -o tsv lists all", "dim"))
        yield line("")
    yield from _kept_lines(plan.kept, ui.width, "Would keep")
    yield from _memory_lines(found, ui)
    if plan.going:
        yield from _total_lines(plan.sums, ui.width, "Would remove", "Would prune")
    else:
        yield line("Would remove nothing.")


def _report_lines(found: RemovedThreads, ui: Ui) -> Iterator[StyledLine]:
    """Yield what was removed, where it is archived, and what was kept."""
    report, archive = found.report, found.archive
    if report.sums.threads:
        yield from _total_lines(report.sums, ui.width, "Removed", "Pruned")
        counts = sorted(report.rows.items())
        rows = ", ".join(f"{number} {table}" for table, number in counts if number)
        yield from field("rows", rows, ui.width)
    if archive is not None and report.sums.threads:
        restore = shell.command("ckpt", *found.store, "import", ids=[str(archive)])
        yield command_field("archive", f"{shell.word(str(archive))}; `{restore}` restores them")
    yield from _kept_lines(found.kept, ui.width, "Kept")
    yield from _memory_lines(found, ui)


def _memory_lines(found: RemovedThreads, ui: Ui) -> Iterator[StyledLine]:
    if found.memories:
        from ckpt_cli.render.memory import going_lines  # most stores have no memory next to them

        yield from going_lines(found.memories, ui.width)


REMOVAL_VIEW = View(REMOVAL.record, removal_lines, RemovedThreads.records, REMOVED_COLUMNS)


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


_SECONDS = SECONDS.converted_by(lambda seconds: round(seconds, 3))


class PurgeSummary(NamedTuple):
    """The numbers of a purge, or of its plan."""

    sums: PurgeSums
    """What was removed, or would be."""
    kept: Iterable[tuple[str, str]]
    """The threads that a rule keeps."""
    report: PurgeReport
    seconds: float | None
    """None for a plan."""

    def reasons(self) -> Counter[str]:
        """Return how many threads a rule keeps, by its words."""
        return Counter(_brief(why) for _, why in self.kept)

    def skipped(self) -> Counter[str]:
        """Return how many threads were skipped, by the reason."""
        return Counter(map(_brief, self.report.skipped.values()))

    def text(self) -> str:
        """Return it in one line without ids, for a chat or a cron job."""
        is_plan = self.seconds is None
        verbs = ("would remove", "would prune") if is_plan else ("removed", "pruned")
        parts = [
            f"{verb} {grouped_count(one.threads, 'thread')}"
            f" ({grouped_count(one.checkpoints, 'checkpoint')}, {size(one.bytes)})"
            for verb, one in zip(verbs, (self.sums.removed, self.sums.pruned), strict=True)
            if one.threads
        ] or [f"{verbs[0]} nothing"]
        if self.seconds is not None:
            parts[-1] += f" in {_duration(self.seconds)}"
        for verb, reasons in (("kept", self.reasons()), ("skipped", self.skipped())):
            if reasons:
                only = safe_text(next(iter(reasons)))
                told = only if len(reasons) == 1 else most_frequent(reasons)
                parts.append(f"{verb} {reasons.total():,} ({told})")
        if self.report.left:
            parts.append(f"{self.report.left:,} left: {self.report.stopped or 'stopped'}")
        return f"purge: {', '.join(parts)}"


PURGE_SUMMARY = Shape(
    "The numbers of a purge in one line, for a chat or a cron job.",
    Field("dry_run", FLAG, "Whether nothing was removed.", lambda one: one.seconds is None),
    Field(
        "removed",
        Shape(
            "Threads.",
            Field("threads", INTEGER, "Removed whole.", "removed.threads"),
            Field("pruned", INTEGER, "Pruned.", "pruned.threads"),
        ),
        "What was removed, or would be.",
        "sums",
    ),
    Field("checkpoints", INTEGER, "Checkpoints that go.", "sums.checkpoints"),
    Field("bytes", BYTES, "What goes.", "sums.bytes"),
    Field(
        "kept",
        INTEGER.by_name,
        "Threads by the rule that keeps them.",
        lambda one: dict(one.reasons().most_common()),
    ),
    Field(
        "skipped",
        INTEGER.by_name,
        "Threads by why they were skipped.",
        lambda one: dict(one.skipped().most_common()),
    ),
    Field("left", INTEGER, "Threads left for the next run.", "report.left"),
    Field("seconds", _SECONDS.or_null, "Time; null in a dry run."),
    Field("summary", TEXT, "All this in one line.", PurgeSummary.text),
)


def _brief(why: str) -> str:
    """Return a reason without the option that would overrule it."""
    return why.partition(" (to remove: ")[0]


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
