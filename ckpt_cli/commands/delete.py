"""`ckpt threads delete`: remove threads by their names."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from ckpt_backends.errors import NotFound, UsageError
from ckpt_cli.commands.purging import Terms, carry_out_plan, check_terms
from ckpt_cli.options import DryRun, Memory, Yes
from ckpt_cli.reading.plan_file import write_plan
from ckpt_cli.reading.purge import plan_named
from ckpt_cli.reading.threads import Selection, list_threads
from ckpt_cli.session import Session


def delete(
    ctx: typer.Context,
    threads: Annotated[
        list[str] | None, typer.Argument(metavar="[THREAD]...", help="Thread ids.")
    ] = None,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="FILE", help="Also the ids in a file, one a line; - is stdin."
        ),
    ] = None,
    match: Annotated[
        str | None, typer.Option(metavar="GLOB", help="Also those whose whole id fits.")
    ] = None,
    archive: Annotated[
        Path | None, typer.Option(metavar="DIR", help="First write a bundle of each thread there.")
    ] = None,
    memory: Memory = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Remove threads by their names, whatever they wait for.

    Every row of them goes, in all namespaces, also what waits for an answer. With -o json the
    answer is a receipt: what was there before, what went, and what is there now.

    \b
      ckpt -s agent.db threads delete user-42 user-43 --dry-run
      ckpt -s agent.db threads delete user-42 --archive backups --yes -o json
      ckpt -s agent.db threads list --all -o tsv --match 'test-*' | tail -n +2 | cut -f1 \\
        | ckpt -s agent.db threads delete --from - --yes
    """
    session: Session = ctx.obj
    terms = Terms(archive=archive, dry_run=dry_run, yes=yes, memory=memory)
    check_terms(session, terms)
    names = [*(threads or ()), *(_names(from_) if from_ is not None else ())]
    if match is not None:
        rows = list_threads(session.store, Selection(match=match))
        names += [row.thread.thread_id for row in rows]
    elif not names and from_ is None:
        raise UsageError(
            "no thread is named", hint="name threads, or give them with --from FILE or --match GLOB"
        )
    found = list(plan_named(session.store, dict.fromkeys(names)))
    if names and not any(one.action == "remove" for one in found):
        raise NotFound(
            f"no thread '{names[0]}' in this store",
            hint="`ckpt threads list --all` lists them; add --match 'PART*' to search",
        )
    with TemporaryDirectory(prefix="ckpt-") as folder:
        path = Path(folder) / "plan.ndjson"
        plan = write_plan(path, session.store.describe(), session.now, found)
        carry_out_plan(session, plan, terms, receipt=True)


def _names(place: str) -> list[str]:
    """The lines of a file or of stdin, without empty ones. Raises `UsageError`."""
    try:
        text = sys.stdin.buffer.read() if place == "-" else Path(place).read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"cannot read '{place}': {reason}") from error
    lines = text.decode("utf-8", "surrogateescape").split("\n")
    return [line for line in lines if line]
