"""Choose the threads for a command: by name, or by conditions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from ckpt_backends.errors import UsageError
from ckpt_backends.model import Thread
from ckpt_backends.protocol import Store
from ckpt_cli.queries.threads import Selection, list_threads
from ckpt_cli.threads.target import find_thread

if TYPE_CHECKING:
    from ckpt_cli.core.filters.expressions import Filter


def selected_threads(
    store: Store, names: Sequence[str], match: str | None, where: Sequence[str]
) -> Iterator[Thread]:
    """Return the threads with these names; without names, all threads that match.

    Raises `NotFound` for an unknown name, and `UsageError` if both names and conditions are given.
    """
    if names:
        return _named(store, names, match, where)
    wanted = Selection(match=match, where=parse_metadata_filters(where))
    return (row.thread for row in list_threads(store, wanted, sizes=False))


def filtered_threads(
    store: Store, names: Sequence[str], match: str | None, where: Sequence[str], now: datetime
) -> Iterator[Thread]:
    """Return the same; `where` may be any filter, with ages as of `now`."""
    if names:
        return _named(store, names, match, where)
    wanted = Selection(match=match, where=parse_filters(where))
    return (row.thread for row in list_threads(store, wanted, sizes=False, now=now))


def _named(
    store: Store, names: Sequence[str], match: str | None, where: Sequence[str]
) -> Iterator[Thread]:
    if match is not None or where:
        raise UsageError(
            "THREAD cannot be combined with --match or --where",
            hint="leave out THREAD or these options",
        )
    return iter([find_thread(store, name, _ignore).thread for name in dict.fromkeys(names)])


def parse_filters(texts: Sequence[str]) -> Filter | None:
    """Return the filter that these texts describe together; None if there are none.

    Raises `ParseError`.
    """
    if not texts:
        return None
    # Imported late, because most commands get no filter.
    from ckpt_cli.core.filters.expressions import all_of
    from ckpt_cli.core.filters.parse import parse_filter

    return all_of(map(parse_filter, texts))


def parse_metadata_filters(texts: Sequence[str]) -> Filter | None:
    """Return the same for texts of the form `metadata.KEY=VALUE`. Raises `UsageError`."""
    if not texts:
        return None
    from ckpt_cli.core.filters.expressions import all_of
    from ckpt_cli.core.filters.parse import parse_metadata_filter

    return all_of(map(parse_metadata_filter, texts))


def _ignore(_: str) -> None:
    """Ignore notes: every thread is named, so there is nothing to note."""
