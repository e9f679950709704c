"""Measure a store for monitoring: counts, ages and sizes, without any id or value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from time import monotonic

from ckpt_backends.model import Status, Thread
from ckpt_backends.protocol import Store
from ckpt_cli.core.support_matrix import limit
from ckpt_cli.queries.errors import failures_of_threads
from ckpt_cli.queries.head_details import heads_of, status_of_head
from ckpt_cli.queries.interrupts import of_threads
from ckpt_cli.threads.heads import some_at_once
from ckpt_cli.threads.trigger_inference import TriggerInference


@dataclass(slots=True)
class StoreMetrics:
    """The numbers of one store; None for what was not read or is not stored."""

    url: str
    """The store without a password."""
    layout: str
    bytes: int | None
    """What the store uses on disk, as its engine reports it."""
    threads: int = 0
    checkpoints: int = 0
    newest_at: datetime | None = None
    """Time of the newest checkpoint."""
    statuses: Counter[Status] | None = None
    """Threads by status."""
    questions: int | None = None
    """Questions that wait for an answer."""
    oldest_question_at: datetime | None = None
    failed: int | None = None
    """Failed tasks that wait for a retry."""
    seconds: float = 0.0
    """How long the measuring took."""


def measure(
    store: Store, threads: Iterable[Thread], *, since: datetime | None = None, heads: bool = True
) -> StoreMetrics:
    """Return the numbers of a store with these threads; some hundred are in memory at a time.

    The head of every thread is read for its status, unless `heads` is false. Questions and failed
    tasks are read only of threads that have one at their head. `since` leaves out tasks that
    failed earlier.
    """
    started = monotonic()
    info = store.describe()
    found = StoreMetrics(info.url, info.layout, info.size)
    has_tasks = limit("errors", info.capabilities) is None
    if heads:
        found.statuses = Counter()
    if has_tasks:
        found.questions = found.failed = 0
    inference = TriggerInference(store)
    for some in some_at_once(threads):
        _add_index(found, some)
        if found.statuses is not None:
            read = heads_of(store, some, inference)
            found.statuses.update(status_of_head(one, read.get(one.thread_id)) for one in some)
        if has_tasks:
            _add_tasks(found, store, some, since)
    found.seconds = monotonic() - started
    return found


def _add_index(found: StoreMetrics, threads: list[Thread]) -> None:
    found.threads += len(threads)
    found.checkpoints += sum(one.checkpoints for one in threads)
    times = [one.last_at for one in threads if one.last_at is not None]
    found.newest_at = max([*times, *filter(None, [found.newest_at])], default=None)


def _add_tasks(
    found: StoreMetrics, store: Store, threads: list[Thread], since: datetime | None
) -> None:
    asked = list(of_threads(store, threads))
    times = [one.since for one in asked if one.since is not None]
    found.questions = (found.questions or 0) + len(asked)
    found.oldest_question_at = min(
        [*times, *filter(None, [found.oldest_question_at])], default=None
    )
    failed = sum(1 for _ in failures_of_threads(store, threads, since=since))
    found.failed = (found.failed or 0) + failed
