"""What runs in a worker of a Dask cluster.

A worker works on one range at a time, however many threads it has, in a thread of its own that
also has the store. The store is closed when no range has come for some seconds, so that a worker
whose client was killed holds no connection.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any

from ckpt_backends.encryption import KEY_VARIABLE
from ckpt_backends.errors import CkptError, UsageError
from ckpt_backends.installing import release
from ckpt_backends.protocol import Store
from ckpt_backends.url import masked, without_values
from ckpt_cli.threads.executor.sent_store import SentStore
from ckpt_cli.threads.executor.work import Outcome, RangeDone, Work, failed, work_through
from ckpt_cli.threads.opening import Opening

_IDLE_SECONDS = 5.0
_MOST_STOPPED = 100


@dataclass(frozen=True, slots=True)
class SentRange:
    """A range as it travels to a worker."""

    run: str
    """A random name of the run."""
    release: str
    store: SentStore
    work: Work[Any, Any]
    parts: Sequence[Any]
    at_once: int


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """What a worker tells about itself."""

    release: str
    has_key: bool
    """Whether a key for encrypted values is in its environment."""


def worker_facts() -> WorkerFacts:
    """Return what is true here."""
    return WorkerFacts(release(), KEY_VARIABLE in os.environ)


def work_on(sent: SentRange) -> Outcome:
    """Work on a range. Never raises: Dask would log the error, and what it was about."""
    answer: Future[Outcome] = Future()
    with _lock:
        _queue.put((sent, answer))
        _ensure_thread()
    return answer.result()


def stop_run(run: str) -> None:
    """End the ranges of a run that are under way here, each after the thread it has begun."""
    _stopped[run] = None
    for old in list(_stopped)[:-_MOST_STOPPED]:
        del _stopped[old]


_lock = Lock()
_queue: SimpleQueue[tuple[SentRange, Future[Outcome]]] = SimpleQueue()
_thread: Thread | None = None
_stopped: dict[str, None] = {}
"""The runs that were stopped last."""


def _ensure_thread() -> None:
    global _thread  # noqa: PLW0603 - a worker process has no other place for it
    if _thread is None:
        _thread = Thread(target=_serve, name="ckpt", daemon=True)
        _thread.start()


def _serve() -> None:
    global _thread  # noqa: PLW0603 - as above
    desk = _Desk()
    try:
        while True:
            try:
                sent, answer = _queue.get(timeout=_IDLE_SECONDS)
            except Empty:
                with _lock:
                    if _queue.empty():
                        _thread = None
                        return
                continue
            try:
                answer.set_result(desk.work_on(sent))
            except BaseException as error:
                answer.set_result(failed(RuntimeError(type(error).__name__)))
    finally:
        desk.close()


class _Desk:
    """The store of one run at a time."""

    def __init__(self) -> None:
        self._run = ""
        self._release = release()
        self._store: Store | None = None
        self._do: Callable[[Any], Any] | None = None

    def work_on(self, sent: SentRange) -> Outcome:
        if sent.release != self._release:
            error = UsageError(
                f"a worker has ckpt {self._release}, not {sent.release}",
                hint="install the same version on all workers",
            )
            return RangeDone([], (UsageError, dict(vars(error))))
        opening: Opening | None = None
        try:
            opening = sent.store.opening()
            do = self._work_of(sent, opening)
        except CkptError as error:
            return _without_secrets(RangeDone([], (type(error), dict(vars(error)))), opening)
        except Exception as error:
            return failed(error)
        outcome = work_through(do, sent.parts, sent.at_once, lambda: sent.run not in _stopped)
        return _without_secrets(outcome, opening)

    def _work_of(self, sent: SentRange, opening: Opening) -> Callable[[Any], Any]:
        if self._do is None or self._run != sent.run:
            self.close()
            self._store = opening.open(lambda _: None)
            self._do = sent.work(self._store)
            self._run = sent.run
        return self._do

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
        self._store = self._do = None


def _without_secrets(outcome: Outcome, opening: Opening | None) -> Outcome:
    """Return an outcome whose error does not quote the environment of this worker."""
    if opening is not None and isinstance(outcome, RangeDone) and outcome.error is not None:
        fields = outcome.error[1]
        for name in ("message", "hint"):
            if isinstance(fields[name], str):
                text = masked(fields[name], opening.url)
                fields[name] = without_values(text, opening.url)
    return outcome
