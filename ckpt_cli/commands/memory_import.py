"""`ckpt memory import`: restore archived items."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

from ckpt_backends.bundle import check_bundle, read_rows
from ckpt_backends.errors import CkptError, PartlyDone, Refused, UsageError
from ckpt_backends.memory import MemoryInfo
from ckpt_backends.registry import open_writable_memory
from ckpt_cli.commands.carrying_out import confirm
from ckpt_cli.commands.memory import opened_memory
from ckpt_cli.commands.memory_delete import Write, check_allowed
from ckpt_cli.options import DryRun, Yes
from ckpt_cli.render.table import Column
from ckpt_cli.render.value import counted
from ckpt_cli.session import Session


def import_(
    ctx: typer.Context,
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Archives of memory delete --archive.")
    ],
    dry_run: DryRun = False,
    yes: Yes = False,
    write: Write = False,
) -> None:
    """Restore archived items.

    Verifies each archive first, then restores it row for row in one transaction. Skips rows that
    exist. If one exists with other contents, nothing of its archive is restored.

    \b
      ckpt -s memory.db memory import backups/memory-*.ckpt.gz --dry-run
    """
    session: Session = ctx.obj
    if session.settings.get("copy") and not dry_run:
        raise UsageError(
            "cannot import: a private copy (--copy) is read-only", hint="leave out --copy"
        )
    with opened_memory(session) as memory:
        info = memory.describe()
    found: list[dict[str, Any]] = [
        {"file": str(path), "rows": _checked(path, info)} for path in files
    ]
    if dry_run:
        session.output.records(found, _columns("file", "rows"))
        session.note("dry run: nothing was written")
        return
    check_allowed(info, write=write)
    if not yes:
        rows = counted(sum(one["rows"] for one in found), "row")
        confirm(f"Restore {counted(len(files), 'archive')} ({rows}) into '{info.url}'?")
    restored, expired = [], 0
    failed: list[CkptError] = []
    with open_writable_memory(session.store_url) as writable:
        for path, record in zip(files, found, strict=True):
            try:
                done = writable.restore(read_rows(path))
            except CkptError as error:
                error.message = f"cannot restore '{path}': {error.message}"
                failed.append(error)
                continue
            expired += done.expired
            restored.append({**record, "added": done.added, "there": done.there})
    session.output.records(restored, _columns("file", "rows", "added", "there"))
    if failed and not restored:
        raise failed[0]
    if failed:
        raise PartlyDone(
            f"{len(failed)} of {len(files)} archives were not restored: {failed[0].message}",
            hint=failed[0].hint,
        )
    if expired:
        raise PartlyDone(
            f"{counted(expired, 'row')} left out: their time to live has ended",
            hint="the archives still hold them",
        )


def _columns(*names: str) -> Sequence[Column]:
    return [Column(one.upper(), one, right=one != "file") for one in names]


def _checked(path: Path, info: MemoryInfo) -> int:
    """The number of rows of a valid archive of this layout."""
    if os.path.isdir(path):
        raise UsageError(
            f"cannot restore '{path}': it is a folder",
            hint=f"name its archives: {quote(str(path))}/memory-*.ckpt.gz",
        )
    header, counts = check_bundle(path)
    if header.thread_id is not None:
        raise Refused(
            f"cannot restore '{path}': it holds a thread, not memory items",
            hint=f"ckpt import {quote(str(path))}",
        )
    if header.layout != info.layout:
        raise Refused(
            f"cannot restore '{path}': its layout is '{header.layout}', not '{info.layout}'",
            hint="name a store of the archive's layout with -s",
        )
    return sum(counts.values())
