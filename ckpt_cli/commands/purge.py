"""`ckpt purge`: remove old threads, or prune old checkpoints inside them."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from typer import Context, Exit, Option

from ckpt_backends.archive import make_folder
from ckpt_backends.errors import PartlyDone, UsageError
from ckpt_backends.files import TemporaryFolder
from ckpt_backends.model import Status
from ckpt_cli import __version__
from ckpt_cli.api.answer import Answer, explained_if_none, filter_of
from ckpt_cli.api.thread import memories_from
from ckpt_cli.apply.purge import Archive, Pace, archive_threads, run_purge, written_bundles
from ckpt_cli.apply.recording import check_removable, refuse_copy
from ckpt_cli.commands.arguments import SignKey, signing_key
from ckpt_cli.commands.changing import confirm
from ckpt_cli.commands.plan_out import KEYS_OF_REMOVAL, PlanOut, note_saved, removes, stored_options
from ckpt_cli.core.retention import PlannedRemoval, PurgeReport, RetentionRules
from ckpt_cli.core.times import parse_duration
from ckpt_cli.diagnostics import progress
from ckpt_cli.options import DryRun, Match, Memory, Statuses, Summary, Where, Yes, number
from ckpt_cli.plans.purge import PlanFile, Policy, plan_purge, removal_header, write_plan
from ckpt_cli.plans.saved_plan import PlanHeader, PlannedStore
from ckpt_cli.queries.threads import Selection
from ckpt_cli.render.purge import (
    PURGE_SUMMARY,
    REMOVAL_VIEW,
    PurgeSummary,
    RemovedThreads,
    done_threads,
    question,
)
from ckpt_cli.render.table import iso, size
from ckpt_cli.render.values import counted
from ckpt_cli.session import Session

ArchiveFolder = Annotated[
    Path | None,
    Option("--archive", metavar="DIR", help="Archive each thread in DIR before removing it."),
]
OF_REMOVAL = ("archive", "sign_key", "batch", "sleep", "max_duration", "vacuum")
"""The options that a saved plan of a removal holds, or needs again."""


@dataclass
class RemovalRun:
    """One run that removes threads, or what is inside them, as the options say.

    Raises `UsageError`, `Refused` or `StoreUnavailable` early for what fails after planning.
    """

    session: Session
    action: str
    """The name of the operation that is recorded: the words of the command."""
    archive: Path | None = None
    """Where each thread is archived before anything of it is removed."""
    sign_key: Path | None = None
    """Signs the archives."""
    batch: int | None = None
    sleep: float = 0.0
    max_duration: str | None = None
    vacuum: bool = False
    memory: str | None = None
    """The long-term memory of the threads, where it was given."""
    plan_out: Path | None = None
    """Where the plan is saved instead."""
    summary: bool = False
    """Print one line instead of the plan and the report."""
    again: str = "run the same command again"
    """How to go on after a stop."""

    def __post_init__(self) -> None:
        until = None
        if self.max_duration is not None:
            until = time.monotonic() + parse_duration(self.max_duration).total_seconds()
        self.pace = Pace(self.batch, self.sleep, until)
        self.key = signing_key(self.sign_key, self.archive)
        is_shown = self.session.consent.dry_run
        if not is_shown:
            refuse_copy(self.session.names.store_url)
        check_removable(self.session.store)
        if self.archive is not None and not is_shown:
            make_folder(self.archive)

    def carry_out(self, threads: Iterable[PlannedRemoval], *, receipt: bool = False) -> PurgeReport:
        """Plan, show, ask, remove and report. Raises `PartlyDone` after a stop or a failed vacuum.

        With `receipt`, the JSON also has the sizes of the threads before and after.
        """
        with TemporaryFolder() as folder:
            return self.carry_out_plan(self.planned(threads, folder), receipt=receipt)

    def planned(self, threads: Iterable[PlannedRemoval], folder: Path) -> PlanFile:
        """Write the plan: to --plan-out for another run, or to a private folder for this one."""
        session, out = self.session, self.plan_out
        layout = session.store.describe().layout
        if out is None:
            header = removal_header(layout, session.now, self.action)
            return write_plan(folder / "plan.ndjson", header, threads)
        given = {name: getattr(self, name) for name in OF_REMOVAL}
        given = {name: one for name, one in given.items() if one}
        header = PlanHeader(
            action=self.action,
            kind="removal",
            store=PlannedStore.of(session.names.store_url),
            layout=layout,
            made_at=session.now,
            by=__version__,
            command=session.command,
            options=stored_options(given, without=KEYS_OF_REMOVAL),
            again=tuple(KEYS_OF_REMOVAL & given.keys()),
        )
        return write_plan(out, header, threads)

    def carry_out_plan(self, plan: PlanFile, *, receipt: bool = False) -> PurgeReport:
        """Show a plan, ask, remove and report, as `carry_out` does."""
        session = self.session
        found = RemovedThreads(
            plan, PurgeReport(), True, self.archive, session.names.words, self._memories(plan)
        )
        if session.consent.dry_run:
            self._show(found, None)
            if self.plan_out is None:
                session.note_dry_run("removed")
            else:
                note_saved(session, self.plan_out)
            return found.report
        if plan.going and not session.consent.yes:
            if session.output.text and not self.summary:
                session.show(Answer(found, REMOVAL_VIEW))
            confirm(question(plan.sums))
        report, started = PurgeReport(), time.monotonic()
        if plan.going or self.vacuum:
            report = self._remove(plan)
        if not (plan.going or self.summary):
            session.note("nothing to remove")
        if self.summary or report.sums.threads or session.output.machine or not _is_quiet(session):
            self._show(_done(session, found, report, receipt=receipt), time.monotonic() - started)
        if self.action == "purge" and report.sums.threads and not (self.vacuum or self.summary):
            _note_free_space(session)
        _raise_stopped(report, self.again)
        return report

    def _show(self, found: RemovedThreads, seconds: float | None) -> None:
        """Print what was found, or its numbers; without `seconds`, it is a plan."""
        if self.summary:
            sums = found.plan.sums if seconds is None else found.report.sums
            numbers = PurgeSummary(sums, found.plan.kept, found.report, seconds)
            self.session.output.summary(PURGE_SUMMARY.record(numbers))
        else:
            self.session.show(Answer(found, REMOVAL_VIEW))

    def _memories(self, plan: PlanFile) -> list[dict[str, Any]] | None:
        """Return the memories that came from removed threads; None where no memory is known."""
        found = memories_from(self.session, self.memory, lambda _: True)
        if not found:
            return found
        named = {row["thread_id"] for row in found}
        removed = (one.thread_id for one in plan.threads() if one.action == "remove")
        going = {thread_id for thread_id in removed if thread_id in named}
        return [row for row in found if row["thread_id"] in going]

    def _remove(self, plan: PlanFile) -> PurgeReport:
        session, readers = self.session, [self.session.store]
        archive: Archive | None = None
        if self.archive is not None:
            made_at = iso(session.now)
            to = self.archive, session.rows, made_at, __version__, self.key
            archive = partial(archive_threads, partial(written_bundles, *to), session.rows)
            readers.append(session.rows)
        cannot_undo = "no archive was made" if archive is None else ""
        with session.recorder.operation(self.action, cannot_undo=cannot_undo) as recording:
            report = run_purge(
                session.names.store_url,
                progress(plan.threads(), total=plan.going, label="purging"),
                recording,
                readers,
                self.pace,
                archive,
                vacuum=self.vacuum,
                catch_signals=True,
            )
        if report.not_erased:
            session.note(report.not_erased)
        return report


def _is_quiet(session: Session) -> bool:
    return bool(session.settings.get("quiet"))


def _done(
    session: Session, found: RemovedThreads, report: PurgeReport, *, receipt: bool
) -> RemovedThreads:
    """Return what was removed; for a `receipt` also what is left of the threads."""
    memories, after = found.memories, None
    if memories:
        gone = {one.thread_id for one in done_threads(found.plan, report)}
        memories = [row for row in memories if row["thread_id"] in gone]
    if receipt and session.output.machine:
        session.store.refresh()
        gone_threads = done_threads(found.plan, report)
        after = [session.store.size(one.thread_id) for one in gone_threads]
    return found._replace(report=report, is_dry_run=False, memories=memories, after=after)


def _note_free_space(session: Session) -> None:
    """Note that a file did not shrink, if its engine says so."""
    session.store.refresh()
    info = session.store.describe()
    if info.free and info.size:
        session.note(
            f"the file keeps its size: {size(info.free)} of {size(info.size)} are free for new"
            " rows; with --vacuum, a purge returns them to the disk"
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


@removes("purge")
def purge(
    ctx: Context,
    older_than: Annotated[
        str | None, Option(metavar="AGE", help="Only threads idle for AGE, such as 30d.")
    ] = None,
    expired: Annotated[
        bool, Option("--expired", help="Only threads past the profile's retention.")
    ] = False,
    match: Match = None,
    where: Where = None,
    status: Statuses = None,
    keep_last: Annotated[int | None, number("Prune: keep the newest N.")] = None,
    keep_within: Annotated[
        str | None, Option(metavar="AGE", help="Prune: keep what is younger than AGE.")
    ] = None,
    keep_tips: Annotated[
        bool, Option("--keep-tips", help="Prune: keep the tip of each branch.")
    ] = False,
    protect: Annotated[
        list[str] | None, Option(metavar="GLOB", help="Never touch these threads; repeatable.")
    ] = None,
    include_interrupted: Annotated[
        bool, Option("--include-interrupted", help="Remove interrupted threads too.")
    ] = False,
    include_pending: Annotated[
        bool,
        Option("--include-pending", help="Remove threads with a pending or unknown status too."),
    ] = False,
    include_error: Annotated[
        bool, Option("--include-error", help="Remove threads with status error too.")
    ] = False,
    archive: ArchiveFolder = None,
    sign_key: SignKey = None,
    plan_out: PlanOut = None,
    max_duration: Annotated[
        str | None, Option(metavar="TIME", help="Start no batch after TIME, such as 30m.")
    ] = None,
    batch: Annotated[
        int | None, number("Threads per transaction (default: 200; more if keys are scanned).")
    ] = None,
    sleep: Annotated[
        float, Option(metavar="SECONDS", help="Pause between transactions.", min=0)
    ] = 0.0,
    vacuum: Annotated[bool, Option("--vacuum", help="Reclaim disk space afterwards (VACUUM).")] = (
        False
    ),
    memory: Memory = None,
    summary: Summary = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Remove old threads, or prune old checkpoints inside them.

    Removes whole threads that match all of --older-than, --expired, --match, --where and
    --status. With --keep-last, --keep-within or --keep-tips, prunes these threads instead (by
    default all threads): keeps the checkpoints that any of them selects, the newest checkpoint,
    and all checkpoints that these need.

    Threads with status error, interrupted, pending or unknown are not removed unless included.
    A thread that changed since the plan was made is skipped.

    ```
    ckpt -s agent.db purge --older-than 30d --dry-run
    ckpt -s agent.db purge --keep-last 20 --keep-tips --yes
    ckpt -s prod purge --older-than 90d --plan-out plan.ndjson
    ckpt -s prod apply plan.ndjson --archive /var/backups/ckpt --yes
    ```

    In a crontab, every night, for at most half an hour:
    ```
    17 3 * * *  ckpt -s prod purge --older-than 90d --max-duration 30m --yes -q
    ```
    """
    session: Session = ctx.obj
    within = parse_duration(keep_within) if keep_within else None
    wanted = filter_of(session, where, acts=True)
    policy = Policy(
        Selection(match=match, status=frozenset(status or ()), where=wanted),
        _oldest(session, older_than, expired=expired),
        tuple(protect or ()),
        RetentionRules(keep_last, within, keep_tips),
        _included(interrupted=include_interrupted, pending=include_pending, error=include_error),
    )
    if policy.is_empty:
        raise UsageError(
            "nothing selected",
            hint="select threads with --older-than, --expired, --match, --where or --status,"
            " or prune with --keep-last, --keep-within or --keep-tips",
        )
    pace = batch, sleep, max_duration
    run = RemovalRun(session, "purge", archive, sign_key, *pace, vacuum, memory, plan_out, summary)
    watch = partial(progress, total=None, label="planning")
    found = plan_purge(session.store, policy, session.now, watch)
    run.carry_out(explained_if_none(session, where, found))


def _included(*, interrupted: bool, pending: bool, error: bool) -> frozenset[Status]:
    """Return the conditions in which threads are removed although they are protected."""
    chosen = {
        Status.INTERRUPTED: interrupted,
        Status.PENDING: pending,
        Status.UNKNOWN: pending,
        Status.ERROR: error,
    }
    return frozenset(one for one, is_chosen in chosen.items() if is_chosen)


def _oldest(session: Session, older_than: str | None, *, expired: bool) -> Any:
    if expired:
        retention = session.names.retention
        if retention is None:
            raise UsageError(
                "--expired needs to know how long threads are kept",
                hint='write retention = "90d" in the profile of the store, or use --older-than',
            )
        older_than = older_than or retention
    return session.time(older_than)
