"""`ckpt gc`: delete orphaned rows."""

from __future__ import annotations

from typing import Annotated

from typer import Context, Option

from ckpt_backends.errors import UsageError
from ckpt_cli.commands.arguments import SignKey
from ckpt_cli.commands.plan_out import PlanOut, removes
from ckpt_cli.commands.purge import ArchiveFolder, RemovalRun
from ckpt_cli.core.times import parse_duration
from ckpt_cli.diagnostics import progress
from ckpt_cli.options import DryRun, Yes, number
from ckpt_cli.plans.purge import Scope, plan_gc
from ckpt_cli.session import Session


@removes("gc")
def gc(
    ctx: Context,
    scope: Annotated[
        list[Scope] | None,
        Option(
            metavar="KIND",
            help=f"Kind of rows: {', '.join(Scope)}; repeatable. [default with --dry-run: all]",
        ),
    ] = None,
    grace: Annotated[
        str, Option(metavar="AGE", help="Keep rows that are younger than AGE.")
    ] = "1h",
    archive: ArchiveFolder = None,
    sign_key: SignKey = None,
    plan_out: PlanOut = None,
    batch: Annotated[int, number("Threads per transaction.")] = 100,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Delete rows that nothing refers to.

    Kinds: values that no checkpoint names (blobs), writes of checkpoints that do not exist
    (writes), and checkpoints of subgraph calls without their root checkpoint (calls).
    Savers may store a row before the one that refers to it, so rows younger than --grace are kept.

    ```
    ckpt -s agent.db gc --dry-run
    ckpt -s prod gc --scope blobs --scope writes --grace 1d --yes
    ```
    """
    session: Session = ctx.obj
    scopes = scope or ([Scope.ALL] if dry_run else [])
    if not scopes:
        raise UsageError(
            "no scope given",
            hint="look at all orphaned rows with --dry-run first; then add"
            f" --scope {', --scope '.join([*Scope][:-1])} or --scope {Scope.ALL}",
        )
    before = session.now - parse_duration(grace)
    run = RemovalRun(session, "gc", archive, sign_key, batch, plan_out=plan_out)
    found = plan_gc(session.store, scopes, before)
    run.carry_out(progress(found, total=None, label="looking for orphans"))
