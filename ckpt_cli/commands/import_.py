"""`ckpt import`: restore archived threads."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Annotated

from typer import Argument, Context, Option

from ckpt_backends import shell
from ckpt_backends.archive import Bundle, bundles_in, read_header
from ckpt_backends.errors import NotFound
from ckpt_backends.transfer.form import Language
from ckpt_cli.apply.copy import RestoreReport, make_target, opened_target, restore_threads
from ckpt_cli.apply.recording import Recorder, refuse_copy
from ckpt_cli.commands.arguments import AllowPickle, Trust, TrustedKeys
from ckpt_cli.commands.changing import confirm
from ckpt_cli.commands.plan_out import PlanOut, plannable
from ckpt_cli.diagnostics import progress
from ckpt_cli.options import DryRun, Yes
from ckpt_cli.plans.copy import ArchiveImport
from ckpt_cli.plans.saved_plan import PlanReview
from ckpt_cli.render.copy import RESTORED, RESTORED_COLUMNS, RestoredThread
from ckpt_cli.render.values import counted
from ckpt_cli.session import Session


@plannable("import", again=("to", "trusted_key", "allow_pickle"))
def import_(
    ctx: Context,
    files: Annotated[list[Path], Argument(metavar="FILE", help="Bundles, or folders of bundles.")],
    to: Annotated[
        str | None,
        Option(metavar="STORE", help="Restore into this file, URL or profile, not that of -s."),
    ] = None,
    create: Annotated[bool, Option("--create", help="Make the store if nothing is there.")] = False,
    trusted_key: TrustedKeys = None,
    allow_pickle: AllowPickle = False,
    plan_out: PlanOut = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Restore archived threads, into a store of any layout.

    Checks every bundle before anything is written, and restores each in one transaction. Rows
    that exist already are left alone. If one exists with different contents, nothing of that
    bundle is restored. An interrupted import can be run again.

    A bundle of the store's own layout is restored row for row. A bundle of another layout is
    converted as by `ckpt copy`, and refused where `copy` would skip the thread.

    A pickle runs code in the agent that loads it. Archives that hold one are refused unless
    --allow-pickle is given. A note says who signed an archive; anyone can make a key, so this
    proves something only with --trusted-key.

    --dry-run compares with the store and ends as the import would: exit code 6 if every bundle
    conflicts, 7 if some do.

    ```
    ckpt -s agent.db import backups --dry-run
    ckpt -s agent.db import backups/user-42-*.ckpt.gz --yes
    ckpt import backups --to postgresql://db/agents --create
    ckpt -s agent.db import backups --trusted-key backup-key.pub --yes
    ```
    """
    session: Session = ctx.obj
    names = session.names
    url = names.store_url if to is None else names.url_of(to)
    if not dry_run:
        refuse_copy(url)
    with ExitStack() as stack:
        if to is None and not create:
            archives = ArchiveImport(url, session.store, session.rows)
        else:
            opened = opened_target(url, create=create)
            found = opened if opened is None else stack.enter_context(opened)
            archives = ArchiveImport(url, found, found)
        paths = list(_paths(session, files))
        trust = Trust.of(trusted_key, allow_pickle=allow_pickle)
        seen = progress(paths, total=len(paths), label="checking")
        bundles = [trust.checked(one, partial(archives.fitting, one)) for one in seen]
        trust.report(session, bundles)
        if session.review is not None:
            _review(session.review, archives, bundles)
        if dry_run:
            report = RestoreReport()
            for one in progress(bundles, total=len(bundles), label="comparing"):
                report.add(one, partial(archives.compared, [before for before, _ in report.done]))
        else:
            report = _restored(archives, bundles, stack, session.recorder_of(url), yes=yes)
    # Everything is written before anything is printed, so that a closed pipe stops nothing.
    done = (RESTORED.record(RestoredThread(*one)) for one in report.done)
    session.output.records(done, RESTORED_COLUMNS)
    if dry_run:
        session.note_dry_run()
    report.raise_failures("bundles", "would not be" if dry_run else "were not")


def _review(review: PlanReview, target: ArchiveImport, bundles: Iterable[Bundle]) -> None:
    """Save bundles and what the store has of their threads, or compare them with a saved plan."""
    review.see({"target": target.layout})
    for one in bundles:
        review.see({"file": os.path.abspath(one.path), "sha256": one.digest})
        review.see_thread(one.header.thread_id or "", target=target.rows)


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


def _restored(
    archives: ArchiveImport,
    bundles: Sequence[Bundle],
    stack: ExitStack,
    recorder: Recorder,
    *,
    yes: bool,
) -> RestoreReport:
    """Ask unless `yes`, and restore the bundles into the store, which is made if it is missing."""
    if not yes:
        rows = counted(sum(one.size for one in bundles), "row")
        made = "Make the store, and restore" if archives.rows is None else "Restore"
        confirm(f"{made} {counted(len(bundles), 'thread')} ({rows}) into '{archives.url}'?")
    if archives.rows is None:
        languages = [archives.language_of(one) for one in bundles]
        made_store = make_target(archives.url, languages[0] if languages else Language.PYTHON)
        archives.store = archives.rows = stack.enter_context(made_store)
    elif archives.store is not None:
        archives.store.refresh()
    seen = progress(bundles, total=len(bundles), label="restoring")
    with recorder.operation("import") as recording:
        return restore_threads(archives.url, seen, archives.rows, archives.sides_of, recording)
