"""Do the same work for many threads, in one process or in several."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from ckpt_backends.errors import CkptError
from ckpt_backends.protocol import Store
from ckpt_cli.ending import ENDING, Ended, heed, leave

if TYPE_CHECKING:
    from concurrent.futures import Future

    from ckpt_cli.threads.opening import Opening

_Part = TypeVar("_Part")
_Result = TypeVar("_Result")
Work: TypeAlias = Callable[[Store], Callable[[_Part], _Result]]
"""Maps a store to the function that processes one part: a thread id, or several. Picklable, as are
the parts and the results."""


def of_threads(
    store: Store, opening: Opening, parts: Iterable[_Part], work: Work[_Part, _Result], jobs: int
) -> Iterator[_Result]:
    """Yield the result for each part, in the order of the parts.

    With several jobs, each process opens the store itself, and only a few parts are in progress at
    a time.
    """
    parts = iter(parts)
    if jobs == 1:
        yield from map(work(store), parts)
        return
    # The import takes 20 ms.
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import active_children, get_context

    # A forked process would share this process's connection.
    with ProcessPoolExecutor(
        jobs, mp_context=get_context("spawn"), initializer=_open, initargs=(opening, work)
    ) as pool:

        def submit(most: int) -> list[Future[_Result]]:
            some = list(islice(parts, most))  # may read the store
            with _while_deaf():
                return [pool.submit(_do, one) for one in some]

        under_way: deque[Future[_Result]] = deque()
        try:
            under_way.extend(submit(4 * jobs))
            while under_way:
                yield under_way.popleft().result()
                under_way.extend(submit(1))
        except Ended:
            # Do not wait for long threads.
            for child in active_children():
                child.terminate()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _while_deaf() -> Iterator[None]:
    """Signals that end this process wait until the context ends: a child process that is only half
    started could not be stopped.

    Child processes started here never receive Ctrl-C; this process stops them instead. They
    receive the other signals once they can clean up.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, *ENDING})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_here: Callable[[Any], Any] | None = None
"""In a worker process of `of_threads`: the function that processes a part."""


def _open(opening: Opening, work: Work[Any, Any]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    heed(leave)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    global _here  # noqa: PLW0603 - a process of the pool has no other place to keep its store
    try:
        # The main process already makes the same notes.
        _here = work(opening.open(lambda _: None))
    except CkptError as error:  # an error raised here would end the pool and be lost
        _here = partial(_fail, error)


def _fail(error: CkptError, _: object) -> None:
    raise error


def _do(part: Any) -> Any:
    assert _here is not None  # noqa: S101
    return _here(part)
