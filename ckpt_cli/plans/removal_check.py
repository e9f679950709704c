"""Check that the threads of a saved plan are as they were when it was made."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from ckpt_backends.errors import StoreChanged
from ckpt_backends.model import Thread
from ckpt_backends.protocol import Store
from ckpt_cli.core.retention.purge_plan import PlannedRemoval

_AT_ONCE = 500


def check_unmoved(store: Store, planned: Iterable[PlannedRemoval]) -> None:
    """Raise `StoreChanged` if a thread of a plan has changed or is gone."""
    left = iter(planned)
    while some := list(islice(left, _AT_ONCE)):
        sizes = store.sizes([one.thread_id for one in some])
        for one, size in zip(some, sizes, strict=True):
            thread = store.thread(one.thread_id) or Thread(one.thread_id, None, None, None, 0, 0)
            why = one.removal.reason_to_skip(thread.last_at, thread.checkpoints, size.writes)
            if why:
                raise StoreChanged(
                    f"thread '{one.thread_id}' {why}, so nothing was removed",
                    hint="make a new plan with --plan-out",
                )
    store.refresh()
