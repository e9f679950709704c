"""Works on ranges of threads, in this process or in others, and keeps their order."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for
from multiprocessing.context import SpawnProcess
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

from ckpt_backends.errors import CkptError, PartlyDone, UsageError
from ckpt_backends.platform import ENDING, let_signals_through, signals_held
from ckpt_backends.protocol import Store
from ckpt_cli.ending import heed, leave

if TYPE_CHECKING:
    from ckpt_cli.reading.store import Opening


Part = TypeVar("Part")
Result = TypeVar("Result")
Work: TypeAlias = Callable[[Store], Callable[[Sequence[Part]], Iterable[Result]]]
"""Maps a store to the function that returns one result for each of some parts. Picklable."""
_FIRST = 20
"""Parts that are worked on together at first, so that the first results come soon."""


@dataclass(frozen=True, slots=True)
class LostThread:
    """A thread that was left out."""

    thread_id: str
    reason: str
    trace: str = field(default="", repr=False)
    """Where in the code it happened, without any value; `''` if its worker was killed."""


class WorkFailed(Exception):
    """The cause of an error: what a worker told, for `--debug`."""


def refuse_lost(lost: Sequence[LostThread]) -> None:
    """Raise `PartlyDone` that names threads that were left out."""
    first = lost[0]
    more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
    raise PartlyDone(
        f"left out thread '{first.thread_id}'{more}: {first.reason}",
        hint="try it alone; if it fails again, that is a bug in ckpt: report what --debug prints",
    ) from WorkFailed(first.trace)


def id_of(part: Any) -> str:
    """Return the id of the thread that a part is, or that it is about."""
    return part if isinstance(part, str) else str(part.thread_id)


Each: TypeAlias = Callable[[Sequence[Any]], Iterator[Result]]
"""Returns one result for each of some parts."""


def each(function: Callable[[str], Result]) -> Each[Result]:
    """Return a function of some parts, of one that takes a thread id."""
    return lambda parts: (function(id_of(one)) for one in parts)


@dataclass(frozen=True, slots=True)
class RangeDone(Generic[Result]):
    """The results of a range, in its order."""

    results: list[Result]
    error: CkptError | None = None
    """What ended the work: results of later parts are missing."""


@dataclass(frozen=True, slots=True)
class RangeFailed:
    """A range that raised an unexpected error, or whose worker ended."""

    reason: str
    trace: str = ""


Outcome: TypeAlias = RangeDone[Any] | RangeFailed


def failed(error: Exception) -> RangeFailed:
    """Return what may be told of an unexpected error: its text may contain values."""
    name = type(error).__name__
    trace = "".join(traceback.format_tb(error.__traceback__))
    return RangeFailed(f"internal error: {name}", f"{trace}{name}")


def results_of(outcome: Outcome, part: Any, lost: Callable[[LostThread], None]) -> Iterator[Any]:
    """Yield the results of an outcome, and raise what ended it; `lost` is told if it failed."""
    if isinstance(outcome, RangeFailed):
        lost(LostThread(id_of(part), outcome.reason, outcome.trace))
        return
    yield from outcome.results
    if outcome.error is not None:
        raise outcome.error


def work_through(
    do: Callable[[Sequence[Any]], Iterable[Any]],
    parts: Sequence[Any],
    at_once: int,
    go_on: Callable[[], bool] = lambda: True,
) -> Outcome:
    """Work on a range; `at_once` parts are handed over together.

    Stops before some parts if `go_on` returns false: nobody waits for the outcome then.
    """
    results: list[Any] = []
    try:
        for start in range(0, len(parts), at_once):
            if not go_on():
                break
            results += do(parts[start : start + at_once])
    except CkptError as error:
        return RangeDone(results, error)
    except Exception as error:
        return failed(error)
    return RangeDone(results)


def work_here(
    do: Callable[[Sequence[Any]], Iterable[Result]],
    parts: Iterable[Any],
    at_once: int,
    lost: Callable[[LostThread], None],
) -> Iterator[Result]:
    """Yield the results in this process, each as soon as it is there."""
    remaining, number = iter(parts), min(_FIRST, at_once)
    while some := list(islice(remaining, number)):
        number = min(2 * number, at_once)
        done = 0
        try:
            for result in do(some):
                done += 1
                yield result
        except CkptError:
            raise
        except Exception:
            yield from _one_by_one(do, some[done:], lost)


def _one_by_one(
    do: Callable[[Sequence[Any]], Iterable[Result]],
    parts: Sequence[Any],
    lost: Callable[[LostThread], None],
) -> Iterator[Result]:
    """Yield the results of parts of which the first failed once."""
    for number, part in enumerate(parts):
        outcome = work_through(do, [part], 1)
        if number and isinstance(outcome, RangeFailed):
            outcome = work_through(do, [part], 1)
        yield from results_of(outcome, part, lost)


Weigh = Callable[[Sequence[Any]], Sequence[int]]
"""Returns the bytes of each of some parts."""

MOST_BYTES, LEAST_BYTES = 8 << 20, 128 << 10
"""A range of several threads has at most as many bytes, and no fewer if there are more to give."""
MOST_THREADS = 300
_FIRST_READ, _MOST_READ = 20, 300
"""Threads that are weighed at once: few at first, so that the work begins soon."""
MOST_AHEAD = 3000
"""Threads that are weighed and wait for their range."""
_SHARES = 8
"""What is known to be left is divided into as many ranges for each worker."""
_MOST_OPEN = 16
"""Ranges for each worker whose turn has not come: their threads, or their results, wait."""
_MOST_ATTEMPTS = 2


@dataclass(slots=True, eq=False)
class Piece:
    """Threads that follow each other, on which one worker works together."""

    parts: Sequence[Any]
    bytes: int
    attempts: int = 0
    """How often it failed."""
    outcome: Outcome | None = None


class Backlog(Generic[Part]):
    """Threads that are in no range yet. Some thousands are weighed ahead.

    Ranges grow with what is known to be left, and shrink towards the end, so that all workers end
    at about the same time.
    """

    def __init__(self, parts: Iterator[Part], weigh: Weigh) -> None:
        self._unread: Iterator[Part] = parts
        self._weigh = weigh
        self._number = _FIRST_READ
        self._weighed: deque[tuple[Part, int]] = deque()
        self._left = 0
        """Bytes of these."""
        self._is_read = False
        self.error: CkptError | None = None
        """What broke off the list of threads."""

    @property
    def is_full(self) -> bool:
        """Whether as many threads are weighed as may be, or all."""
        return self._is_read or len(self._weighed) >= MOST_AHEAD

    def read(self) -> None:
        """Weigh some more threads."""
        some: list[Part] = []
        try:
            for one in islice(self._unread, self._number):
                some.append(one)
            weights = self._weigh(some) if some else ()
        except CkptError as error:
            self.error, weights = error, [LEAST_BYTES] * len(some)
        self._is_read = self.error is not None or len(some) < self._number
        self._number = min(2 * self._number, _MOST_READ)
        self._weighed.extend(zip(some, weights, strict=True))
        self._left += sum(weights)

    def take(self, workers: int) -> Piece | None:
        """Return the next range; None at the end."""
        if not (self._weighed or self._is_read):
            self.read()
        most = min(max(self._left // (_SHARES * workers), LEAST_BYTES), MOST_BYTES)
        parts: list[Part] = []
        size = 0
        while self._weighed and len(parts) < MOST_THREADS:
            part, weight = self._weighed[0]
            if parts and size + weight > most:
                break
            self._weighed.popleft()
            parts.append(part)
            size += weight
        self._left -= size
        return Piece(parts, size) if parts else None


class Workers(Protocol):
    """Processes that work on pieces. Not even a killed one loses a piece."""

    @property
    def number(self) -> int:
        """How many there are now, at least 1."""
        ...

    @abstractmethod
    def start(self, piece: Piece) -> bool:
        """Give a piece to a worker; False if each has enough to do."""
        ...

    @abstractmethod
    def ended(self, *, wait: bool) -> Iterator[tuple[Piece, Outcome]]:
        """Yield the pieces that ended since the last call; if asked, wait for the first."""
        ...

    @abstractmethod
    def close(self) -> None:
        """End the workers at once, or what they do for this run."""
        ...


class RangesInOrder(Generic[Part]):
    """One run over all threads of a backlog."""

    def __init__(
        self,
        backlog: Backlog[Part],
        workers: Workers,
        before: Callable[[Sequence[Part]], None] | None,
        lose: Callable[[LostThread], None],
    ) -> None:
        """`before` is told the parts of each range; `lose` the threads left out, in order."""
        self._backlog = backlog
        self._workers = workers
        self._before = before
        self._lose = lose
        self._turns: deque[list[Piece]] = deque()
        """The ranges in their order, each in one piece until it fails."""
        self._new: list[Piece] = []
        self._again: list[Piece] = []
        """Pieces that no worker has taken yet, and those that failed."""

    def results(self) -> Iterator[Any]:
        """Yield the results in the order of the threads."""
        self._give_out()
        while self._turns:
            if all(one.outcome is not None for one in self._turns[0]):
                for piece in self._turns.popleft():
                    if piece.outcome is not None:
                        yield from results_of(piece.outcome, piece.parts[0], self._lose)
            else:
                self._attend()
            self._give_out()
        if self._backlog.error is not None:
            raise self._backlog.error

    def _give_out(self) -> None:
        """Give pieces to workers; the heaviest ones first, for the others to fit in beside them."""
        self._make_ranges()
        while waiting := self._again or self._new:
            piece = max(waiting, key=lambda one: one.bytes if one.bytes >= MOST_BYTES else 0)
            if not self._workers.start(piece):
                return
            waiting.remove(piece)
            if waiting is self._new and self._before is not None:
                self._before(piece.parts)
            self._make_ranges()

    def _make_ranges(self) -> None:
        """Make the next range if none waits, and more of them if enough threads are weighed."""
        number = self._workers.number
        while len(self._turns) < _MOST_OPEN * number and (self._backlog.is_full or not self._new):
            piece = self._backlog.take(number)
            if piece is None:
                return
            self._turns.append([piece])
            self._new.append(piece)

    def _attend(self) -> None:
        """Take what ended. While nothing did, weigh more threads."""
        reads = not self._backlog.is_full
        for piece, outcome in self._workers.ended(wait=not reads):
            piece.attempts += isinstance(outcome, RangeFailed)
            if isinstance(outcome, RangeDone) or (
                len(piece.parts) == 1 and piece.attempts >= _MOST_ATTEMPTS
            ):
                piece.outcome = outcome
            else:
                self._try_again(piece)
            reads = False
        if reads:
            self._backlog.read()

    def _try_again(self, piece: Piece) -> None:
        """Try each thread of a piece alone, so that only the one that fails is left out."""
        if len(piece.parts) == 1:
            self._again.append(piece)
            return
        share = piece.bytes // len(piece.parts)
        alone = [Piece([one], share) for one in piece.parts]
        turn = next(one for one in self._turns if piece in one)
        turn[:] = alone
        self._again += alone


def serve(
    connection: Connection[Any, Any], opening: Opening, work: Work[Any, Any], at_once: int
) -> None:
    """Work on the pieces that come through a connection, until it says that there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    heed(leave)
    let_signals_through(ENDING)
    pieces: SimpleQueue[Any] = SimpleQueue()
    Thread(target=_listen, args=(connection, pieces), daemon=True).start()
    do = _begun(opening, work, at_once)
    while (parts := pieces.get()) is not None:
        connection.send(do(parts))


