"""List the threads of a store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ckpt_backends.errors import UsageError
from ckpt_backends.model import Thread
from ckpt_backends.protocol import Store
from ckpt_cli.api.filters import explained_if_none, filter_of
from ckpt_cli.api.surroundings import Surroundings, When, time_of
from ckpt_cli.api.texts import texts
from ckpt_cli.api.watch import Watcher, unwatched
from ckpt_cli.queries.selection import filtered_threads
from ckpt_cli.queries.threads import SORTS, Selection, Sort, parse_status


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
