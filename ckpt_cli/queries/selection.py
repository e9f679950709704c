"""Chooses the threads that a run works on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

from ckpt_backends.errors import UsageError
from ckpt_backends.model import Thread
from ckpt_backends.protocol import Store
from ckpt_cli.queries.threads import Selection, list_threads

if TYPE_CHECKING:
    from ckpt_cli.core.filters.language import Filter

Watch: TypeAlias = Callable[[Iterable[Thread]], Iterable[Thread]]
"""Gets each thread that is returned, or whose head must be read first, to show progress."""


def filtered_threads(
    store: Store,
    names: Sequence[str],
    match: str | None,
    where: Filter | None,
    now: datetime,
    watch: Watch = iter,
    head_channels: frozenset[str] | None = None,
) -> Iterator[Thread]:
    """Return the threads with these names; without names, all threads that match.

    With `head_channels`, threads without a name must have a write on one of these channels at
    their head. Ages are measured at `now`. Raises `NotFound` for an unknown name, and `UsageError`
    if both names and conditions are given.
    """
    if names:
        if match is not None or where is not None:
            raise UsageError(
                "THREAD cannot be combined with --match or --where",
                hint="leave out THREAD or these options",
            )
        from ckpt_cli.reading.target import find_thread

        named = [find_thread(store, name, _ignore).thread for name in dict.fromkeys(names)]
        return iter(watch(named))
    return selected_threads(
        store, Selection(match=match, where=where, head_channels=head_channels), now, watch
    )


def selected_threads(
    store: Store, wanted: Selection, now: datetime, watch: Watch = iter
) -> Iterator[Thread]:
    """Return the threads that a selection describes, newest first, with ages as of `now`."""
    condition = wanted.filter
    if condition is None or _is_in_index(condition):
        rows = list_threads(store, wanted, sizes=False, now=now)
        return iter(watch(row.thread for row in rows))
    rows = list_threads(store, wanted, sizes=False, now=now, watch=watch)
    return (row.thread for row in rows)


def _is_in_index(where: Filter) -> bool:
    """Return whether the index of a store alone decides."""
    # Imported late, like all about filters: most commands get none.
    from ckpt_cli.core.filters.language import ReadFrom, sources_of

    return sources_of(where) <= {ReadFrom.INDEX}


def _ignore(_: str) -> None:
    """Ignore notes: every thread is named, so there is nothing to note."""
