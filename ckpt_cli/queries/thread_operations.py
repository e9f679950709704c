"""The recorded operations on one thread, and which of them added a checkpoint.

The log is a convenience: if it is missing or damaged, there are none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from ckpt_backends.errors import CkptError
from ckpt_cli.config.machine import state_folder
from ckpt_cli.core.state import BY, NAME, THREAD
from ckpt_cli.reading.store import Opening
from ckpt_cli.reading.thread import Moment

if TYPE_CHECKING:
    from ckpt_cli.queries.operations import ListedOperation

_NEWEST = 5
"""Number of operations that `show` names."""
_COPIES = frozenset({"copy", "fork", "threads copy"})
"""The actions that make a thread of checkpoints of another one, with their ids; `threads copy` is
in older logs.
"""


class ThreadOperations:
    """Reads the log once, when an answer needs it."""

    def __init__(self, opening: Opening, thread_id: str) -> None:
        self._opening = opening
        self._thread_id = thread_id

    def adding(self, moment: Moment) -> ListedOperation | None:
        """Return the operation that added a checkpoint; None if none is recorded.

        Only checkpoints with the mark of `ckpt` in their metadata are looked up.
        """
        if moment.metadata.get(BY) != NAME:
            return None
        if THREAD in moment.metadata:
            return self._copying
        return self._adding.get(moment.key.checkpoint_id)

    @cached_property
    def newest_first(self) -> Sequence[ListedOperation]:
        """All operations that changed the thread. With `--redact`, without their reasons."""
        found: list[ListedOperation] = []
        with suppress(CkptError, OSError):
            if not state_folder("operations").is_dir():
                return []
            # Late: most threads have no checkpoint of `ckpt`, and most users no log.
            from ckpt_cli.operations.log import OperationLog, place_of
            from ckpt_cli.queries.operations import changed, operations, redacted

            log = OperationLog.of_user()
            as_of = self._opening.as_of
            for one in operations(log, place_of(self._opening.url)):
                if as_of is not None and one.operation.at > as_of:
                    continue
                if changed(log, one.operation, self._thread_id):
                    found.append(redacted(one) if self._opening.redact else one)
        return found

    @property
    def newest(self) -> Sequence[ListedOperation]:
        """The newest of them, newest first."""
        return self.newest_first[:_NEWEST]

    @property
    def _copying(self) -> ListedOperation | None:
        """The operation that made the thread as a copy of another one; it names no checkpoints."""
        made = (one for one in self.newest_first if one.operation.action in _COPIES)
        return next(made, None)

    @cached_property
    def _adding(self) -> Mapping[str, ListedOperation]:
        return {
            checkpoint_id: one
            for one in reversed(self.newest_first)
            for checkpoint_id in one.operation.added
        }
