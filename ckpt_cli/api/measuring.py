"""The methods of a store's handle that measure its disk usage."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from ckpt_backends.protocol import Store
from ckpt_cli.api.answer import Answer, AnswerList
from ckpt_cli.api.surroundings import Surroundings
from ckpt_cli.api.watch import Watcher, unwatched

if TYPE_CHECKING:
    from ckpt_cli.queries.disk_usage import By, Survey


class DiskUsageMethods:
    """Measures the threads of an open store; a part of `StoreHandle`."""

    _store: Store
    _around: Surroundings

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

    def _measured(
        self, match: str | None, where: str | Sequence[str], watch: Watcher
    ) -> Collection[str] | None:
        """Return the ids of the threads that are measured; None for all."""
        from ckpt_cli.api.listing import chosen_threads

        chosen = chosen_threads(self._store, self._around, None, match, where, watch)
        return None if chosen is None else {one.thread_id for one in chosen}
