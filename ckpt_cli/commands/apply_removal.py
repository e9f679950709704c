"""What purge, gc and threads delete share: show the plan, ask, remove, report."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Exit, Option

from ckpt_backends.errors import PartlyDone
from ckpt_cli import __version__
from ckpt_cli.api.memories import memories_from
from ckpt_cli.apply.purge import Archive, Pace, run_purge
from ckpt_cli.apply.writable import check_removable, refuse_copy
from ckpt_cli.commands.confirm import confirm
from ckpt_cli.commands.plan_out import note_saved
from ckpt_cli.core.retention.purge_plan import PurgeReport
from ckpt_cli.core.times import parse_duration
from ckpt_cli.diagnostics import progress
from ckpt_cli.plans.plan_file import PlanFile
from ckpt_cli.render.purge import (
    done,
    done_records,
    plan_lines,
    purge_columns,
    purge_record,
    question,
    removed_sizes,
    report_lines,
    sum_record,
)
from ckpt_cli.render.summaries import purge_summary
from ckpt_cli.render.terminal.styled_text import StyledLine
from ckpt_cli.render.terminal.units import iso, size
from ckpt_cli.render.values.one_line import counted
from ckpt_cli.session import Session

if TYPE_CHECKING:
    from ckpt_backends.changes.signatures import SigningKey


ArchiveFolder = Annotated[
    Path | None,
    Option("--archive", metavar="DIR", help="Archive each thread in DIR before removing it."),
]
_AT_MOST = 20
"""Number of threads that are shown on a terminal."""


@dataclass(frozen=True, slots=True)
class RemovalTerms:
    """How a plan is carried out."""

    pace: Pace = field(default_factory=Pace)
    archive: Path | None = None
    """Where each thread is archived before anything of it is removed."""
    vacuum: bool = False
    dry_run: bool = False
    yes: bool = False
    memory: str | None = None
    """The long-term memory of the threads, where it was given."""
    key: SigningKey | None = None
    """Signs the archives."""
    plan_out: Path | None = None
    """Where the plan is saved instead."""
    summary: bool = False
    """Print one line instead of the plan and the report."""
    again: str = "run the same command again"
    """How to go on after a stop."""


def end_of(max_duration: str | None) -> float | None:
    """Return when a removal starts no further batch, by `time.monotonic`. Raises `UsageError`."""
    if max_duration is None:
        return None
    return time.monotonic() + parse_duration(max_duration).total_seconds()


def check_terms(session: Session, terms: RemovalTerms) -> None:
    """Raise `UsageError`, `Refused` or `StoreUnavailable` early for what fails after planning."""
    if not terms.dry_run:
        refuse_copy(session.names.store_url)
    check_removable(session.store)
    if terms.archive is not None and not terms.dry_run:
        from ckpt_backends.changes.bundle import make_folder

        make_folder(terms.archive)


def show_and_remove(
    session: Session, plan: PlanFile, terms: RemovalTerms, action: str, *, receipt: bool = False
) -> PurgeReport:
    """Show a plan, ask, remove and report. Raises `PartlyDone` after a stop or a failed vacuum.

    `action` is the name of the operation that is recorded. With `receipt`, the JSON also has the
    sizes of the threads before and after.
    """
    memories = _memories(session, plan, terms)
    if terms.dry_run:
        _print_plan(session, plan, terms, memories)
        return PurgeReport()
    if plan.going and not terms.yes:
        _show_and_ask(session, plan, terms, memories)
    report, started = PurgeReport(), time.monotonic()
    if plan.going:
        report = _remove(session, plan, terms, action)
    elif not terms.summary:
        session.note("nothing to remove")
    if terms.summary:
        seconds = time.monotonic() - started
        session.output.summary(purge_summary(report.sums, plan.kept, report, seconds))
    elif report.sums.threads or session.output.machine or not session.settings.get("quiet"):
        _print_report(session, plan, report, terms.archive, memories, receipt=receipt)
    if action == "purge" and report.sums.threads and not (terms.vacuum or terms.summary):
        _note_free_space(session)
    _raise_stopped(report, terms.again)
    return report


def _note_free_space(session: Session) -> None:
    """Note that a file did not shrink, if its engine says so."""
    session.store.refresh()
    info = session.store.describe()
    if info.free and info.size:
        session.note(
            f"the file keeps its size: {size(info.free)} of {size(info.size)} are free for new"
            " rows; --vacuum returns them to the disk"
        )


def _plan_lines(
    session: Session, plan: PlanFile, memories: list[dict[str, Any]] | None
) -> Iterator[StyledLine]:
    output = session.output
    most = _AT_MOST if output.terminal else None
    return plan_lines(plan, output.width, most, _going_lines(memories, output.width))


def _print_plan(
    session: Session, plan: PlanFile, terms: RemovalTerms, memories: list[dict[str, Any]] | None
) -> None:
    output = session.output
    if terms.summary:
        output.summary(purge_summary(plan.sums, plan.kept, PurgeReport(), None))
    else:
        output.document(
            lambda: {
                **purge_record(plan, PurgeReport(), terms.archive, dry_run=True),
                **({} if memories is None else {"memories": memories}),
            },
            lambda: _plan_lines(session, plan, memories),
            rows=plan.records,
            columns=purge_columns(),
        )
    if terms.plan_out is None:
        session.note_dry_run("removed")
    else:
        note_saved(session, terms.plan_out)


def _print_report(
    session: Session,
    plan: PlanFile,
    report: PurgeReport,
    archive: Path | None,
    memories: list[dict[str, Any]] | None,
    *,
    receipt: bool,
) -> None:
    output = session.output
    if memories:
        gone = {one.thread_id for one in done(plan, report)}
        memories = [row for row in memories if row["thread_id"] in gone]

    def record() -> dict[str, Any]:
        found = purge_record(plan, report, archive, dry_run=False)
        if memories is not None:
            found["memories"] = memories
        if receipt:
            session.store.refresh()
            found["before"] = sum_record(removed_sizes(plan, report))
            found["after"] = sum_record(
                session.store.size(one.thread_id) for one in done(plan, report)
            )
        return found

    output.document(
        record,
        lambda: chain(
            report_lines(plan, report, output.width, archive),
            _going_lines(memories, output.width),
        ),
        rows=lambda: done_records(plan, report),
        columns=purge_columns(),
    )


def _raise_stopped(report: PurgeReport, again: str) -> None:
    """Raise `PartlyDone` after a stop or a failed vacuum, and exit with 130 after Ctrl-C."""
    if report.signal == signal.SIGINT:
        raise Exit(130)
    if report.stopped:
        raise PartlyDone(
            f"stopped: {report.stopped}; {counted(report.left, 'thread')} left", hint=again
        )
    if report.vacuum is not None:
        raise PartlyDone(
            f"cannot reclaim disk space: {report.vacuum.message}", hint=report.vacuum.hint
        ) from report.vacuum


def _memories(session: Session, plan: PlanFile, terms: RemovalTerms) -> list[dict[str, Any]] | None:
    """The memories that came from removed threads; None where no memory is known."""
    found = memories_from(session, terms.memory, lambda _: True)
    if not found:
        return found
    named = {row["thread_id"] for row in found}
    removed = (one.thread_id for one in plan.threads() if one.action == "remove")
    going = {thread_id for thread_id in removed if thread_id in named}
    return [row for row in found if row["thread_id"] in going]


def _going_lines(memories: list[dict[str, Any]] | None, width: int) -> Iterator[StyledLine]:
    if memories:
        from ckpt_cli.render.memory.provenance import going_lines

        yield from going_lines(memories, width)


def _show_and_ask(
    session: Session, plan: PlanFile, terms: RemovalTerms, memories: list[dict[str, Any]] | None
) -> None:
    output = session.output
    if not (output.machine or terms.summary):
        output.document(dict, lambda: _plan_lines(session, plan, memories))
    confirm(question(plan.sums))


def _remove(session: Session, plan: PlanFile, terms: RemovalTerms, action: str) -> PurgeReport:
    kept, cannot_undo = None, "no archive was made"
    if terms.archive is not None:
        info, now = session.store.describe(), iso(session.now)
        kept, cannot_undo = (
            Archive(terms.archive, session.rows, info, now, __version__, terms.key),
            "",
        )
    with session.recorder.operation(action, cannot_undo=cannot_undo) as recording:
        report = run_purge(
            session.names.store_url,
            progress(plan.threads(), total=plan.going, label="purging"),
            recording,
            [session.store],
            terms.pace,
            kept,
            vacuum=terms.vacuum,
            catch_signals=True,
        )
    if report.not_erased:
        session.note(report.not_erased)
    return report
