"""What `StoreHandle` answers about amounts: writes, time, tokens and space."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ckpt_backends.model import Thread
from ckpt_backends.protocol import Store
from ckpt_cli.api.answer import Answer, AnswerList
from ckpt_cli.api.surroundings import Surroundings, When, time_of
from ckpt_cli.api.texts import texts
from ckpt_cli.api.watch import Watcher, unwatched, watchers

if TYPE_CHECKING:
    from ckpt_cli.core.usage.sums import UsageSums
    from ckpt_cli.core.write_counts import WriteCounts
    from ckpt_cli.queries.disk_usage import By, Survey
    from ckpt_cli.queries.node_times import NodeTimes


class MeasureAnswers:
    """The part of `StoreHandle` that counts and sums up."""

    _store: Store
    _around: Surroundings

    def stats(
        self,
        threads: str | Iterable[str] | None = None,
        *,
        match: str | None = None,
        where: str | Sequence[str] = (),
        since: When | None = None,
        until: When | None = None,
        jobs: int = 1,
        cluster: str | None = None,
        watch: Watcher = unwatched,
    ) -> Answer[WriteCounts]:
        """Return which nodes wrote how much to which channels, as `ckpt stats` prints it.

        `since` and `until` limit the checkpoints, by an age such as `7d` or a time. The other
        arguments are those of `grep`. Raises `NotFound` or `UsageError`.
        """
        from ckpt_cli.core.write_counts import WriteCounts
        from ckpt_cli.queries.stats import Range, threads_stats
        from ckpt_cli.render.stats import stats_record

        around, found = self._around, WriteCounts()
        within = Range(time_of(around, since), time_of(around, until))
        executor = around.executor(jobs, cluster)
        choosing, answering = watchers(executor, where, watch)
        chosen = self._selected(threads, match, where, choosing)
        for one in answering(threads_stats(self._store, executor, chosen, within)):
            found.add(one)
        return Answer(found, stats_record)

    def node_times(
        self,
        threads: str | Iterable[str] | None = None,
        *,
        match: str | None = None,
        where: str | Sequence[str] = (),
        since: When | None = None,
        until: When | None = None,
        jobs: int = 1,
        cluster: str | None = None,
        watch: Watcher = unwatched,
    ) -> Answer[NodeTimes]:
        """Return how long each node took, as `ckpt stats --time` prints it.

        The arguments are those of `stats`. Raises `NotFound` or `UsageError`.
        """
        from ckpt_cli.queries.node_times import NodeTimes, threads_node_times
        from ckpt_cli.queries.stats import Range
        from ckpt_cli.render.node_times import node_times_record

        around, found = self._around, NodeTimes()
        within = Range(time_of(around, since), time_of(around, until))
        executor = around.executor(jobs, cluster)
        choosing, answering = watchers(executor, where, watch)
        chosen = self._selected(threads, match, where, choosing)
        for one in answering(threads_node_times(self._store, executor, chosen, within)):
            found.add(one)
        return Answer(found, node_times_record)

    def tokens(
        self,
        threads: str | Iterable[str] | None = None,
        *,
        by: str | Sequence[str] = "model",
        match: str | None = None,
        where: str | Sequence[str] = (),
        since: When | None = None,
        until: When | None = None,
        jobs: int = 1,
        cluster: str | None = None,
        watch: Watcher = unwatched,
    ) -> Answer[UsageSums]:
        """Return how many tokens messages cost, as `ckpt stats --tokens` prints it.

        `by` is one or several of `model`, `node`, `thread` and `day`. The other arguments are
        those of `stats`. Raises `NotFound` or `UsageError`.
        """
        from ckpt_cli.core.usage.sums import UsageSums, parse_groupings
        from ckpt_cli.queries.stats import Range
        from ckpt_cli.queries.token_usage import UsageQuery, threads_usage
        from ckpt_cli.render.usage import usage_record

        around = self._around
        within = Range(time_of(around, since), time_of(around, until))
        wanted = UsageQuery(parse_groupings(texts(by)), within, around.zone)
        found = UsageSums(wanted.by)
        executor = around.executor(jobs, cluster)
        choosing, answering = watchers(executor, where, watch)
        chosen = self._selected(threads, match, where, choosing)
        for one in answering(threads_usage(self._store, executor, chosen, wanted)):
            found.add(one)
        return Answer(found, partial(usage_record, prices=around.names.prices))

    def du(
        self,
        *,
        match: str | None = None,
        where: str | Sequence[str] = (),
        top: int | None = None,
        watch: Watcher = unwatched,
    ) -> Answer[Survey]:
        """Return the disk usage, as `ckpt du` prints it; `top` limits each listing.

        `match` is a pattern for ids, `where` a filter as in `threads`: only these threads are
        measured. Raises `UsageError`.
        """
        from ckpt_cli.api.disk_usage import disk_usage

        return disk_usage(self._store, self._measured(match, where, watch), top, watch)

    def du_by(
        self,
        by: By,
        *,
        match: str | None = None,
        where: str | Sequence[str] = (),
        top: int | None = None,
        watch: Watcher = unwatched,
    ) -> AnswerList[Survey]:
        """Return the largest threads, channels and so on, as `ckpt du --by` prints them.

        `by` is `thread`, `channel`, `ns`, `type` or `table`. The other arguments are those of `du`.
        Raises `UsageError`.
        """
        from ckpt_cli.api.disk_usage import disk_usage_by

        return disk_usage_by(self._store, self._measured(match, where, watch), by, top, watch)

    def _selected(
        self,
        threads: str | Iterable[str] | None,
        match: str | None,
        where: str | Sequence[str],
        watch: Watcher,
    ) -> Iterator[Thread]:
        """Return the chosen threads, by default all."""
        from ckpt_cli.api.listing import chosen_threads

        chosen = chosen_threads(self._store, self._around, threads, match, where, watch)
        return self._store.threads() if chosen is None else chosen

    def _measured(
        self, match: str | None, where: str | Sequence[str], watch: Watcher
    ) -> Collection[str] | None:
        """Return the ids of the threads that are measured; None for all."""
        from ckpt_cli.api.listing import chosen_threads

        chosen = chosen_threads(self._store, self._around, None, match, where, watch)
        return None if chosen is None else {one.thread_id for one in chosen}
