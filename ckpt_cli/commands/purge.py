"""`ckpt purge`: remove threads, or what is old inside them."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from ckpt_backends.errors import PartlyDone, Refused, UsageError
from ckpt_backends.model import Status
from ckpt_backends.registry import open_writable
from ckpt_cli.commands.carrying_out import confirm
from ckpt_cli.commands.purging import Archive, Pace, run_purge
from ckpt_cli.core.purge import Report
from ckpt_cli.core.retention import Keep
from ckpt_cli.core.times import parse_duration, parse_time
from ckpt_cli.diagnostics import progress
from ckpt_cli.options import DryRun, Yes
from ckpt_cli.reading.plan_file import PlanFile, read_plan, write_plan
from ckpt_cli.reading.purge import Policy, plan_purge
from ckpt_cli.reading.threads import Selection, parse_status, parse_where
from ckpt_cli.render.purge import (
    done,
    plan_lines,
    plan_rows,
    purge_columns,
    purge_record,
    report_lines,
)
from ckpt_cli.render.units import iso
from ckpt_cli.session import Session


def purge(
    ctx: typer.Context,
    older_than: Annotated[
        str | None,
        typer.Option("--older-than", metavar="TIME", help="Not active since: 30d, 2026-04-07."),
    ] = None,
    expired: Annotated[
        bool, typer.Option("--expired", help="Older than the profile's retention.")
    ] = False,
    match: Annotated[
        str | None, typer.Option(metavar="GLOB", help="Whose whole id fits, such as 'test-*'.")
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(metavar="metadata.KEY=VALUE", help="Whose head says so; may be repeated."),
    ] = None,
    status: Annotated[
        list[str] | None,
        typer.Option(metavar="STATUS", help=f"{', '.join(Status)}; may be repeated."),
    ] = None,
    keep_last: Annotated[
        int | None,
        typer.Option("--keep-last", metavar="N", min=1, help="Prune inside: keep the newest N."),
    ] = None,
    keep_within: Annotated[
        str | None,
        typer.Option("--keep-within", metavar="TIME", help="Prune inside: keep what is younger."),
    ] = None,
    keep_tips: Annotated[
        bool, typer.Option("--keep-tips", help="Prune inside: keep the ends of branches.")
    ] = False,
    protect: Annotated[
        list[str] | None,
        typer.Option(metavar="GLOB", help="Never touch these threads; may be repeated."),
    ] = None,
    include_interrupted: Annotated[
        bool, typer.Option("--include-interrupted", help="Also threads in which a question waits.")
    ] = False,
    include_pending: Annotated[
        bool, typer.Option("--include-pending", help="Also threads in which something runs next.")
    ] = False,
    archive: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="First write a bundle of each thread there."),
    ] = None,
    plan_out: Annotated[
        Path | None,
        typer.Option("--plan-out", metavar="FILE", help="Write the plan, remove nothing."),
    ] = None,
    plan: Annotated[
        Path | None, typer.Option("--plan", metavar="FILE", help="Carry out this plan.")
    ] = None,
    max_duration: Annotated[
        str | None,
        typer.Option("--max-duration", metavar="TIME", help="Begin no batch after: 30m, 2h."),
    ] = None,
    batch: Annotated[
        int, typer.Option(metavar="N", min=1, help="Threads in one transaction.")
    ] = 100,
    sleep: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="Rest between two transactions.")
    ] = 0.0,
    vacuum: Annotated[
        bool, typer.Option("--vacuum", help="Give the room back at the end, as the engine does it.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Remove threads, or what is old inside them.

    Without --keep-*, threads go whole: those that fit all of --older-than, --expired, --match,
    --where and --status. With it, such threads (or all) are pruned: what any --keep-* keeps stays,
    and so do the head and all that a checkpoint that stays is read with.

    Threads that wait for an answer or in which something runs next stay, unless included. A thread
    that changed since the plan was made is left alone. --dry-run lists what would go.

    \b
      ckpt -s agent.db purge --older-than 30d --dry-run
      ckpt -s agent.db purge --keep-last 20 --keep-tips --yes
      ckpt -s prod purge --older-than 90d --plan-out plan.ndjson
      ckpt -s prod purge --plan plan.ndjson --archive /var/backups/ckpt --yes
    \b
    In a crontab, every night, for at most half an hour:
      17 3 * * *  ckpt -s prod purge --older-than 90d --max-duration 30m --yes -q
    """
    session: Session = ctx.obj
    keep = Keep(keep_last, parse_duration(keep_within) if keep_within else None, keep_tips)
    policy = Policy(
        Selection(
            match=match,
            status=frozenset(map(parse_status, status or ())),
            where=tuple(map(parse_where, where or ())),
        ),
        _oldest(session, older_than, expired=expired),
        tuple(protect or ()),
        keep,
        include_interrupted,
        include_pending,
    )
    if session.settings.get("copy") and not dry_run:
        raise UsageError("a private copy is not what is to be purged", hint="leave out --copy")
    until = None if max_duration is None else time.monotonic() + _seconds(max_duration)
    _check_folder(archive)
    if plan is not None:
        _check_alone(policy, plan_out)
        found = read_plan(plan)
        found.check_store(session.store.describe())
        _carry_out(session, found, Pace(batch, sleep, until), archive, vacuum, dry_run, yes)
        return
    _check_policy(policy)
    with TemporaryDirectory(prefix="ckpt-") as folder:
        path = plan_out or Path(folder) / "plan.ndjson"
        seen = progress(
            plan_purge(session.store, policy, session.now), total=None, label="planning"
        )
        found = write_plan(path, session.store.describe(), session.now, seen)
        if plan_out is not None:
            session.note(f"the plan is in '{plan_out}'; carry it out with --plan")
        is_dry = dry_run or plan_out is not None
        _carry_out(session, found, Pace(batch, sleep, until), archive, vacuum, is_dry, yes)


