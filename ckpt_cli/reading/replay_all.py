"""Replaying many threads of a store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ckpt_backends.errors import NotFound
from ckpt_backends.protocol import Store
from ckpt_cli.core.replay import Replayed
from ckpt_cli.reading.lessons import Lessons
from ckpt_cli.reading.parallel import of_threads
from ckpt_cli.reading.replay import replay_thread
from ckpt_cli.reading.thread import ThreadReader

if TYPE_CHECKING:
    from ckpt_cli.reading.opening import Opening


@dataclass(frozen=True, slots=True)
class _Replay:
    """Replays the threads of a store."""

    def __call__(self, store: Store) -> Callable[[str], Replayed]:
        lessons = Lessons(store)

        def replay(thread_id: str) -> Replayed:
            try:
                return replay_thread(ThreadReader(store, thread_id, lessons))
            except NotFound:  # Deleted meanwhile, or an id that can be listed and not looked up.
                return Replayed(thread_id)

        return replay


def replay_threads(
    store: Store, opening: Opening, ids: Iterable[str], jobs: int
) -> Iterator[Replayed]:
    """Each thread replayed, in the order given; with several jobs, by processes."""
    return of_threads(store, opening, ids, _Replay(), jobs)
