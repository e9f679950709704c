"""`ckpt purge`: remove threads, or what is old inside them."""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from ckpt_backends.errors import UsageError
from ckpt_backends.model import Status
from ckpt_cli.changing.purging import Pace
from ckpt_cli.commands.purging import Terms, carry_out_plan, check_terms
from ckpt_cli.core.retention import Keep
from ckpt_cli.core.times import parse_duration, parse_time
from ckpt_cli.diagnostics import progress
from ckpt_cli.options import DryRun, Memory, Yes
from ckpt_cli.reading.plan_file import read_plan, write_plan
from ckpt_cli.reading.purge import Policy, plan_purge
from ckpt_cli.reading.threads import Selection, parse_status, parse_where
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
    memory: Memory = None,
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
    until = None if max_duration is None else time.monotonic() + _seconds(max_duration)
    terms = Terms(
        Pace(batch, sleep, until), archive, vacuum, dry_run or plan_out is not None, yes, memory
    )
    check_terms(session, terms)
    if plan is not None:
        _check_alone(policy, plan_out)
        found = read_plan(plan)
        found.check_store(session.store.describe())
        carry_out_plan(session, found, terms)
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
        carry_out_plan(session, found, terms)


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
