"""Ranges of threads that are even by bytes, from an iterator of any length."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, TypeVar

from ckpt_backends.errors import CkptError
from ckpt_cli.threads.executor.batch_queue import BatchQueue

Part = TypeVar("Part")
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
