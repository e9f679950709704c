"""Copies of threads, new encryption, and threads in files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ckpt_backends.archive import Bundle
from ckpt_backends.rows import Restored
from ckpt_cli.core.copying import CopiedThread, CopyReport, CopyStep, RekeyReport
from ckpt_cli.plans.fork import ThreadCopyPlan
from ckpt_cli.render.fields import Field, Shape, View, known
from ckpt_cli.render.table import THREAD, Column, size, table_lines
from ckpt_cli.render.text import StyledLine, Ui, command_field, line, safe_text
from ckpt_cli.render.types import BYTES, FLAG, INTEGER, TEXT
from ckpt_cli.render.values import counted

_THREAD = Field("thread_id", TEXT, "Thread.")
_WHY = Column("WHY", "reason", cut=True, style="dim")
_SKIPPED = Shape("A skipped thread.", _THREAD, Field("reason", TEXT, "Why it was skipped."))
COPY = Shape(
    "What became of the threads of a copy, or would.",
    Field("source", TEXT, "URL of the source."),
    Field("target", TEXT, "URL of the target."),
    Field("dry_run", FLAG, "Whether nothing was copied.", "is_dry_run"),
    Field("threads", INTEGER, "Threads that the target has whole.", "number"),
    Field("checkpoints", INTEGER, "Their checkpoints.", "counts.checkpoints"),
    Field("writes", INTEGER, "Their writes.", "counts.writes"),
    Field("values", INTEGER, "Their values that are stored apart.", "counts.values"),
    Field("bytes", BYTES, "Size of all values.", "counts.size"),
    Field("added", INTEGER, "How many of these rows were added."),
    Field("present", INTEGER, "How many were there before."),
    Field(
        "replaced",
        TEXT.list,
        "Threads of the target that were removed first.",
        lambda report: [one.thread_id for one in report.replaced],
    ),
    Field("skipped", _SKIPPED.list, "Threads that were not copied."),
    Field("verified", FLAG, "Whether the target was read back and is equal.", "is_verified"),
)
_COPIED_COLUMNS = (
    THREAD,
    Column("ACTION", "action", style="change"),
    Column("CHECKPOINTS", "checkpoints", right=True),
    Column("WRITES", "writes", right=True, drop=2),
    Column("SIZE", "bytes", size, right=True),
    Column("ADDED", "added", right=True),
    _WHY,
)


def _copied_row(one: CopiedThread) -> dict[str, Any]:
    reason = one.reason
    if one.step is CopyStep.REPLACE:
        reason = f"removes {counted(one.removed.checkpoints, 'checkpoint')} of the target"
    return {
        "thread_id": one.thread_id,
        "action": one.step.value,
        "checkpoints": one.counts.checkpoints,
        "writes": one.counts.writes,
        "bytes": one.counts.size,
        "added": one.added,
        "reason": reason,
    }


def _copy_lines(report: CopyReport, ui: Ui) -> Iterator[StyledLine]:
    """Yield a table of the threads, and the sums."""
    if report.listed or report.skipped:
        rows = map(_copied_row, (*report.listed, *report.skipped))
        yield from table_lines(rows, _COPIED_COLUMNS, ui)
        if more := report.changed - len(report.listed):
            yield line(f"… and {counted(more, 'more thread')}")
        yield line("")
    what = (
        f"{counted(report.number, 'thread')}, {counted(report.counts.checkpoints, 'checkpoint')},"
        f" {counted(report.counts.writes, 'write')}, {size(report.counts.size)}"
    )
    be, added = ("would be", "to add") if report.is_dry_run else ("are now", "added")
    yield line(f"{safe_text(report.target)}: {what} {be} there")
    yield line(f"{counted(report.added, 'row')} {added}, {report.present} there before")
    if report.is_verified and report.number:
        yield line("verified: the target was read back and is equal")


COPIED = View(COPY.record, _copy_lines, lambda one: [COPY.record(one)], COPY.columns())


class Duplicate(NamedTuple):
    """A copy of all of a thread in its own store."""

    thread_id: str
    """The new one."""
    plan: ThreadCopyPlan
    dry_run: bool
    undo: str
    """The command that takes it back; `''` if nothing was copied."""

    @property
    def amount(self) -> str:
        """How much it is, in words."""
        checkpoints, writes = self.plan.checkpoints, self.plan.writes
        return f"{counted(checkpoints, 'checkpoint')}, {counted(writes, 'write')}"


DUPLICATE = Shape(
    "A copy of all of a thread under a new id.",
    Field("thread_id", TEXT, "The new thread."),
    Field("copied_from", TEXT, "The old one.", "plan.source"),
    Field("checkpoints", INTEGER, "Checkpoints of the copy.", "plan.checkpoints"),
    Field("writes", INTEGER, "Its writes.", "plan.writes"),
    Field("dry_run", FLAG, "Whether nothing was copied."),
    Field("undo", TEXT.or_null, "Command that takes it back.", lambda one: one.undo or None),
)


def _duplicate_lines(found: Duplicate, _: Ui) -> Iterator[StyledLine]:
    done = "Would copy" if found.dry_run else "Copied"
    yield line(f"{done} {found.amount} to ", (safe_text(found.thread_id), "head"))
    if found.undo:
        yield command_field("undo", found.undo)


DUPLICATE_VIEW = View(
    DUPLICATE.record, _duplicate_lines, lambda found: [DUPLICATE.record(found)], DUPLICATE.columns()
)
REKEY = Shape(
    "Values of which the encryption was changed, or would be.",
    Field("store", TEXT, "URL of the store."),
    Field("dry_run", FLAG, "Whether nothing was written.", "is_dry_run"),
    Field("threads", INTEGER, "Threads in which all values are as they are to be.", "number"),
    Field("values", INTEGER, "Their values that can be encrypted.", "counts.values"),
    Field("rekeyed", INTEGER, "Those that were changed.", "counts.rekeyed"),
    Field("done_before", INTEGER, "Those that had the right key before.", "counts.done_before"),
    Field(
        "skipped",
        Shape("A thread.", _THREAD, Field("reason", TEXT, "Why it is not done.", "skipped")).list,
        "Threads that are not finished.",
    ),
    Field(
        "verified",
        FLAG,
        "Whether the values were read back.",
        lambda report: not report.is_dry_run and not report.skipped,
    ),
)
_REKEYED_COLUMNS = (
    THREAD,
    Column("VALUES", "values", right=True),
    Column("REKEYED", "rekeyed", right=True),
    Column("DONE BEFORE", "done_before", right=True, drop=2),
    _WHY,
)


def _rekeyed_rows(report: RekeyReport) -> Iterator[dict[str, Any]]:
    """Yield one row for each thread with changed values, or that was skipped."""
    for one in report.threads:
        yield {
            "thread_id": one.thread_id,
            "values": one.counts.values,
            "rekeyed": one.counts.rekeyed,
            "done_before": one.counts.done_before,
            "reason": one.skipped,
        }


def _rekey_lines(report: RekeyReport, ui: Ui) -> Iterator[StyledLine]:
    """Yield a table of the threads, and the sums."""
    if report.threads:
        yield from table_lines(_rekeyed_rows(report), _REKEYED_COLUMNS, ui)
        yield line("")
    done = "Would rekey" if report.is_dry_run else "Rekeyed"
    values = counted(report.counts.rekeyed, "value")
    threads = counted(report.number, "thread")
    yield line(f"{done} {values} in {threads} of {safe_text(report.store)}")
    if report.counts.done_before:
        yield line(f"{counted(report.counts.done_before, 'value')} had the right key before")
    if not report.is_dry_run and report.counts.rekeyed and not report.skipped:
        yield line("verified: the values were read back and open with the key")


REKEYED = View(REKEY.record, _rekey_lines, _rekeyed_rows, _REKEYED_COLUMNS)


class ExportedThread(NamedTuple):
    """A thread that was written to a file."""

    thread_id: str
    path: Path
    rows: int


EXPORTED = Shape(
    "A thread that was written to a file.",
    _THREAD,
    Field("file", TEXT, "The file.", lambda one: str(one.path)),
    Field("rows", INTEGER, "Rows, or checkpoints."),
    Field("bytes", BYTES, "Size of the file.", lambda one: one.path.stat().st_size),
)
EXPORTED_COLUMNS = EXPORTED.columns(
    THREAD,
    Column("FILE", "file"),
    Column("ROWS", "rows", right=True),
    Column("SIZE", "bytes", size, right=True),
)
EXPORTED_TABLE = Shape(
    "A part of a table that was written to a file.",
    Field("table", TEXT, "Table."),
    Field("part", INTEGER, "Number of the range of threads."),
    Field("file", TEXT, "The file."),
    Field("rows", INTEGER, "Rows."),
    Field("bytes", BYTES, "Size of the file."),
    Field("sha256", TEXT, "Digest of the file."),
    Field("left_out", TEXT.list, "Threads that could not be read."),
)
EXPORTED_TABLE_COLUMNS = EXPORTED_TABLE.columns(
    Column("TABLE", "table", style="head"),
    Column("PART", "part", right=True),
    Column("FILE", "file"),
    Column("ROWS", "rows", right=True),
    Column("SIZE", "bytes", size, right=True),
    "sha256",
)


class RestoredThread(NamedTuple):
    """A thread that was restored from a bundle, or would be."""

    bundle: Bundle
    done: Restored


RESTORED = Shape(
    "A thread that was restored, or would be.",
    Field("thread_id", TEXT.or_null, "Thread.", "bundle.header.thread_id"),
    Field("rows", INTEGER, "Rows of the bundle.", "bundle.size"),
    Field("file", TEXT, "The bundle.", lambda one: str(one.bundle.path)),
    Field("signed_by", TEXT.or_null, "Fingerprint of the key that signed it.", "bundle.signed_by"),
    Field("added", INTEGER, "Rows that were added.", "done.added"),
    Field("there", INTEGER, "Rows that were there.", "done.there"),
    known(
        "expired",
        INTEGER,
        "Rows left out: their time to live is over.",
        lambda one: one.done.expired or None,
    ),
)
RESTORED_COLUMNS = RESTORED.columns(
    THREAD,
    Column("ROWS", "rows", right=True),
    Column("ADDED", "added", right=True),
    Column("ALREADY THERE", "there", right=True),
    Column("FILE", "file"),
)
