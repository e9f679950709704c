"""Works on ranges of threads, in this process or in others, and keeps their order."""

from __future__ import annotations

import heapq
import os
import signal
import sys
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from multiprocessing.reduction import ForkingPickler
from queue import SimpleQueue
from tempfile import SpooledTemporaryFile
from threading import Thread
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

from ckpt_backends.encryption import KEY_VARIABLE
from ckpt_backends.errors import CkptError, PartlyDone, UsageError
from ckpt_backends.protocol import Store
from ckpt_backends.url import VARIABLE, StoreUrl, printable_param, secrets, split_url
from ckpt_cli.ending import ENDING, heed, leave

if TYPE_CHECKING:
    from ckpt_cli.core.reducers import Rules
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


class Each(Generic[Result]):
    """Calls a function of one thread id for each of some parts."""

    def __init__(self, function: Callable[[str], Result]) -> None:
        self._function = function

    def __call__(self, parts: Sequence[Any]) -> Iterator[Result]:
        return (self._function(id_of(one)) for one in parts)


def each(function: Callable[[str], Result]) -> Each[Result]:
    """Return a function of some parts, of one that takes a thread id."""
    return Each(function)


@dataclass(frozen=True, slots=True)
class RangeDone(Generic[Result]):
    """The results of a range, in its order."""

    results: list[Result]
    error: tuple[type[CkptError], dict[str, Any]] | None = None
    """What ended the work: results of later parts are missing. Taken apart, since not every error
    can be sent as it is."""

    def raise_error(self) -> None:
        """Raise what ended the work, if anything did."""
        if self.error is not None:
            kind, fields = self.error
            error = kind.__new__(kind, fields["message"])
            error.__dict__.update(fields)
            raise error


@dataclass(frozen=True, slots=True)
class RangeFailed:
    """A range that raised an unexpected error, or whose worker ended."""

    reason: str
    trace: str = ""


Outcome: TypeAlias = RangeDone[Any] | RangeFailed


def failed(error: Exception) -> RangeFailed:
    """Return what may be told of an unexpected error: its text may contain values."""
    import traceback  # late: it is an error of this program

    name = type(error).__name__
    trace = "".join(traceback.format_tb(error.__traceback__))
    return RangeFailed(f"internal error: {name}", f"{trace}{name}")


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
        return RangeDone(results, (type(error), dict(vars(error))))
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
    attempts = 1
    for part in parts:
        while True:
            outcome = work_through(do, [part], 1)
            if isinstance(outcome, RangeDone):
                yield from outcome.results
                outcome.raise_error()
                break
            attempts += 1
            if attempts == 2:
                lost(LostThread(id_of(part), outcome.reason, outcome.trace))
                break
        attempts = 0


_Item = TypeVar("_Item")
_IN_MEMORY = 4 << 20
_LENGTH = 8


class BatchQueue(Generic[_Item]):
    """Batches in the order in which they were added; most of them in a file without a name.

    The file has the form in which processes send each other objects. No one else can open it.
    """

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 - closed by `close`
        self._start = self._end = 0

    def append(self, batch: list[_Item]) -> None:
        """Add a batch at the end."""
        data = bytes(ForkingPickler.dumps(batch))
        self._file.seek(self._end)
        self._file.write(len(data).to_bytes(_LENGTH, "big"))
        self._file.write(data)
        self._end = self._file.tell()

    def next(self) -> list[_Item] | None:
        """Return the first batch and forget it; None if there is none."""
        if self._start == self._end:
            return None
        self._file.seek(self._start)
        length = int.from_bytes(self._file.read(_LENGTH), "big")
        found: list[_Item] = ForkingPickler.loads(self._file.read(length))
        self._start = self._file.tell()
        return found

    def close(self) -> None:
        """Remove the file."""
        self._file.close()


Weigh = Callable[[Sequence[Any]], Sequence[int]]
"""Returns the bytes of each of some parts."""

MOST_BYTES, LEAST_BYTES = 8 << 20, 128 << 10
"""A range of several threads has at most as many bytes, and no fewer if there are more to give."""
MOST_THREADS = 300
_FIRST_READ, _MOST_READ = 20, 300
"""Threads that are weighed at once: few at first, so that the work begins soon."""
_SHARES = 8
"""The rest of the work is divided into as many ranges for each worker."""
_HEAVY_SHARES = 4
"""A thread is heavy if it is more than one of as many shares of each worker in the rest."""
_MOST_HEAVY = 64


@dataclass(frozen=True, slots=True)
class ThreadRange(Generic[Part]):
    """Threads that follow each other, for one worker."""

    position: int
    """Place of the first thread in the order of all."""
    parts: tuple[Part, ...]
    bytes: int


