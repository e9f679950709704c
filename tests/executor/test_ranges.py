"""Ranges of threads are even by bytes, come in order, and lose and double nothing."""

import random
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from ckpt_backends.errors import StoreUnavailable
from ckpt_cli.reading.workers import (
    MOST_AHEAD,
    MOST_BYTES,
    MOST_THREADS,
    Backlog,
    Outcome,
    Piece,
    RangeDone,
    RangesInOrder,
    Workers,
)

KB, MB, GB = 1 << 10, 1 << 20, 1 << 30


def backlog(weights: Sequence[int]) -> Backlog[int]:
    """Return a backlog whose threads are the numbers of these weights."""
    return Backlog(iter(range(len(weights))), lambda some: [weights[one] for one in some])


def given_out(found: Backlog[Any], workers: int) -> Iterator[Piece]:
    """Yield ranges; as many threads as may be are weighed before each."""
    while True:
        while not found.is_full:
            found.read()
        one = found.take(workers)
        if one is None:
            return
        yield one


class OneAfterTheOther(Workers):
    """Workers that end what began last first, and note what they began."""

    number = 2

    def __init__(self) -> None:
        self.begun: list[Piece] = []
        self._working: list[Piece] = []

    def start(self, piece: Piece) -> bool:
        if len(self._working) == self.number:
            return False
        self._working.append(piece)
        self.begun.append(piece)
        return True

    def ended(self, *, wait: bool) -> Iterator[tuple[Piece, Outcome]]:
        if wait:
            piece = self._working.pop()
            yield piece, RangeDone(list(piece.parts))

    def close(self) -> None:
        pass


def run(found: Backlog[int]) -> tuple[list[int], list[Piece]]:
    workers = OneAfterTheOther()
    return list(RangesInOrder(found, workers, None, lambda _: None).results()), workers.begun


def test_each_thread_is_in_one_range_in_order() -> None:
    numbers = random.Random(5)
    weights = [int(numbers.paretovariate(0.8) * 20 * KB) for _ in range(3000)]
    answers, begun = run(backlog(weights))
    assert answers == list(range(3000))
    assert sorted(chain.from_iterable(one.parts for one in begun)) == list(range(3000))
    assert [one.parts[0] for one in begun] != sorted(one.parts[0] for one in begun)


def test_ranges_are_even_by_bytes_and_not_by_count() -> None:
    numbers = random.Random(6)
    weights = [numbers.randint(20 * KB, 40 * KB) * (1 + 9 * (n % 800 > 600)) for n in range(4000)]
    ranges = list(given_out(backlog(weights), 2))
    assert {one.bytes <= MOST_BYTES for one in ranges} == {True}
    full, counts = zip(*((one.bytes, len(one.parts)) for one in ranges[:9]), strict=True)
    assert max(full) < 1.1 * min(full)
    assert max(counts) > 3 * min(counts)


def test_ranges_become_small_at_the_end() -> None:
    sizes = [one.bytes for one in given_out(backlog([100 * KB] * 2000), 2)]
    assert sizes[0] > 5 * MB
    assert sizes[-1] <= 128 * KB
    assert sizes == sorted(sizes, reverse=True)


def test_a_thread_of_a_gigabyte_begins_before_its_turn() -> None:
    """It begins once it is weighed, and no range waits behind it."""
    number, place = 20_000, 9_000
    answers, begun = run(backlog([GB if one == place else 16 * KB for one in range(number)]))
    assert answers == list(range(number))
    assert all(len(one.parts) <= MOST_THREADS for one in begun)
    (heavy,) = [one for one in begun if place in one.parts]
    assert heavy.parts == [place]
    before = [one for one in begun[begun.index(heavy) + 1 :] if one.parts[0] < place]
    assert len(before) > 5


def test_threads_that_wait_are_not_held_in_memory() -> None:
    read = taken = 0

    def names() -> Iterator[str]:
        nonlocal read
        for read in range(100_000):
            yield f"thread-{read:036}"

    for one in given_out(Backlog(names(), lambda some: [KB] * len(some)), 1):
        taken += len(one.parts)
        assert read <= taken + MOST_AHEAD + 2 * MOST_THREADS
    assert taken == 100_000


def test_a_list_that_breaks_off_gives_what_it_had() -> None:
    def broken() -> Iterator[int]:
        yield from range(30)
        raise StoreUnavailable("gone")

    found: Backlog[int] = Backlog(broken(), lambda some: [KB] * len(some))
    parts = list(chain.from_iterable(one.parts for one in iter(lambda: found.take(1), None)))
    assert parts == list(range(30))
    assert isinstance(found.error, StoreUnavailable)
