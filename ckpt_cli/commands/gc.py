"""`ckpt gc`: remove what belongs to nothing."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, cast

import typer

from ckpt_backends.errors import UsageError
from ckpt_cli.changing.purging import Pace
from ckpt_cli.commands.purging import Terms, carry_out_plan, check_terms
from ckpt_cli.core.times import parse_duration
from ckpt_cli.diagnostics import progress
from ckpt_cli.options import DryRun, Yes
from ckpt_cli.reading.gc import SCOPES, Scope, plan_gc
from ckpt_cli.reading.plan_file import write_plan
from ckpt_cli.session import Session


def gc(
    ctx: typer.Context,
    scope: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND", help=f"{', '.join(SCOPES)} or all; may be repeated."),
    ] = None,
    grace: Annotated[str, typer.Option(metavar="TIME", help="Leave alone what is younger.")] = "1h",
    archive: Annotated[
        Path | None, typer.Option(metavar="DIR", help="First write a bundle of each thread there.")
    ] = None,
    batch: Annotated[
        int, typer.Option(metavar="N", min=1, help="Threads in one transaction.")
    ] = 100,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Remove what belongs to nothing.

    Values that no checkpoint names (blobs), writes whose checkpoint is not there (writes), and
    subgraphs' checkpoints whose caller is not there (calls). --scope says which of them are meant.
    Savers store rows before those that need them, so what is younger than --grace is left alone.

    \b
      ckpt -s agent.db gc --scope all --dry-run
      ckpt -s prod gc --scope blobs --scope writes --grace 1d --yes
    """
    session: Session = ctx.obj
    chosen = set(scope or ())
    if not chosen or not chosen <= {*SCOPES, "all"}:
        wrong = ", ".join(sorted(chosen - {*SCOPES, "all"}))
        raise UsageError(
            f"no scope '{wrong}'" if wrong else "nothing says what is to be looked for",
            hint=f"add --scope {', --scope '.join(SCOPES)} or --scope all",
        )
    scopes = SCOPES if "all" in chosen else [cast("Scope", one) for one in chosen]
    before = session.now - parse_duration(grace)
    terms = Terms(Pace(batch), archive, dry_run=dry_run, yes=yes)
    check_terms(session, terms)
    with TemporaryDirectory(prefix="ckpt-") as folder:
        found = plan_gc(session.store, scopes, before)
        seen = progress(found, total=None, label="looking for orphans")
        path = Path(folder) / "plan.ndjson"
        plan = write_plan(path, session.store.describe(), session.now, seen)
        carry_out_plan(session, plan, terms)
