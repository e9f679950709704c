"""`ckpt import`: restore archived threads."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

from ckpt_backends import shell
from ckpt_backends.changes.bundle import Bundle, Header, bundles_in, read_header
from ckpt_backends.changes.rows import Restored, Row, compare
from ckpt_backends.errors import NotFound, PartlyDone, Refused, Unsupported
from ckpt_backends.model import StoreInfo
from ckpt_cli.apply.restore import RestoreReport, restore_threads
from ckpt_cli.apply.writable import refuse_copy
from ckpt_cli.commands.apply_plan import confirm
from ckpt_cli.commands.signatures import AllowPickle, Trust, TrustedKeys, signed_by
from ckpt_cli.diagnostics import progress
from ckpt_cli.options import DryRun, Yes, argument
from ckpt_cli.render.terminal.table import Column
from ckpt_cli.render.values.one_line import counted
from ckpt_cli.session import Session

_COLUMNS = (
    Column("THREAD", "thread_id", style="head"),
    Column("ROWS", "rows", right=True),
    Column("ADDED", "added", right=True),
    Column("ALREADY THERE", "there", right=True),
    Column("FILE", "file"),
)


def import_(
    session: Session,
    files: Annotated[list[Path], argument("FILE...", "Bundles, or folders of bundles.")],
    trusted_key: TrustedKeys = None,
    allow_pickle: AllowPickle = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Restore archived threads, row for row.

    Checks every bundle before anything is written, and restores each in one transaction. Rows
    that exist already are left alone. If one exists with different contents, nothing of that
    bundle is restored. An interrupted import can be run again.

    A pickle runs code in the agent that loads it. Archives that hold one are refused unless
    --allow-pickle is given. A note says who signed an archive; anyone can make a key, so this
    proves something only with --trusted-key.

    --dry-run compares with the store and ends as the import would: exit code 6 if every bundle
    conflicts, 7 if some do.

    \b
      ckpt -s agent.db import backups --dry-run
      ckpt -s agent.db import backups/user-42-*.ckpt.gz --yes
      ckpt -s agent.db import backups --trusted-key backup-key.pub --yes
    """
    if not dry_run:
        refuse_copy(session.names.store_url)
    info = session.store.describe()
    paths = list(_paths(session, files))
    trust = Trust.of(trusted_key, allow_pickle=allow_pickle)
    checked = partial(_checked, session, info, trust)
    bundles = list(map(checked, progress(paths, total=len(paths), label="checking")))
    trust.report(session, bundles)
    label = "comparing" if dry_run else "restoring"
    seen = progress(bundles, total=len(bundles), label=label)
    if dry_run:
        report = RestoreReport()
        for one in seen:
            report.add(one, partial(_compared, session, [before for before, _ in report.done]))
    else:
        if not yes:
            rows = counted(sum(one.size for one in bundles), "row")
            confirm(f"Restore {counted(len(bundles), 'thread')} ({rows}) into '{info.url}'?")
        report = restore_threads(session.names.store_url, seen, (session.store, session.rows))
    # Everything is written before anything is printed, so that a closed pipe stops nothing.
    session.output.records((_record(*one) for one in report.done), _COLUMNS)
    if dry_run:
        session.note("dry run: nothing was written")
    report.raise_failures("bundles", "would not be" if dry_run else "were not")
    if report.expired:
        raise PartlyDone(
            f"{counted(report.expired, 'row')} left out: their time to live has passed",
            hint="the bundles still hold them",
        )


def _paths(session: Session, files: Iterable[Path]) -> Iterator[Path]:
    """The files, and in the place of a folder the bundles of threads in it."""
    for path in files:
        if not os.path.isdir(path):
            yield path
            continue
        found = bundles_in(path)
        if not found:
            raise NotFound(
                f"cannot import '{path}': no bundles (*.ckpt.gz) in this folder",
                hint="write some: ckpt export THREAD --to DIR",
            )
        for one in found:
            if read_header(one).thread_id is None:
                skipped = shell.name(str(one))
                session.note(f"skipped {skipped}: long-term memory, see `ckpt memory import`")
            else:
                yield one


def _checked(session: Session, info: StoreInfo, trust: Trust, path: Path) -> Bundle:
    """A bundle that is complete, fits the store and is accepted."""
    return trust.checked(path, partial(_fitting, path, session, info))


def _fitting(
    path: Path, session: Session, info: StoreInfo, header: Header, rows: Iterator[Row]
) -> Iterator[Row]:
    """The rows of a bundle that fits the store, if all belong to its thread."""
    if header.thread_id is None:
        raise Refused(
            f"cannot import '{path}': it holds long-term memory",
            hint=shell.command("ckpt", "memory", "import", ids=[str(path)]),
        )
    if header.layout != info.layout:
        raise Refused(
            f"cannot import '{path}': its layout is '{header.layout}',"
            f" '{info.url}' has '{info.layout}'",
            hint="import it into a store of the same layout",
        )
    try:
        yield from session.store.own_rows(header.thread_id, rows)
    except (Refused, Unsupported) as error:
        error.message = f"cannot import '{path}': {error.message}"
        error.hint = error.hint or f"look at its rows: zcat {shell.word(str(path))} | less"
        raise


def _compared(session: Session, before: Sequence[Bundle], bundle: Bundle) -> Restored:
    """What an import would do after other bundles. Raises what it would raise."""
    store, thread_id = session.rows, bundle.header.thread_id
    same = [one.rows() for one in before if one.header.thread_id == thread_id]
    stored = chain(store.rows(thread_id or ""), *same)
    return compare(bundle.rows(), stored, store.row_key)


def _record(bundle: Bundle, done: Restored) -> dict[str, Any]:
    return {
        "thread_id": bundle.header.thread_id,
        "rows": bundle.size,
        "file": str(bundle.path),
        "signed_by": signed_by(bundle),
        "added": done.added,
        "there": done.there,
        **({"expired": done.expired} if done.expired else {}),
    }