def _listen(connection: Connection[Any, Any], pieces: SimpleQueue[Any]) -> None:
    """Take pieces at once: the main process must not wait while this one works.

    If the main process was killed, this one ends, too.
    """
    try:
        while (parts := connection.recv()) is not None:
            pieces.put(parts)
        pieces.put(None)
    except (EOFError, OSError):
        os.kill(os.getpid(), signal.SIGTERM)


def _begun(opening: Opening, work: Work[Any, Any], at_once: int) -> Callable[[Any], Outcome]:
    try:
        # The main process already makes the same notes.
        do = work(opening.open(lambda _: None))
    except CkptError as error:
        told: Outcome = RangeDone([], error)
        return lambda _: told
    except Exception as error:
        broken = failed(error)
        return lambda _: broken
    return lambda parts: work_through(do, parts, at_once)


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
        by_connection: dict[Any, _Worker] = {one.connection: one for one in self._workers}
        for ready in wait_for(list(by_connection), None if wait else 0):
            worker = by_connection[ready]
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


def _while_deaf() -> AbstractContextManager[None]:
    """Signals that end this process wait until the context ends: a child process that is only half
    started could not be stopped.

    Child processes started here never receive Ctrl-C; this process stops them instead. They
    receive the other signals once they can clean up.
    """
    return signals_held((signal.SIGINT, *ENDING))
