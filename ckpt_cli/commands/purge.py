"""`ckpt purge`: remove old threads, or prune old checkpoints inside them."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from ckpt_backends.errors import UsageError
from ckpt_backends.files.temporary_folder import TemporaryFolder
from ckpt_backends.model import Status
from ckpt_cli.api.filters import explained_if_none, filter_of
from ckpt_cli.apply.purge import Pace
from ckpt_cli.commands.apply_removal import RemovalTerms, check_terms, show_and_remove
from ckpt_cli.commands.plan_out import PlanOut, removes, saved_removal
from ckpt_cli.commands.signatures import SignKey, signing_key
from ckpt_cli.core.retention.policy import RetentionRules
from ckpt_cli.core.times import parse_duration
from ckpt_cli.diagnostics import progress
from ckpt_cli.options import (
    DryRun,
    Match,
    Memory,
    Summary,
    Where,
    Yes,
    command_options,
    not_huge,
    takes,
)
from ckpt_cli.plans.plan_file import read_plan
from ckpt_cli.plans.purge import Policy, plan_purge
from ckpt_cli.plans.saved_plan import check_place
from ckpt_cli.queries.threads import Selection, parse_status
from ckpt_cli.session import Session

_STATUSES = ", ".join(Status)


@command_options
class PurgeOptions:
    """The options of `ckpt purge`."""

    older_than: Annotated[
        str | None, Option(metavar="AGE", help="Only threads idle for AGE, such as 30d.")
    ] = None
    expired: Annotated[
        bool, Option("--expired", help="Only threads past the profile's retention.")
    ] = False
    match: Match = None
    where: Where = None
    status: Annotated[
        list[str] | None,
        Option(metavar="STATUS", help=f"Only threads with this status: {_STATUSES}; repeatable."),
    ] = None
    keep_last: Annotated[
        int | None, Option(metavar="N", help="Prune: keep the newest N.", min=1, callback=not_huge)
    ] = None
    keep_within: Annotated[
        str | None, Option(metavar="AGE", help="Prune: keep what is younger than AGE.")
    ] = None
    keep_tips: Annotated[
        bool, Option("--keep-tips", help="Prune: keep the tip of each branch.")
    ] = False
    protect: Annotated[
        list[str] | None, Option(metavar="GLOB", help="Never touch these threads; repeatable.")
    ] = None
    include_interrupted: Annotated[
        bool, Option("--include-interrupted", help="Remove interrupted threads too.")
    ] = False
    include_pending: Annotated[
        bool,
        Option("--include-pending", help="Remove threads with a pending or unknown status too."),
    ] = False
    include_error: Annotated[
        bool, Option("--include-error", help="Remove threads with status error too.")
    ] = False
    archive: Annotated[
        Path | None, Option(metavar="DIR", help="Archive each thread in DIR before removing it.")
    ] = None
    sign_key: SignKey = None
    plan_out: PlanOut = None
    plan: Annotated[Path | None, Option(metavar="FILE", help="Carry out the plan in FILE.")] = None
    max_duration: Annotated[
        str | None, Option(metavar="TIME", help="Start no batch after TIME, such as 30m.")
    ] = None
    batch: Annotated[
        int | None,
        Option(
            metavar="N",
            help="Threads per transaction (default: 200; more if keys are scanned).",
            min=1,
            callback=not_huge,
        ),
    ] = None
    sleep: Annotated[
        float, Option(metavar="SECONDS", help="Pause between transactions.", min=0)
    ] = 0.0
    vacuum: Annotated[bool, Option("--vacuum", help="Reclaim disk space afterwards (VACUUM).")] = (
        False
    )
    memory: Memory = None
    summary: Summary = False
    dry_run: DryRun = False
    yes: Yes = False

    def policy(self, session: Session) -> Policy:
        """Return what is to be removed. Raises `UsageError`."""
        within = parse_duration(self.keep_within) if self.keep_within else None
        return Policy(
            Selection(
                match=self.match,
                status=frozenset(map(parse_status, self.status or ())),
                where=filter_of(session, self.where, acts=True),
            ),
            _oldest(session, self.older_than, expired=self.expired),
            tuple(self.protect or ()),
            RetentionRules(self.keep_last, within, self.keep_tips),
            include_interrupted=self.include_interrupted,
            include_pending=self.include_pending,
            include_error=self.include_error,
        )

    @property
    def of_removal(self) -> dict[str, Any]:
        """The options by which a saved plan is carried out."""
        names = ("archive", "sign_key", "batch", "sleep", "max_duration", "vacuum")
        return {name: getattr(self, name) for name in names}

    def terms(self) -> RemovalTerms:
        """Return how the plan is carried out. Raises `UsageError`."""
        until = None
        if self.max_duration is not None:
            until = time.monotonic() + parse_duration(self.max_duration).total_seconds()
        return RemovalTerms(
            Pace(self.batch, self.sleep, until),
            self.archive,
            self.vacuum,
            self.dry_run or self.plan_out is not None,
            self.yes,
            self.memory,
            signing_key(self.sign_key, self.archive),
            self.plan_out,
            self.summary,
        )


@removes("purge")
@takes(PurgeOptions)
def purge(session: Session, options: PurgeOptions) -> None:
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
    ckpt -s prod purge --plan plan.ndjson --archive /var/backups/ckpt --yes
    ```

    In a crontab, every night, for at most half an hour:
    ```
    17 3 * * *  ckpt -s prod purge --older-than 90d --max-duration 30m --yes -q
    ```
    """
    policy, terms = options.policy(session), options.terms()
    check_terms(session, terms)
    if options.plan is not None:
        _check_alone(policy, options.plan_out)
    else:
        _check_policy(policy)
    with TemporaryFolder() as folder:
        if options.plan is not None:
            found = read_plan(options.plan, folder)
            check_place(options.plan, found.saved.header.store, session.names.store_url)
            found.saved.header.check_layout(options.plan, session.store.describe().layout)
        else:
            watch = partial(progress, total=None, label="planning")
            planned = explained_if_none(
                session,
                options.where,
                plan_purge(session.store, policy, session.now, watch),
            )
            found = saved_removal(
                session, "purge", options.plan_out, folder, planned, options.of_removal
            )
        show_and_remove(session, found, terms, "purge")


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


def _check_alone(policy: Policy, plan_out: Path | None) -> None:
    if policy != Policy() or plan_out is not None:
        raise UsageError(
            "cannot combine --plan with options that select threads",
            hint="to keep a thread, delete its line from the plan",
        )
