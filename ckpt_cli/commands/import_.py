"""`ckpt import`: put archived threads back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from ckpt_backends.bundle import Header, check_bundle, read_rows
from ckpt_backends.errors import CkptError, PartlyDone, Refused, UsageError
from ckpt_backends.model import StoreInfo
from ckpt_backends.registry import open_writable
from ckpt_cli.commands.carrying_out import confirm
from ckpt_cli.diagnostics import progress
from ckpt_cli.options import DryRun, Yes
from ckpt_cli.render.table import Column
from ckpt_cli.session import Session


def import_(
    ctx: typer.Context,
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Bundles.")],
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Put archived threads back, row for row.

    Each bundle is checked whole before anything is written, and goes back in one transaction.
    Rows that are there already stay; where one is there with other contents, nothing of its
    thread is restored. So a run that was cut short can simply be run again.

    \b
      ckpt -s agent.db import backups/user-42-*.ckpt.gz --dry-run
      ckpt -s agent.db import backups/*.ckpt.gz --yes
    """
    session: Session = ctx.obj
    if session.settings.get("copy") and not dry_run:
        raise UsageError("a private copy is not what is to be changed", hint="leave out --copy")
    info = session.store.describe()
    checked = [
        (path, *_checked(path, info))
        for path in progress(files, total=len(files), label="checking")
    ]
    columns = [
        Column(name.upper(), name) for name in ("thread_id", "rows", "added", "there", "file")
    ]
    if dry_run:
        session.output.records(
            (_record(path, header, rows) for path, header, rows in checked), columns
        )
        session.note("a dry run: nothing was written")
        return
    if not yes:
        confirm(f"Put {len(checked)} thread{'s' * (len(checked) != 1)} back into '{info.url}'?")
    # A reader of a file that is not in WAL mode would stand in the way of its own writer.
    session.store.refresh()
    failed: list[CkptError] = []
    expired = 0

    def restored() -> Iterator[dict[str, Any]]:
        nonlocal expired
        with open_writable(session.store_url) as writable:
            for path, header, rows in progress(checked, total=len(checked), label="restoring"):
                try:
                    done = writable.restore(read_rows(path))
                except CkptError as error:
                    error.message = f"'{path}': {error.message}"
                    failed.append(error)
                    continue
                expired += done.expired
                yield {
                    **_record(path, header, rows),
                    "added": done.added,
                    "there": done.there,
                    **({"expired": done.expired} if done.expired else {}),
                }

    # All is written before anything is printed, so that nothing depends on who reads the answer.
    done = list(restored())
    session.output.records(done, columns)
    if failed and len(failed) == len(checked):
        raise failed[0]
    if failed:
        raise PartlyDone(
            f"{len(failed)} of {len(checked)} bundles were not restored: {failed[0].message}",
            hint=failed[0].hint,
        )
    if expired:
        raise PartlyDone(
            f"{expired} rows were left out, since their time to live has ended",
            hint="bundles still hold them; a store cannot keep what has expired",
        )


def _checked(path: Path, info: StoreInfo) -> tuple[Header, int]:
    """The header of a bundle that is whole and fits the store, and how many rows it has."""
    header, counts = check_bundle(path)
    if header.thread_id is None:
        raise Refused(
            f"'{path}' holds items of long-term memory",
            hint="`ckpt memory import` puts them back",
        )
    if header.layout != info.layout:
        raise Refused(
            f"'{path}' has rows of the layout '{header.layout}'",
            hint=f"'{info.url}' is '{info.layout}'; a bundle goes back into its own layout",
        )
    return header, sum(counts.values())


def _record(path: Path, header: Header, rows: int) -> dict[str, Any]:
    return {"thread_id": header.thread_id, "rows": rows, "file": str(path)}
