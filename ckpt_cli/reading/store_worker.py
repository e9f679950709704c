"""Reads a store in a thread of its own, so that an event loop never waits."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Thread
from typing import Any, Generic, TypeVar

from ckpt_backends.errors import CkptError, StoreUnavailable, Unsupported
from ckpt_cli.reading.store import Kept, LiveStore

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class _Query:
    question: Callable[[Any], Any]
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop


class StoreWorker(Generic[Kept]):
    """A store that is opened, queried and closed in one thread, one query after the other.

    The store is refreshed after each answer, so the next answer is current and no idle reader
    blocks a writer. After a lost connection, the next query opens the store again.
    """

    def __init__(
        self, open_store: Callable[[], Kept], failures: deque[Exception] | None = None
    ) -> None:
        self._live = LiveStore(open_store)
        self._failures = failures
        """Gets the errors of all queries, for --debug."""
        self._queue: SimpleQueue[_Query | None] = SimpleQueue()
        self.waiting = 0
        """Number of queries without an answer."""
        self._is_running = False
        # A daemon thread, so that a long query does not keep the program running.
        self._thread = Thread(target=self._run, name="store worker", daemon=True)
        self._thread.start()

    @property
    def load(self) -> int:
        """Number of queries without an answer, and one that runs on though nobody waits for it."""
        return max(self.waiting, int(self._is_running))

    async def ask(self, question: Callable[[Kept], _Answer]) -> _Answer:
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
            self._is_running = True
            try:
                answer, error = self._answer(asked.question), None
            except Exception as caught:
                answer, error = None, caught
                if self._failures is not None:
                    self._failures.append(caught)
            self._is_running = False
            # The loop is closed if the program has ended.
            with suppress(RuntimeError):
                asked.loop.call_soon_threadsafe(_deliver, asked.future, answer, error)
        self._live.drop()

    def _answer(self, question: Callable[[Kept], Any]) -> Any:
        store = self._live.store
        try:
            answer = question(store)
            # A private copy (--copy) cannot be refreshed, because it does not change.
            with suppress(Unsupported):
                store.refresh()
        except StoreUnavailable:
            self._live.drop()
            raise
        except CkptError:
            with suppress(CkptError):
                store.refresh()
            raise
        return answer


def _deliver(future: asyncio.Future[Any], answer: Any, error: Exception | None) -> None:
    if future.cancelled():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(answer)
