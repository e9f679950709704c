"""The threads that a command changes or copies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from ckpt_backends.model import Thread
from ckpt_cli.api.filters import explained_if_none, filter_of
from ckpt_cli.diagnostics import progress
from ckpt_cli.queries.selection import filtered_threads
from ckpt_cli.session import Session


def threads_to_change(
    session: Session,
    names: Sequence[str] | None,
    match: str | None,
    where: Sequence[str] | None,
) -> Iterator[Thread]:
    """Return the threads with these names; without names, all threads that match.

    Shows progress while heads are read. Raises what `filtered_threads` and `filter_of` raise.
    """
    watch = partial(progress, total=None, label="choosing threads")
    wanted = filter_of(session, where, acts=True)
    found = filtered_threads(session.store, names or (), match, wanted, session.now, watch)
    return explained_if_none(session, where, found)
