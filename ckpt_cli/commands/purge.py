"""`ckpt purge`: remove old threads, or prune old checkpoints inside them."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from typer import Context, Option

from ckpt_backends.errors import UsageError
from ckpt_backends.files.temporary_folder import TemporaryFolder
from ckpt_cli.api.answer import explained_if_none, filter_of
from ckpt_cli.apply.purge import Pace
from ckpt_cli.commands.arguments import SignKey, signing_key
from ckpt_cli.commands.changing import (
    ArchiveFolder,
    RemovalTerms,
    check_terms,
    end_of,
    show_and_remove,
)
from ckpt_cli.commands.plan_out import PlanOut, removes, saved_removal
from ckpt_cli.core.retention import RetentionRules
from ckpt_cli.core.times import parse_duration
from ckpt_cli.diagnostics import progress
from ckpt_cli.options import DryRun, Match, Memory, Statuses, Summary, Where, Yes, not_huge
from ckpt_cli.plans.purge import Policy, plan_purge
from ckpt_cli.queries.threads import Selection
from ckpt_cli.session import Session


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
    keep_last: Annotated[
        int | None, Option(metavar="N", help="Prune: keep the newest N.", min=1, callback=not_huge)
    ] = None,
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
        int | None,
        Option(
            metavar="N",
            help="Threads per transaction (default: 200; more if keys are scanned).",
            min=1,
            callback=not_huge,
        ),
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
    policy = Policy(
        Selection(
            match=match, status=frozenset(status or ()), where=filter_of(session, where, acts=True)
        ),
        _oldest(session, older_than, expired=expired),
        tuple(protect or ()),
        RetentionRules(keep_last, within, keep_tips),
        include_interrupted=include_interrupted,
        include_pending=include_pending,
        include_error=include_error,
    )
    _check_policy(policy)
    is_shown = dry_run or plan_out is not None
    pace, key = Pace(batch, sleep, end_of(max_duration)), signing_key(sign_key, archive)
    terms = RemovalTerms(pace, archive, vacuum, is_shown, yes, memory, key, plan_out, summary)
    check_terms(session, terms)
    watch = partial(progress, total=None, label="planning")
    planned = plan_purge(session.store, policy, session.now, watch)
    of_removal: dict[str, Any] = {
        "archive": archive,
        "sign_key": sign_key,
        "batch": batch,
        "sleep": sleep,
    }
    of_removal |= {"max_duration": max_duration, "vacuum": vacuum}
    with TemporaryFolder() as folder:
        found = explained_if_none(session, where, planned)
        plan = saved_removal(session, "purge", plan_out, folder, found, of_removal)
        show_and_remove(session, plan, terms, "purge")


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


def _check_policy(policy: Policy) -> None:
    if policy.is_empty:
        raise UsageError(
            "nothing selected",
            hint="select threads with --older-than, --expired, --match, --where or --status,"
            " or prune with --keep-last, --keep-within or --keep-tips",
        )
