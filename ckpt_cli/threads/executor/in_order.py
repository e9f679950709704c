"""Gives ranges of threads to workers, and puts the results into the order of the threads."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol

from ckpt_cli.threads.executor.ranges import Backlog, ThreadRange
from ckpt_cli.threads.executor.work import (
    LostThread,
    Outcome,
    Part,
    RangeDone,
    RangeFailed,
    id_of,
)

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
