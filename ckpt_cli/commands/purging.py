"""Carrying out a purge: batch by batch, so that no writer waits long and a stop loses nothing."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

from ckpt_backends.bundle import SUFFIX, Header, write_bundle
from ckpt_backends.model import StoreInfo
from ckpt_backends.protocol import Store, WritableStore
from ckpt_cli.core.purge import Doomed, Report
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
            _run_batch(session, writable, batch, archive, report)
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


def bundle_name(thread_id: str, made_at: str) -> str:
    """A file name that tells the thread, and that no other thread has."""
    raw = thread_id.encode("utf-8", "surrogatepass")
    readable = quote(raw, safe="@+= ")[:80].lstrip(".")
    stamp = made_at.replace("-", "").replace(":", "")
    return f"{readable}-{sha256(raw).hexdigest()[:12]}-{stamp}{SUFFIX}"


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
