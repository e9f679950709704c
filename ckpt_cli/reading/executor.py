"""Chooses what works on many threads: this process, others, or a cluster."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from ckpt_backends.errors import PartlyDone, UsageError
from ckpt_backends.model import in_chunks
from ckpt_backends.protocol import Store
from ckpt_cli.reading.workers import (
    Backlog,
    LostThread,
    Part,
    Processes,
    RangesInOrder,
    Result,
    Work,
    Workers,
    id_of,
    refuse_lost,
    work_here,
)

if TYPE_CHECKING:
    from ckpt_cli.reading.store import Opening


_MOST_LOST = 100
_THREAD_BYTES, _ROW_BYTES = 16 << 10, 1 << 10
"""A thread and a row take time even if they are empty: as much as so many bytes."""


class Executor:
    """Where the work of one run is done."""

    def __init__(
        self,
        opening: Opening,
        jobs: int = 1,
        cluster: str | None = None,
        lost: Callable[[Sequence[LostThread]], None] = refuse_lost,
    ) -> None:
        """`jobs` is the number of processes; `cluster` the address of a Dask scheduler.

        `lost` is told at the end of a run which threads were left out, if any were. Raises
        `UsageError` if both are given.
        """
        if jobs > 1 and cluster is not None:
            raise UsageError("--jobs cannot be combined with --cluster", hint="use one of them")
        self._opening = opening
        self._jobs = jobs
        self._cluster = cluster
        self._lost = lost

    @property
    def is_here(self) -> bool:
        """Whether each thread is worked on when its result is asked for."""
        return self._jobs == 1 and self._cluster is None

    def run(
        self,
        store: Store,
        parts: Iterable[Part],
        work: Work[Part, Result],
        *,
        at_once: int = 1,
        before: Callable[[Sequence[Part]], None] | None = None,
        lost: Callable[[Sequence[LostThread]], None] | None = None,
    ) -> Generator[Result]:
        """Yield the result for each part, in the order of the parts.

        `at_once` parts are handed over to the work together. `before` is told the parts of each
        range once, before it begins. `lost` is told in place of the one of the executor. Raises
        `CkptError` of the work, and `PartlyDone` if very many threads fail.
        """
        left_out: list[LostThread] = []

        def lose(one: LostThread) -> None:
            left_out.append(one)
            if len(left_out) > _MOST_LOST:
                raise PartlyDone(f"stopped: {_MOST_LOST} threads failed; the last: {one.reason}")

        if self.is_here:
            watched = parts if before is None else _told(parts, at_once, before)
            yield from work_here(work(store), watched, at_once, lose)
        else:
            yield from self._spread(store, iter(parts), work, at_once, before, lose)
        if left_out:
            (lost or self._lost)(left_out)

    def _spread(
        self,
        store: Store,
        parts: Iterator[Any],
        work: Work[Any, Result],
        at_once: int,
        before: Callable[[Sequence[Any]], None] | None,
        lose: Callable[[LostThread], None],
    ) -> Iterator[Result]:
        backlog = Backlog(parts, lambda some: weights(store, some))
        with closing(self._workers(work, at_once)) as workers:
            yield from RangesInOrder(backlog, workers, before, lose).results()

    def _workers(self, work: Work[Any, Any], at_once: int) -> Workers:
        if self._cluster is not None:
            from ckpt_cli.reading.cluster import Cluster

            return Cluster(self._cluster, self._opening, work, at_once)
        return Processes(self._jobs, self._opening, work, at_once)


def weights(store: Store, parts: Sequence[Any]) -> list[int]:
    """Return about how much each part weighs, in bytes; reads no value.

    Where the engine cannot add up lengths, only checkpoints count, as far as they are known.
    """
    if store.sums_sizes:
        return [
            one.bytes + _ROW_BYTES * (one.checkpoints + one.writes) + _THREAD_BYTES
            for one in store.sizes([id_of(part) for part in parts])
        ]
    return [_THREAD_BYTES * (1 + _checkpoints(part)) for part in parts]


def _checkpoints(part: object) -> int:
    thread = getattr(part, "thread", part)
    return int(getattr(thread, "checkpoints", 0))


def _told(
    parts: Iterable[Part], at_once: int, before: Callable[[Sequence[Part]], None]
) -> Iterator[Part]:
    """Yield parts; some at a time are told before."""
    for some in in_chunks(parts, at_once):
        before(some)
        yield from some
