"""What `ThreadHandle` answers about the course of a thread: back in time, and from now on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ckpt_cli.api.answer import Answer
from ckpt_cli.api.surroundings import Surroundings, When
from ckpt_cli.api.watch import Watcher, unwatched
from ckpt_cli.threads.target import NamedThread
from ckpt_cli.threads.thread import ThreadReader

if TYPE_CHECKING:
    from ckpt_cli.queries.bisect import Bisection, Test
    from ckpt_cli.queries.history import Entry


class FollowedThread:
    """The part of `ThreadHandle` that follows a thread."""

    reader: ThreadReader
    around: Surroundings

    @property
    def id(self) -> str:
        """The `thread_id`."""
        return self.reader.thread_id

    def tail(
        self,
        lines: int = 5,
        *,
        ns: str | None = None,
        all_ns: bool = False,
        interval: float = 1.0,
        wait: Callable[[float], None] = time.sleep,
    ) -> Iterator[Answer[Entry]]:
        """Yield the last checkpoints, then new ones as they are saved, without an end.

        The records are those of `ckpt tail`. Looks for new checkpoints every `interval` seconds,
        which `wait` waits. Raises `StoreChanged` if the thread is deleted.
        """
        from ckpt_cli.queries.tail import Tail
        from ckpt_cli.render.records import entry_record

        found = Tail(self.reader.store, self.id, ns, all_ns=all_ns)
        entries = found.last(lines)
        while True:
            for one in entries:
                yield Answer(one, entry_record)
            wait(interval)
            entries = found.new()

    def bisect(
        self,
        condition: str | None = None,
        ref: str | None = None,
        *,
        test: Test | None = None,
        ns: str | None = None,
        since: When | None = None,
        until: When | None = None,
        binary: bool = False,
        watch: Watcher = unwatched,
    ) -> Answer[Bisection]:
        """Find the first checkpoint where a condition holds, as `ckpt bisect` prints it.

        `condition` is a filter about a checkpoint, such as `values.plan = null`. In place of it,
        `test` is a function of a `Candidate`, whose `values` are the state; it returns whether the
        condition holds, or None to skip the checkpoint. The checkpoints are those that lead to
        `ref`, by default to the head. `checkpoint_id` is None if it holds nowhere. Raises
        `NotFound`, `Ambiguous` or `UsageError`.
        """
        from ckpt_cli.api.bisecting import bisected

        named = NamedThread(self.reader, ns, ref)
        found, within = named.checkpoint(self.around.now, self.around.zone), (since, until)
        return bisected(found, self.around, condition, test, within, watch, binary=binary)
