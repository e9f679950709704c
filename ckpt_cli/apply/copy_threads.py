"""Copy many threads, in one process or in several."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing

from ckpt_backends.protocol import Store
from ckpt_backends.registry import open_store
from ckpt_cli.apply.copy_recording import CopyRecording
from ckpt_cli.apply.copy_stores import CopyTerms, copying, opened_sides
from ckpt_cli.apply.recording import Recording
from ckpt_cli.core.copying.outcomes import CopiedThread
from ckpt_cli.plans.copy_between import planned_copy
from ckpt_cli.threads.executor.executor import Executor

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
    executor: Executor,
    watch: Callable[[int], None],
    recording: Recording,
) -> Generator[CopiedThread]:
    """Copy threads; yield what became of each. Raises what opening the stores raises.

    `watch` is told the number of bytes that are done: of each row, or of each thread if other
    processes copy. Close the iterator before the recording ends.
    """
    terms = terms.prepared()
    with closing(CopyRecording(recording, terms.target)) as record:
        with opened_sides(terms):
            pass  # what cannot be copied at all is refused before it is recorded
        here = executor.is_here
        work = _Copying(terms, watch if here else None)
        with open_store(terms.source) as store, closing(work):
            copied = executor.run(
                store, thread_ids, work, at_once=_THREADS_AT_ONCE, before=record.intend
            )
            with closing(copied):
                for one in copied:
                    if not here:
                        watch(one.counts.bytes)
                    record.came_out(one)
                    yield one


class _Copying:
    """The work of one process. Picklable."""

    def __init__(self, terms: CopyTerms, watch: Callable[[int], None] | None) -> None:
        self._terms = terms
        self._watch = watch
        self._stack = ExitStack()

    def __reduce__(self) -> tuple[object, ...]:
        return _Copying, (self._terms, None)

    def __call__(self, store: Store) -> Callable[[Sequence[str]], Iterator[CopiedThread]]:  # noqa: ARG002 - opens rows as stored
        watch = self._watch or (lambda _: None)
        return self._stack.enter_context(copying(self._terms, watch))

    def close(self) -> None:
        """Close the stores, if this process copied."""
        self._stack.close()
