"""Choose the threads for a command: by name, or by conditions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ckpt_backends.errors import UsageError
from ckpt_backends.model import Thread
from ckpt_backends.protocol import Store
from ckpt_cli.queries.threads import Selection, list_threads, parse_where
from ckpt_cli.threads.target import find_thread


def selected_threads(
    store: Store, names: Sequence[str], match: str | None, where: Sequence[str]
) -> Iterator[Thread]:
    """Return the threads with these names; without names, all threads that match.

    Raises `NotFound` for an unknown name, and `UsageError` if both names and conditions are given.
    """
    if names:
        if match is not None or where:
            raise UsageError(
                "THREAD cannot be combined with --match or --where",
                hint="leave out THREAD or these options",
            )
        named = [find_thread(store, name, _ignore).thread for name in dict.fromkeys(names)]
        return iter(named)
    wanted = Selection(match=match, where=tuple(map(parse_where, where)))
    return (row.thread for row in list_threads(store, wanted, sizes=False))


def _ignore(_: str) -> None:
    """Ignore notes: every thread is named, so there is nothing to note."""
