"""What `StoreHandle` answers about threads in trouble."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ckpt_backends.protocol import Store
from ckpt_cli.api.answer import Answer, AnswerList
from ckpt_cli.api.surroundings import Surroundings, When, time_of
from ckpt_cli.api.watch import Watcher, unwatched

if TYPE_CHECKING:
    from ckpt_cli.queries.error_groups import FailureGroup
    from ckpt_cli.queries.errors import Failure
    from ckpt_cli.queries.metrics import StoreMetrics
    from ckpt_cli.queries.store_tail import Movement


class IncidentAnswers:
    """The part of `StoreHandle` about threads in trouble."""

    _store: Store
    _around: Surroundings

    def errors(
        self,
        threads: str | Iterable[str] | None = None,
        *,
        match: str | None = None,
        where: str | Sequence[str] = (),
        since: When | None = None,
        history: bool = False,
        watch: Watcher = unwatched,
    ) -> Iterator[Answer[Failure]]:
        """Yield the failed tasks for whose retry threads wait, as `ckpt errors` prints them.

        With `history`, yields all whose error is stored, also those that were retried or handled.
        `threads` are ids, by default all; `match` is a pattern for ids, `where` a filter as in
        `threads`. `since` is an age such as `2h`, or a time. Raises `NotFound` or `UsageError`.
        """
        from ckpt_cli.api.failed_tasks import failed_tasks
        from ckpt_cli.api.listing import threads_with_head_writes
        from ckpt_cli.queries.errors import HEAD_CHANNELS

        store, around, channels = self._store, self._around, None if history else HEAD_CHANNELS
        chosen = threads_with_head_writes(store, around, channels, threads, match, where, watch)
        return failed_tasks(store, around, chosen, since, history=history)

    def errors_by(
        self,
        by: str,
        threads: str | Iterable[str] | None = None,
        *,
        match: str | None = None,
        where: str | Sequence[str] = (),
        since: When | None = None,
        history: bool = False,
        watch: Watcher = unwatched,
    ) -> AnswerList[list[FailureGroup]]:
        """Count the same by `error` or `node`, largest first, as `ckpt errors --by` prints them.

        Errors that differ in numbers and ids only are one kind. The other arguments are those of
        `errors`. Raises `NotFound` or `UsageError`.
        """
        from ckpt_cli.api.failed_tasks import counted_failures

        found = self.errors(
            threads, match=match, where=where, since=since, history=history, watch=watch
        )
        return counted_failures(found, by)

    def metrics(
        self,
        *,
        since: When | None = None,
        heads: bool = True,
        watch: Watcher = unwatched,
    ) -> Answer[StoreMetrics]:
        """Return numbers for a monitoring system, as `ckpt metrics -o json` prints them.

        `since` is an age such as `2h`, or a time: tasks that failed earlier are not counted.
        Without `heads`, threads are not counted by status, and no head is read for that.
        Raises `UsageError`.
        """
        from ckpt_cli.queries.metrics import measure
        from ckpt_cli.render.metrics import metrics_record

        store = self._store
        after = time_of(self._around, since)
        found = measure(store, watch(store.threads()), since=after, heads=heads)
        return Answer(found, metrics_record)

    def tail(
        self,
        lines: int = 5,
        *,
        match: str | None = None,
        where: str | Sequence[str] = (),
        all_ns: bool = False,
        interval: float | None = None,
        wait: Callable[[float], None] = time.sleep,
    ) -> Iterator[Answer[Movement]]:
        """Yield the last checkpoints of all threads, then what happens, without an end.

        The records are those of `ckpt tail` without THREAD. A thread is chosen as in `threads`,
        each time it moves. Looks every `interval` seconds, which `wait` waits. A lost connection is
        opened again.
        """
        from ckpt_cli.api.following import follow_store

        return follow_store(
            self._store, self._around, lines, match, where, interval, wait, all_ns=all_ns
        )