def _carry_out(
    session: Session,
    plan: PlanFile,
    pace: Pace,
    archive: Path | None,
    vacuum: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    output = session.output
    if dry_run:
        record = partial(purge_record, plan, Report(), archive, dry_run=True)
        output.document(
            record,
            lambda: plan_lines(plan.threads(), output.width),
            rows=lambda: plan_rows(plan.threads()),
            columns=purge_columns(),
        )
        session.note("a dry run: nothing was removed")
        return
    planned = sum(one.action != "keep" for one in plan.threads())
    if planned and not yes:
        if not output.machine:
            output.document(
                dict, lambda: plan_lines(plan.threads(), output.width), rows=tuple, columns=()
            )
        confirm(f"Remove this of {planned} thread{'s' * (planned != 1)}?")
    report = Report()
    if planned:
        report = _run(session, plan, planned, pace, archive, vacuum)
    if not planned:
        session.note("nothing to remove")
    output.document(
        partial(purge_record, plan, report, archive, dry_run=False),
        lambda: report_lines(plan, report, output.width),
        rows=lambda: plan_rows(done(plan, report)),
        columns=purge_columns(),
    )
    if report.signal is not None and report.signal == 2:
        raise typer.Exit(130)
    if report.stopped:
        raise PartlyDone(
            f"{report.stopped}: {report.left} threads are left", hint="run the same command again"
        )


def _run(
    session: Session,
    plan: PlanFile,
    planned: int,
    pace: Pace,
    archive: Path | None,
    vacuum: bool,
) -> Report:
    info = session.store.describe()
    kept = None
    if archive is not None:
        archive.mkdir(parents=True, exist_ok=True)
        kept = Archive(archive, info, iso(session.now))
    # A reader of a file that is not in WAL mode would stand in the way of its own writer.
    session.store.refresh()
    going = (one for one in plan.threads() if one.action != "keep")
    with open_writable(session.store_url) as writable:
        report = run_purge(
            session, writable, progress(going, total=planned, label="purging"), pace, kept
        )
        if vacuum and not report.stopped:
            writable.vacuum()
    return report


def _oldest(session: Session, older_than: str | None, *, expired: bool) -> Any:
    if expired:
        retention = session.retention
        if retention is None:
            raise UsageError(
                "--expired needs to know how long threads are kept",
                hint='write retention = "90d" in the profile of the store, or use --older-than',
            )
        older_than = older_than or retention
    return None if older_than is None else parse_time(older_than, session.now, session.zone)


def _seconds(text: str) -> float:
    return parse_duration(text).total_seconds()


def _check_policy(policy: Policy) -> None:
    if policy.is_empty:
        raise UsageError(
            "nothing says what is to be removed",
            hint="name threads by --older-than, --match, --where or --status, or keep some of"
            " their checkpoints with --keep-last, --keep-within or --keep-tips",
        )


def _check_alone(policy: Policy, plan_out: Path | None) -> None:
    if policy != Policy() or plan_out is not None:
        raise UsageError(
            "--plan carries out what was planned, and takes no other selection",
            hint="leave out the options that select; take out lines of the plan to spare threads",
        )


def _check_folder(archive: Path | None) -> None:
    if (
        archive is not None
        and archive.exists()
        and not (archive.is_dir() and os.access(archive, os.W_OK | os.X_OK))
    ):
        raise Refused(f"'{archive}' is not a folder that can be written", hint="name another one")
