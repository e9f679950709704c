"""Worker processes of this machine."""

from __future__ import annotations

import os
import signal
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import TYPE_CHECKING, Any

from ckpt_backends.errors import UsageError
from ckpt_cli.ending import ENDING
from ckpt_cli.threads.executor.in_order import Piece, Workers
from ckpt_cli.threads.executor.local_worker import serve
from ckpt_cli.threads.executor.ranges import MOST_BYTES
from ckpt_cli.threads.executor.work import Outcome, RangeFailed, Work

if TYPE_CHECKING:
    from ckpt_cli.threads.opening import Opening

_AHEAD = 2
"""Pieces that a worker has at a time, so that it need not wait for the next."""
_PATIENCE = 5.0
"""Seconds that a process may take to remove its temporary files."""


@dataclass(slots=True, eq=False)
class _Worker:
    process: SpawnProcess
    connection: Connection[Any, Any]
    pieces: deque[Piece] = field(default_factory=deque)
    """What it was given, in the order in which it answers."""

    def give(self, piece: Piece) -> None:
        """Let it work on a piece after those that it has."""
        self.pieces.append(piece)
        with suppress(OSError):  # It was killed; `ended` finds that out.
            self.connection.send(piece.parts)

    @property
    def is_free(self) -> bool:
        """Whether it takes another piece: nothing may wait behind a heavy thread."""
        few = len(self.pieces) < _AHEAD
        return few and all(one.bytes < MOST_BYTES for one in self.pieces)


class Processes(Workers):
    """Processes, each with a store of its own, that are started when there is work for them."""

    def __init__(self, jobs: int, opening: Opening, work: Work[Any, Any], at_once: int) -> None:
        if sys.flags.ignore_environment and not sys.flags.safe_path:
            raise UsageError(
                "cannot start processes under `python -E`: they would run code of this folder",
                hint="also give Python -P, or leave out --jobs",
            )
        self._number = jobs
        self._terms = (opening, work, at_once)
        self._workers: list[_Worker] = []
        # A forked process would share this process's connection.
        self._context = get_context("spawn")
        if hasattr(signal, "pthread_sigmask"):
            # It would start with the first process, and let all signals through then.
            with _away_from_this_folder():
                resource_tracker.ensure_running()

    @property
    def number(self) -> int:
        return self._number

    def start(self, piece: Piece) -> bool:
        if len(self._workers) < self._number and all(one.pieces for one in self._workers):
            self._workers.append(self._begun())
        free = [one for one in self._workers if one.is_free]
        if not free:
            return False
        worker = min(free, key=lambda one: len(one.pieces))
        worker.give(piece)
        return True

    def ended(self, *, wait: bool) -> Iterator[tuple[Piece, Outcome]]:
        by_connection = {one.connection: one for one in self._workers}
        ready = _ready(list(by_connection), None if wait else 0)
        for worker in (by_connection[one] for one in ready):
            try:
                outcome: Outcome = worker.connection.recv()
            except (EOFError, OSError):
                yield from self._killed(worker)
                continue
            yield worker.pieces.popleft(), outcome

    def _killed(self, worker: _Worker) -> Iterator[tuple[Piece, Outcome]]:
        """Yield what a killed worker was working on, and start what it had not begun elsewhere."""
        self._workers.remove(worker)
        worker.connection.close()
        worker.process.join()
        code = worker.process.exitcode or 0
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        left = list(worker.pieces)
        if left:
            yield left[0], RangeFailed(f"it ended its process ({how})")
        if left[1:]:
            again = self._begun()
            self._workers.append(again)
            for piece in left[1:]:
                again.give(piece)

    def _begun(self) -> _Worker:
        here, there = self._context.Pipe()
        process = self._context.Process(target=serve, args=(there, *self._terms), daemon=True)
        with _while_deaf(), _away_from_this_folder():
            process.start()
        there.close()
        return _Worker(process, here)

    def close(self) -> None:
        for one in self._workers:
            if one.pieces:
                one.process.terminate()
            else:
                with suppress(OSError):
                    one.connection.send(None)
        for one in self._workers:
            one.process.join(_PATIENCE)
            if one.process.is_alive():
                one.process.kill()
                one.process.join()
            one.connection.close()


def _ready(connections: list[Connection[Any, Any]], seconds: float | None) -> list[Any]:
    return wait(connections, seconds)


@contextmanager
def _away_from_this_folder() -> Iterator[None]:
    """Let Python processes that are started here import nothing from the current folder.

    They are started by `python -c`, which looks there first: a `json.py` beside a store would run.
    What else this process starts, such as an editor, keeps the variable as the user set it.
    """
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = before


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
