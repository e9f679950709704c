"""Which threads match a filter that reads more than the list."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from ckpt_backends.model import Thread
from ckpt_backends.protocol import Store
from ckpt_cli.core.filters.language import Filter, ReadFrom, fields_in, sources_of
from ckpt_cli.reading.thread import TriggerInference
from ckpt_cli.tui.content.thread_list import ThreadListing

_AGES_HOLD = timedelta(minutes=1)
"""How long the answer of a filter by age holds for a thread that did not change."""
_AT_ONCE, _AT_ONCE_IN_INDEX = 500, 20_000
"""Number of threads of which is asked whether they match: by their heads, and by the index."""
_NEVER = datetime.min.replace(tzinfo=UTC)


def unasked(listing: ThreadListing, now: datetime) -> list[Thread]:
    """Return the threads of which it is not known whether the condition holds for them now."""
    if (wanted := listing.wanted.condition) is None:
        return []
    names = {field.name for field in fields_in(wanted)}
    since = now - _AGES_HOLD if names & {"age", "idle"} else _NEVER
    found = []
    for one in listing.threads:
        known = listing.matches.get(one.thread_id)
        if known is None or known[0] != one or known[2] < since:
            found.append(one)
    return found


def ask_parts(threads: Sequence[Thread], wanted: Filter) -> list[Sequence[Thread]]:
    """Return threads in parts that are asked about together, large ones if the index answers."""
    number = _AT_ONCE_IN_INDEX if sources_of(wanted) <= {ReadFrom.INDEX} else _AT_ONCE
    return [threads[at : at + number] for at in range(0, len(threads), number)]


def read_possible(store: Store, wanted: Filter, now: datetime) -> frozenset[str] | None:
    """Return the ids of the threads that can match, if writes at their heads show that.

    Only threads with an error, for example, can have status error. Returns None if the writes do
    not show it, so that each thread must be asked.
    """
    from ckpt_cli.core.filters.evaluate import bounds_of

    bounds = bounds_of(wanted, now)
    if bounds.head_channels is None:
        return None
    return frozenset(one.thread_id for one in store.threads_within(bounds))


def read_matches(
    store: Store, threads: Sequence[Thread], wanted: Filter, now: datetime
) -> list[bool]:
    """Return whether each thread matches a filter, with ages as of `now`.

    Raises `UsageError` if a pattern takes too long.
    """
    from ckpt_cli.queries.filtered_threads import ThreadChooser

    chooser = ThreadChooser(store, wanted, TriggerInference(store), now)
    found = {row.thread.thread_id for row in chooser.choose(threads)}
    return [one.thread_id in found for one in threads]
