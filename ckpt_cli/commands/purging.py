"""Carrying out a purge: batch by batch, so that no writer waits long and a stop loses nothing."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from typer import Exit

from ckpt_backends.bundle import Header, bundle_name, make_folder, write_bundle
from ckpt_backends.errors import CkptError, PartlyDone, Unsupported, UsageError
from ckpt_backends.model import StoreInfo
from ckpt_backends.protocol import Store, WritableStore
from ckpt_backends.registry import open_writable
from ckpt_cli.commands.carrying_out import confirm
from ckpt_cli.core.purge import Doomed, Report
from ckpt_cli.diagnostics import progress
from ckpt_cli.reading.plan_file import PlanFile
from ckpt_cli.render.purge import (
    done,
    plan_lines,
    plan_rows,
    purge_columns,
    purge_record,
    removed_sizes,
    report_lines,
    sum_record,
)
from ckpt_cli.render.units import iso
from ckpt_cli.session import Session

_ROWS_AT_ONCE = 5000
"""A batch ends early with so many rows, however few threads they are of."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a purge goes."""

    batch: int = 100
    """Threads in one transaction."""
    sleep: float = 0.0
    """Seconds between two of them."""
    until: float | None = None
    """When it stops before the next one, by `time.monotonic`."""


@dataclass(frozen=True, slots=True)
class Terms:
    """How a plan is carried out."""

    pace: Pace = Pace()
    archive: Path | None = None
    """Where bundles go, before anything is removed."""
    vacuum: bool = False
    dry_run: bool = False
    yes: bool = False


@dataclass(frozen=True, slots=True)
class Archive:
    """A folder that gets a bundle of each thread before anything of it goes."""

    folder: Path
    info: StoreInfo
    made_at: str

    def keep(self, store: Store, thread_id: str) -> None:
        """Write a bundle of a thread. Raises `StoreUnavailable`."""
        info = self.info
        header = Header(thread_id, info.layout, info.saver, info.url, self.made_at)
        path = self.folder / bundle_name(thread_id, self.made_at)
        write_bundle(path, header, store.rows(thread_id))


def check_terms(session: Session, terms: Terms) -> None:
    """Raise `UsageError` or `StoreUnavailable` for what would only show when all is planned."""
    if session.settings.get("copy") and not terms.dry_run:
        raise UsageError("a private copy is not what is to be purged", hint="leave out --copy")
    if terms.archive is not None and not terms.dry_run:
        make_folder(terms.archive)


def carry_out_plan(
    session: Session, plan: PlanFile, terms: Terms, *, receipt: bool = False
) -> None:
    """Show a plan, ask, remove and report. Raises `PartlyDone` after a stop.

    With `receipt`, the record tells of each thread what was there before and is there now.
    """
    output = session.output
    if terms.dry_run:
        output.document(
            partial(purge_record, plan, Report(), terms.archive, dry_run=True),
            lambda: plan_lines(plan, output.width),
            rows=lambda: plan_rows(plan.threads()),
            columns=purge_columns(),
        )
        session.note("a dry run: nothing was removed")
        return
    report = Report()
    if plan.going:
        if not terms.yes:
            _show_and_ask(session, plan)
        report = _remove(session, plan, terms)
    else:
        session.note("nothing to remove")

    def record() -> dict[str, Any]:
        found = purge_record(plan, report, terms.archive, dry_run=False)
        if receipt:
            session.store.refresh()
            found["before"] = sum_record(removed_sizes(plan, report))
            found["after"] = sum_record(
                session.store.size(one.thread_id) for one in done(plan, report)
            )
        return found

    output.document(
        record,
        lambda: report_lines(plan, report, output.width),
        rows=lambda: plan_rows(done(plan, report)),
        columns=purge_columns(),
    )
    if report.signal == signal.SIGINT:
        raise Exit(130)
    if report.stopped:
        raise PartlyDone(
            f"{report.stopped}: {report.left} threads are left", hint="run the same command again"
        )


def _show_and_ask(session: Session, plan: PlanFile) -> None:
    output = session.output
    if not output.machine:
        lines = partial(plan_lines, plan, output.width)
        output.document(dict, lines, rows=tuple, columns=())
    confirm(f"Remove this of {plan.going} thread{'s' * (plan.going != 1)}?")


def _remove(session: Session, plan: PlanFile, terms: Terms) -> Report:
    kept = None
    if terms.archive is not None:
        kept = Archive(terms.archive, session.store.describe(), iso(session.now))
    # A reader of a file that is not in WAL mode would stand in the way of its own writer.
    session.store.refresh()
    with open_writable(session.store_url) as writable:
        seen = progress(plan.threads(), total=plan.going, label="purging")
        report = run_purge(session, writable, seen, terms.pace, kept)
        if terms.vacuum and not report.stopped:
            try:
                writable.vacuum()
            except Unsupported as error:
                # The threads are gone, which has to be reported.
                session.note(f"{error.message}: {error.hint}" if error.hint else error.message)
    return report


def run_purge(
    session: Session,
    writable: WritableStore,
    threads: Iterable[Doomed],
    pace: Pace,
    archive: Archive | None,
) -> Report:
    """Remove what is planned of each thread; after a stop, only count what is left."""
    report = Report()
    with _stop_at_signals() as caught:
        for number, batch in enumerate(_batches(threads, pace.batch)):
            if not report.stopped:
                report.stopped, report.signal = _why_stop(caught, pace)
            if report.stopped:
                report.left += len(batch)
                continue
            if number and pace.sleep:
                time.sleep(pace.sleep)
            try:
                _run_batch(session, writable, batch, archive, report)
            except CkptError as error:
                if not report.done:
                    raise
                report.stopped = error.message
                report.left += len(batch)
    return report


def _run_batch(
    session: Session,
    writable: WritableStore,
    batch: Sequence[Doomed],
    archive: Archive | None,
    report: Report,
) -> None:
    if archive is not None:
        for one in batch:
            archive.keep(session.rows, one.thread_id)
        # A reader of a file that is not in WAL mode would stand in the way of its own writer.
        session.rows.refresh()
    for one, what in zip(batch, writable.remove([one.removal for one in batch]), strict=True):
        report.done += 1
        if what.skipped:
            report.skipped[one.thread_id] = what.skipped
            continue
        report.threads += one.action == "remove"
        report.pruned += one.action == "prune"
        report.rows.update(what.rows)
        report.bytes += one.bytes


def _batches(threads: Iterable[Doomed], most: int) -> Iterator[list[Doomed]]:
    batch: list[Doomed] = []
    rows = 0
    for one in threads:
        batch.append(one)
        rows += one.checkpoints + one.writes
        if len(batch) >= most or rows >= _ROWS_AT_ONCE:
            yield batch
            batch, rows = [], 0
    if batch:
        yield batch


def _why_stop(caught: list[int], pace: Pace) -> tuple[str, int | None]:
    if caught:
        return f"stopped by {signal.Signals(caught[0]).name}", caught[0]
    if pace.until is not None and time.monotonic() >= pace.until:
        return "--max-duration is over", None
    return "", None


@contextmanager
def _stop_at_signals() -> Iterator[list[int]]:
    """Signals that come meanwhile are kept, so that the batch in hand is finished."""
    caught: list[int] = []
    keep: Callable[..., None] = lambda number, frame: caught.append(number)  # noqa: E731, ARG005
    before = {one: signal.signal(one, keep) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield caught
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
