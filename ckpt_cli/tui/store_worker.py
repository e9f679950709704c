"""Run queries in a separate thread, so that the screen never waits."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Thread
from typing import Any, Generic, Protocol, TypeVar

from ckpt_backends.errors import CkptError, StoreUnavailable, Unsupported


class _Kept(Protocol):
    """A store of threads or of long-term memory."""

    def refresh(self) -> None: ...

    def close(self) -> None: ...


_Answer = TypeVar("_Answer")
_Store = TypeVar("_Store", bound=_Kept)


@dataclass(frozen=True, slots=True)
class _Query:
    question: Callable[[Any], Any]
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop


class StoreWorker(Generic[_Store]):
    """A store that is opened, queried and closed in one thread, one query after the other.

    The store is refreshed after each answer, so the next answer is current and no idle reader
    blocks a writer. After a lost connection, the next query opens the store again.
    """

    def __init__(
        self, open_store: Callable[[], _Store], failures: deque[Exception] | None = None
    ) -> None:
        self._open_store = open_store
        self._failures = failures
        """Gets the errors of all queries, for --debug."""
        self._store: _Store | None = None
        self._queue: SimpleQueue[_Query | None] = SimpleQueue()
        self.waiting = 0
        """Number of queries without an answer."""
        # A daemon thread, so that a long query does not keep the program running.
        self._thread = Thread(target=self._run, name="store worker", daemon=True)
        self._thread.start()

    async def ask(self, question: Callable[[_Store], _Answer]) -> _Answer:
        """Run a query in the worker and return its answer; it can be cancelled before its turn.

        Raises what the query raises, and what opening the store raises.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_Answer] = loop.create_future()
        self.waiting += 1
        try:
            self._queue.put(_Query(question, future, loop))
            return await future
        finally:
            self.waiting -= 1

    def close(self) -> None:
        """Close the store after the last query."""
        self._queue.put(None)

    def join(self, seconds: float) -> None:
        """Wait until the worker is closed, at most this number of seconds."""
        self._thread.join(seconds)

    def _run(self) -> None:
        while (asked := self._queue.get()) is not None:
            if asked.future.cancelled():
                continue
            try:
                answer, error = self._answer(asked.question), None
            except Exception as caught:
                answer, error = None, caught
                if self._failures is not None:
                    self._failures.append(caught)
            # The loop is closed if the program has ended.
            with suppress(RuntimeError):
                asked.loop.call_soon_threadsafe(_deliver, asked.future, answer, error)
        self._drop()

    def _answer(self, question: Callable[[_Store], Any]) -> Any:
        if self._store is None:
            self._store = self._open_store()
        try:
            answer = question(self._store)
            # A private copy (--copy) cannot be refreshed, because it does not change.
            with suppress(Unsupported):
                self._store.refresh()
        except StoreUnavailable:
            self._drop()
            raise
        except CkptError:
            with suppress(CkptError):
                self._store.refresh()
            raise
        return answer

    def _drop(self) -> None:
        if self._store is not None:
            with suppress(Exception):
                self._store.close()
            self._store = None


def _deliver(future: asyncio.Future[Any], answer: Any, error: Exception | None) -> None:
    if future.cancelled():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(answer)
