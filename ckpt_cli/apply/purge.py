"""Apply a purge in batches, so that writers never wait long and stopping loses nothing."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ckpt_backends.archive import Header, bundle_name, write_bundle
from ckpt_backends.changes import RemovalBatch
from ckpt_backends.errors import CkptError
from ckpt_backends.protocol import Store, WritableStore
from ckpt_backends.url import StoreUrl
from ckpt_cli.apply.recording import Recording, check_removable, collected_signals, writable_store
from ckpt_cli.core.retention import PlannedRemoval, PurgeReport
from ckpt_cli.operations.log import OperationStep, RowsRemoved, RowsRestored

if TYPE_CHECKING:
    from ckpt_backends.archive import Bundle, SigningKey


Archive: TypeAlias = Callable[[Iterable[str]], Mapping[str, RowsRestored]]
"""Writes a bundle of each thread; returns how to restore it. Raises `StoreUnavailable`."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a purge runs."""

    batch: int | None = None
    """Maximum number of threads in one transaction; None for what is best for the store."""
    sleep: float = 0.0
    """Seconds to wait between transactions."""
    until: float | None = None
    """Start no transaction after this time (`time.monotonic`); None for no limit."""

    def why_stop(self) -> str:
        """Return why no further batch starts; empty if one may."""
        is_over = self.until is not None and time.monotonic() >= self.until
        return "--max-duration reached" if is_over else ""


def written_bundles(
    folder: Path,
    rows: Store,
    made_at: str,
    version: str,
    key: SigningKey | None,
    thread_ids: Iterable[str],
) -> Iterator[tuple[str, Bundle]]:
    """Write a bundle of each thread, and yield it. Raises `StoreUnavailable`.

    `rows` is the store without decryption or redaction, so that rows are written as stored,
    `version` that of `ckpt`; `key` signs the bundles.
    """
    # Late: most purges make no archive.
    from ckpt_cli.queries.stores import language_of

    info = rows.describe()
    for thread_id in thread_ids:
        language = language_of(rows, thread_id)
        words = "" if language is None else language.value
        header = Header(thread_id, info.layout, info.saver, info.url, made_at, words, version)
        path = folder / bundle_name(thread_id, made_at)
        yield thread_id, write_bundle(path, header, rows.rows(thread_id), key)


def archive_threads(
    write: Callable[[Iterable[str]], Iterator[tuple[str, Bundle]]],
    rows: Store,
    thread_ids: Iterable[str],
) -> Mapping[str, RowsRestored]:
    """Write a bundle of each thread; return how to restore it. Raises what `write` raises."""
    kept = {
        thread_id: RowsRestored(bundle.path.absolute(), bundle.digest)
        for thread_id, bundle in write(thread_ids)
    }
    # In a file that is not in WAL mode, an open read would block our own writer.
    rows.refresh()
    return kept


def run_purge(
    url: StoreUrl,
    threads: Iterable[PlannedRemoval],
    recording: Recording,
    readers: Iterable[Store] = (),
    pace: Pace | None = None,
    archive: Archive | None = None,
    *,
    vacuum: bool = False,
    catch_signals: bool = False,
) -> PurgeReport:
    """Remove the planned rows of each thread, and reclaim the disk space with `vacuum`.

    `readers` are the open readers of the store. With `catch_signals`, SIGINT, SIGTERM and SIGHUP
    stop the purge after the current batch. Raises what `open_writable` raises, `Refused` if rows
    are hidden from a reader, and the error of the first batch. Each batch is recorded before it is
    removed, and the end as soon as nothing more is.
    """
    readers = list(readers)
    for reader in readers:
        check_removable(reader)
    with writable_store(url, readers) as writable:
        with collected_signals() if catch_signals else nullcontext(list[int]()) as caught:
            report = _remove_all(
                writable,
                threads,
                pace or Pace(),
                archive,
                recording,
                lambda: f"received {signal.Signals(caught[0]).name}" if caught else "",
            )
        recording.finish(report.stopped)
        if report.stopped and caught:
            report.signal = caught[0]
        if vacuum and not report.stopped:
            try:
                writable.vacuum()
            except CkptError as error:
                # Reported after what was removed.
                report.vacuum = error
        report.not_erased = writable.finish_removal()
    return report


def _remove_all(
    writable: WritableStore,
    threads: Iterable[PlannedRemoval],
    pace: Pace,
    archive: Archive | None,
    recording: Recording,
    why_stop: Callable[[], str],
) -> PurgeReport:
    """Remove the planned rows of each thread; after a stop, only count the remaining threads.

    `why_stop` is called before each batch and returns `''` to continue. If the first batch fails,
    its error is raised; if a later batch fails, the purge stops there.
    """
    report = PurgeReport()
    most = writable.removal_batch
    if pace.batch is not None:
        most = most._replace(threads=pace.batch)
    for number, batch in enumerate(removal_batches(threads, most)):
        if not report.stopped:
            report.stopped = why_stop() or pace.why_stop()
        if report.stopped:
            report.left += len(batch)
            continue
        if number and pace.sleep:
            time.sleep(pace.sleep)
        try:
            _run_batch(writable, batch, archive, recording, report)
        except CkptError as error:
            if not report.done:
                raise
            recording.failed(error)
            report.stopped = error.message
            report.left += len(batch)
    return report


def _run_batch(
    writable: WritableStore,
    batch: Sequence[PlannedRemoval],
    archive: Archive | None,
    recording: Recording,
    report: PurgeReport,
) -> None:
    kept = {} if archive is None else archive(one.thread_id for one in batch)
    recording.intend(
        [OperationStep(one.thread_id, RowsRemoved(one), kept.get(one.thread_id)) for one in batch]
    )
    for one, what in zip(batch, writable.remove([one.removal for one in batch]), strict=True):
        report.done += 1
        if what.skipped:
            report.skipped[one.thread_id] = what.skipped
            continue
        report.sums.add(one)
        report.rows.update(what.rows)
    recording.not_done(one.thread_id for one in batch if one.thread_id in report.skipped)


def removal_batches(
    threads: Iterable[PlannedRemoval], most: RemovalBatch
) -> Iterator[list[PlannedRemoval]]:
    """Yield the threads of each transaction; a batch ends early if it has many rows."""
    batch: list[PlannedRemoval] = []
    rows = 0
    for one in threads:
        batch.append(one)
        rows += one.checkpoints + one.writes
        if len(batch) >= most.threads or rows >= most.rows:
            yield batch
            batch, rows = [], 0
    if batch:
        yield batch
