"""What Python code may ask of many threads: lists, sums and usage."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ckpt_backends.errors import UsageError
from ckpt_backends.model import Thread
from ckpt_backends.protocol import Store
from ckpt_cli.api.answer import (
    Answer,
    AnswerList,
    Watcher,
    explained_if_none,
    filter_of,
    texts,
    unwatched,
    watchers,
)
from ckpt_cli.api.surroundings import Surroundings, When, time_of
from ckpt_cli.queries.threads import SORTS, Selection, Sort, filtered_threads, parse_status

if TYPE_CHECKING:
    from ckpt_cli.core.stats import Stats
    from ckpt_cli.queries.usage import By, StatsQuery, Survey


def selection(
    around: Surroundings,
    *,
    where: str | Iterable[str] | None,
    status: str | Iterable[str] | None,
    match: str | None,
    since: When | None,
    until: When | None,
    user: str | None,
) -> Selection:
    """Return which threads these conditions choose. Raises `UsageError`."""
    return Selection(
        match=match,
        since=time_of(around, since),
        until=time_of(around, until),
        status=frozenset(map(parse_status, texts(status))),
        user=user,
        where=filter_of(around, where),
    )


def sort_key(text: str) -> Sort:
    """Return a sort key by its name. Raises `UsageError` if there is none."""
    for known in SORTS:
        if known == text:
            return known
    raise UsageError(f"cannot sort by '{text}'", hint=f"use one of {', '.join(SORTS)}")


def chosen_threads(
    store: Store,
    around: Surroundings,
    threads: str | Iterable[str] | None,
    match: str | None,
    where: str | Sequence[str],
    watch: Watcher = unwatched,
) -> Iterator[Thread] | None:
    """Return the threads with these ids, or else those that match a pattern and a filter.

    Returns None without any condition. `watch` gets each thread that is looked at.
    """
    if threads is None and match is None and not where:
        return None
    return threads_with_head_writes(store, around, None, threads, match, where, watch)


def threads_with_head_writes(
    store: Store,
    around: Surroundings,
    channels: frozenset[str] | None,
    threads: str | Iterable[str] | None,
    match: str | None,
    where: str | Sequence[str],
    watch: Watcher = unwatched,
) -> Iterator[Thread]:
    """Return the same threads, by default all.

    With `channels`, threads that were not named must have a write on one of these at their head.
    """
    names = texts(threads)
    if threads is not None and not names:  # an empty selection is not all threads
        return iter(())
    condition = filter_of(around, where)
    found = filtered_threads(store, names, match, condition, around.now, watch, channels)
    return explained_if_none(around, where, found)


def stats_query(
    around: Surroundings, by: str | Sequence[str] | None, since: When | None, until: When | None
) -> StatsQuery:
    """Return what `stats` counts; without `by`, all that is told about nodes and channels.

    Raises `UsageError`.
    """
    from ckpt_cli.core.stats import StatsPart, parse_groupings, parts_of
    from ckpt_cli.queries.usage import Range, StatsQuery

    within = Range(time_of(around, since), time_of(around, until))
    if by is None:
        return StatsQuery(("node", "channel"), ~StatsPart(0), within, around.zone)
    keys = parse_groupings(texts(by))
    return StatsQuery(keys, parts_of(keys), within, around.zone)


def stats_answer(
    around: Surroundings, found: Stats, by: str | Sequence[str] | None
) -> Answer[Stats]:
    """Return what `stats` counted, with what tokens cost."""
    from ckpt_cli.render.usage import stats_record

    keys = None if by is None else found.by
    return Answer(found, partial(stats_record, prices=around.names.prices, by=keys))


class MeasureAnswers:
    """The part of `StoreHandle` that counts and sums up."""

    _store: Store
    _around: Surroundings

    def stats(
        self,
        threads: str | Iterable[str] | None = None,
        *,
        by: str | Sequence[str] | None = None,
        match: str | None = None,
        where: str | Sequence[str] = (),
        since: When | None = None,
        until: When | None = None,
        jobs: int = 1,
        cluster: str | None = None,
        watch: Watcher = unwatched,
    ) -> Answer[Stats]:
        """Return what was written, how long it took and what it cost, as `ckpt stats` prints it.

        `by` is one or several of `node`, `channel`, `model`, `thread`, `day` and `user`; without
        it, `nodes` holds the answer by node, and `by` and `channels` tell more of the writes.
        `since` and `until` limit the checkpoints, by an age such as `7d` or a time. The other
        arguments are those of `grep`. Raises `NotFound` or `UsageError`.
        """
        from ckpt_cli.core.stats import Stats
        from ckpt_cli.queries.usage import threads_stats

        around, wanted = self._around, stats_query(self._around, by, since, until)
        found = Stats(wanted.by, wanted.parts)
        executor = around.executor(jobs, cluster)
        choosing, answering = watchers(executor, where, watch)
        chosen = self._selected(threads, match, where, choosing)
        for one in answering(threads_stats(self._store, executor, chosen, wanted)):
            found.add(one)
        return stats_answer(around, found, by)

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
        from ckpt_cli.api.questions import disk_usage

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
        from ckpt_cli.api.questions import disk_usage_by

        return disk_usage_by(self._store, self._measured(match, where, watch), by, top, watch)

    def _selected(
        self,
        threads: str | Iterable[str] | None,
        match: str | None,
        where: str | Sequence[str],
        watch: Watcher,
    ) -> Iterator[Thread]:
        """Return the chosen threads, by default all."""

        chosen = chosen_threads(self._store, self._around, threads, match, where, watch)
        return self._store.threads() if chosen is None else chosen

    def _measured(
        self, match: str | None, where: str | Sequence[str], watch: Watcher
    ) -> Collection[str] | None:
        """Return the ids of the threads that are measured; None for all."""
        chosen = chosen_threads(self._store, self._around, None, match, where, watch)
        return None if chosen is None else {one.thread_id for one in chosen}


def memories_from(
    around: Surroundings, chosen: str | None, is_wanted: Callable[[str], bool]
) -> list[dict[str, Any]] | None:
    """Return the memory items that came from some threads; None if no memory is known.

    `chosen` names the memory; without it, the one of the profile or next to the store is read.
    Raises what opening a memory raises that is named.
    """
    from ckpt_cli.config.store_names import memory_place

    place = memory_place(around.names.store_url, around.names.other_store("memory", chosen))
    if place is None:
        return None
    # Most stores have no memory next to them.
    from ckpt_cli.queries.memory import memories_of
    from ckpt_cli.render.memory import memory_rows

    found = memories_of(place, is_wanted, around.note)
    return None if found is None else memory_rows(found, redacted=around.opening.redact)
