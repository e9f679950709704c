"""Copy many threads, in one process or in several."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from itertools import chain, islice

from ckpt_backends.protocol import Store
from ckpt_backends.registry import open_store
from ckpt_cli.apply.copy_recording import CopyRecording
from ckpt_cli.apply.copy_stores import CopyTerms, copying, opened_sides
from ckpt_cli.apply.recording import Recording
from ckpt_cli.core.copying.outcomes import CopiedThread
from ckpt_cli.plans.copy_between import planned_copy
from ckpt_cli.threads.opening import Opening
from ckpt_cli.threads.parallel import of_threads

_THREADS_AT_ONCE = 200


def plan_threads(
    terms: CopyTerms, thread_ids: Iterable[str], watch: Callable[[int], None]
) -> Iterator[CopiedThread]:
    """Yield what would become of each thread. Raises what opening the stores raises.

    `watch` is told the number of bytes of each row that is read from the source.
    """
    with opened_sides(terms, watch) as sides:
        for thread_id in thread_ids:
            yield planned_copy(sides, thread_id, replace=terms.replace)


def copy_threads(
    terms: CopyTerms,
    thread_ids: Iterable[str],
    jobs: int,
    watch: Callable[[int], None],
    recording: Recording,
) -> Generator[CopiedThread]:
    """Copy threads; yield what became of each. Raises what opening the stores raises.

    `watch` is told the number of bytes that are done: of each row, or with several jobs of each
    thread. Close the iterator before the recording ends.
    """
    terms = terms.prepared()
    with closing(CopyRecording(recording, terms.target)) as record:
        parts = record.intended(_parts(thread_ids))
        if jobs == 1:
            copied = _copied_here(terms, parts, watch)
        else:
            copied = _copied(terms, parts, jobs, watch)
        with closing(copied):
            for one in copied:
                record.came_out(one)
                yield one


def _copied_here(
    terms: CopyTerms, parts: Iterable[Sequence[str]], watch: Callable[[int], None]
) -> Generator[CopiedThread]:
    """Copy threads in this process."""
    with copying(terms, watch) as copy_some:
        for some in parts:
            yield from copy_some(some)


def _copied(
    terms: CopyTerms, parts: Iterable[Sequence[str]], jobs: int, watch: Callable[[int], None]
) -> Generator[CopiedThread]:
    """Copy threads in several processes."""
    with opened_sides(terms):
        pass  # what cannot be copied at all is refused before it is recorded
    with open_store(terms.source) as store:
        found = of_threads(store, Opening(terms.source), parts, _Copying(terms), jobs)
        for one in chain.from_iterable(found):
            watch(one.counts.bytes)
            yield one


class _Copying:
    """The work of one process. Picklable."""

    def __init__(self, terms: CopyTerms) -> None:
        self._terms = terms

    def __call__(self, store: Store) -> _CopySome:  # noqa: ARG002 - opens rows as stored
        stack = ExitStack()
        return _CopySome(stack.enter_context(copying(self._terms)), stack)


class _CopySome:
    def __init__(self, copy_some: object, stack: ExitStack) -> None:
        self._copy_some = copy_some
        self._stack = stack

    def __call__(self, thread_ids: Sequence[str]) -> list[CopiedThread]:
        return list(self._copy_some(thread_ids))  # type: ignore[operator]


def _parts(thread_ids: Iterable[str]) -> Iterator[list[str]]:
    left = iter(thread_ids)
    while some := list(islice(left, _THREADS_AT_ONCE)):
        yield some