class Backlog(Generic[Part]):
    """Threads that were not given out yet. They are weighed ahead, and wait in an unnamed file.

    Ranges grow with what is known to be left, and shrink towards the end, so that all workers end
    at about the same time. A heavy thread is given out as soon as it is known.
    """

    def __init__(self, parts: Iterator[Part], weigh: Weigh) -> None:
        self._unread: Iterator[Part] = parts
        self._weigh = weigh
        self._number = _FIRST_READ
        self._weighed: BatchQueue[tuple[Part, int]] = BatchQueue()
        self._front: deque[tuple[Part, int]] = deque()
        self._read = self._position = 0
        self._left = 0
        """Bytes that are weighed and not given out."""
        self._heavy: list[tuple[int, int, Part]] = []
        """A heap of the heaviest threads among these: bytes, negative position, thread."""
        self._given: set[int] = set()
        """Positions of the threads that were given out before their turn."""
        self.is_read = False
        """Whether all threads are weighed."""
        self.error: CkptError | None = None
        """What broke off the list of threads."""

    def close(self) -> None:
        """Remove the file."""
        self._weighed.close()

    def read(self) -> None:
        """Weigh some more threads."""
        some: list[Part] = []
        try:
            for one in islice(self._unread, self._number):
                some.append(one)
            weights = self._weigh(some) if some else ()
        except CkptError as error:
            self.error, weights = error, [LEAST_BYTES] * len(some)
        self.is_read = self.error is not None or len(some) < self._number
        self._number = min(2 * self._number, _MOST_READ)
        weighed = list(zip(some, weights, strict=True))
        if weighed:
            self._weighed.append(weighed)
        for part, weight in weighed:
            self._left += weight
            if weight >= MOST_BYTES:
                self._note_heavy(weight, part)
            self._read += 1

    def _note_heavy(self, weight: int, part: Part) -> None:
        heapq.heappush(self._heavy, (weight, -self._read, part))
        if len(self._heavy) > _MOST_HEAVY:
            heapq.heappop(self._heavy)

    def take_heavy(self, workers: int) -> ThreadRange[Part] | None:
        """Return the heaviest thread before its turn, if the rest would end long before it."""
        self._heavy = [one for one in self._heavy if -one[1] >= self._position]
        if not self._heavy:
            return None
        found = max(self._heavy, key=lambda one: one[:2])
        weight, position, part = found
        if weight * _HEAVY_SHARES * workers < self._left:
            return None
        self._heavy.remove(found)
        heapq.heapify(self._heavy)
        self._left -= weight
        self._given.add(-position)
        return ThreadRange(-position, (part,), weight)

    def take(self, workers: int) -> ThreadRange[Part] | None:
        """Return the next range; None at the end.

        Its bytes are 0 if its only thread was given out before.
        """
        most = min(max(self._left // (_SHARES * workers), LEAST_BYTES), MOST_BYTES)
        parts: list[Part] = []
        start, size = self._position, 0
        while (front := self._peek()) is not None and len(parts) < MOST_THREADS:
            part, weight = front
            is_given = self._position in self._given
            if parts and (is_given or size + weight > most):
                break
            self._front.popleft()
            self._position += 1
            parts.append(part)
            if is_given:
                self._given.remove(start)
                break
            self._left -= weight
            size += weight
        return ThreadRange(start, tuple(parts), size) if parts else None

    def _peek(self) -> tuple[Part, int] | None:
        while not self._front:
            found = self._weighed.next()
            if found is not None:
                self._front.extend(found)
            elif self.is_read:
                return None
            else:
                self.read()
        return self._front[0]


@dataclass(frozen=True, slots=True)
class SentStore:
    """A store as a profile has it: a variable of the environment in place of each secret."""

    text: str
    """The URL, or the absolute path, with `${NAME}`."""
    params: Mapping[str, str]
    redact: bool
    rules: Rules | None = None

    def opening(self) -> Opening:
        """Return how it is opened here. Raises `UsageError` if a variable is not set."""
        from ckpt_cli.config.profiles import Profiles, store_of
        from ckpt_cli.reading.store import Opening

        try:
            url = store_of(Profiles(None, None, {}), "the store", self.text, self.params)
        except UsageError as error:
            error.message += ", on a worker of the cluster"
            raise
        return Opening(url, None, self.redact, self.rules)


def sent_store(opening: Opening) -> SentStore:
    """Return what the workers are told. Raises `UsageError` if that would send a secret."""
    if opening.aes_key_file is not None:
        raise UsageError(
            "the key of --aes-key-file is not sent to a cluster",
            hint=f"set {KEY_VARIABLE} in the environment of the workers",
        )
    url = opening.url
    text = url.written or url.raw
    if "://" not in text and not VARIABLE.search(text):
        text = os.path.abspath(url.path)
    given = {name for name, _ in split_url(text).query}
    params = {
        name: _with_variables(value, url) for name, value in url.params.items() if name not in given
    }
    if _has_secret(url, text, params):
        raise UsageError(
            "a password or another secret in a URL is not sent to a cluster",
            hint="write the URL into a profile with ${NAME} in place of the secret, and set NAME in"
            " the environment of the workers",
        )
    return SentStore(text, params, opening.redact, opening.rules)


def _with_variables(value: str, url: StoreUrl) -> str:
    """Return a parameter as in its profile, if a variable is the whole of it."""
    for name, known in url.variables.items():
        if value == known:
            return f"${{{name}}}"
    return value


def _has_secret(url: StoreUrl, text: str, params: Mapping[str, str]) -> bool:
    """Return whether what is sent has a secret besides variables, or the value of one."""
    plain = url.replaced({}, raw=VARIABLE.sub("", text), written="", variables={})
    hidden = {
        VARIABLE.sub("", value)
        for name, value in params.items()
        if printable_param(url.scheme, name, value) != value
    }
    values = any(one in text for one in url.variables.values() if one for text in params.values())
    return values or bool(secrets(plain) | (hidden - {""}))


_MOST_OPEN = 16
"""Ranges for each worker that were given out and whose turn has not come: their results wait."""
_MOST_ATTEMPTS = 2


@dataclass(slots=True, eq=False)
class Piece:
    """Threads that one worker works on together."""

    parts: Sequence[Any]
    bytes: int
    attempts: int = 0
    """How often it failed."""
    outcome: Outcome | None = None


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


@dataclass(slots=True, eq=False)
class _Turn:
    """A place in the order: the threads of one range, in one piece until it fails."""

    pieces: list[Piece] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        return all(one.outcome is not None for one in self.pieces)


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
        self._turns: deque[_Turn] = deque()
        self._turn_of: dict[Piece, _Turn] = {}
        """The turns of the pieces that have not ended."""
        self._waiting: deque[Piece] = deque()
        """Pieces that no worker has taken yet."""
        self._heavy: dict[int, _Turn] = {}
        """By position: turns that began before their place in the order was reached."""
        self._is_given_out = False

    def results(self) -> Iterator[Any]:
        """Yield the results in the order of the threads."""
        while True:
            self._give_out()
            if self._turns and self._turns[0].is_over:
                yield from self._of(self._turns.popleft())
            elif self._turns or self._turn_of:
                self._attend()
            elif self._is_given_out:
                break
        if self._backlog.error is not None:
            raise self._backlog.error

    def _give_out(self) -> None:
        while self._waiting or self._next():
            if not self._workers.start(self._waiting[0]):
                return
            self._waiting.popleft()

    def _next(self) -> bool:
        """Make the next piece wait for a worker; False if there is none for now."""
        number = self._workers.number
        if len(self._heavy) < number:
            found = self._backlog.take_heavy(number)
            if found is not None:
                self._heavy[found.position] = self._begun(found)
                return True
        while len(self._turns) < _MOST_OPEN * number:
            found = self._backlog.take(number)
            if found is None:
                self._is_given_out = True
                return False
            heavy = self._heavy.pop(found.position, None)
            if heavy is None:
                self._turns.append(self._begun(found))
                return True
            self._turns.append(heavy)
        return False

    def _begun(self, found: ThreadRange[Part]) -> _Turn:
        if self._before is not None:
            self._before(found.parts)
        piece = Piece(found.parts, found.bytes)
        turn = _Turn([piece])
        self._turn_of[piece] = turn
        self._waiting.append(piece)
        return turn

    def _attend(self) -> None:
        """Take what ended. While nothing did, weigh more threads."""
        reads = not self._backlog.is_read
        for piece, outcome in self._workers.ended(wait=not reads):
            turn = self._turn_of.pop(piece)
            if isinstance(outcome, RangeDone):
                piece.outcome = outcome
            else:
                self._try_again(piece, turn, outcome)
            reads = False
        if reads:
            self._backlog.read()

    def _try_again(self, piece: Piece, turn: _Turn, outcome: RangeFailed) -> None:
        """Try each thread of a piece alone, so that only the one that fails is left out."""
        piece.attempts += 1
        if len(piece.parts) == 1 and piece.attempts >= _MOST_ATTEMPTS:
            piece.outcome = outcome
            return
        again = [piece]
        if len(piece.parts) > 1:
            share = piece.bytes // len(piece.parts)
            again = [Piece([one], share) for one in piece.parts]
            place = turn.pieces.index(piece)
            turn.pieces[place : place + 1] = again
        self._turn_of |= dict.fromkeys(again, turn)
        self._waiting.extendleft(reversed(again))

    def _of(self, turn: _Turn) -> Iterator[Any]:
        for piece in turn.pieces:
            if isinstance(piece.outcome, RangeDone):
                yield from piece.outcome.results
                piece.outcome.raise_error()
            elif piece.outcome is not None:
                thread_id = id_of(piece.parts[0])
                self._lose(LostThread(thread_id, piece.outcome.reason, piece.outcome.trace))


def serve(
    connection: Connection[Any, Any], opening: Opening, work: Work[Any, Any], at_once: int
) -> None:
    """Work on the pieces that come through a connection, until it says that there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    heed(leave)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
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
        told: Outcome = RangeDone([], (type(error), dict(vars(error))))
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
