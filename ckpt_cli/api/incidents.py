"""What `StoreHandle` answers about threads in trouble."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ckpt_backends.protocol import Store
from ckpt_cli.api.answer import Answer, AnswerList
from ckpt_cli.api.surroundings import Surroundings, When
from ckpt_cli.api.watch import Watcher, unwatched

if TYPE_CHECKING:
    from ckpt_cli.queries.error_groups import FailureGroup
    from ckpt_cli.queries.errors import Failure


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
