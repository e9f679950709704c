"""Ranges of threads are even by bytes, come in order, and lose and double nothing."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterator, Sequence
from itertools import chain

import pytest

from ckpt_backends.errors import StoreUnavailable
from ckpt_cli.reading.workers import MOST_BYTES, MOST_THREADS, Backlog, ThreadRange

KB, MB, GB = 1 << 10, 1 << 20, 1 << 30


def backlog(weights: Sequence[int]) -> Backlog[int]:
    """Return a backlog whose threads are the numbers of these weights."""
    return Backlog(iter(range(len(weights))), lambda some: [weights[one] for one in some])


def given_out(found: Backlog[int], workers: int) -> Iterator[ThreadRange[int]]:
    """Yield ranges in the order in which they are given out; some are weighed between two."""
    while True:
        if not found.is_read:
            found.read()
        one = found.take_heavy(workers) or found.take(workers)
        if one is None:
            return
        yield one


def test_each_thread_is_in_one_range_in_order() -> None:
    numbers = random.Random(5)
    weights = [int(numbers.paretovariate(0.8) * 20 * KB) for _ in range(3000)]
    early: set[int] = set()
    order: list[int] = []
    for one in given_out(backlog(weights), 3):
        if one.position != len(order):
            early.update(one.parts)
        elif not (set(one.parts) <= early):
            assert not set(one.parts) & early
        if one.position == len(order):
            order.extend(one.parts)
    assert order == list(range(3000))
    assert early


def test_ranges_are_even_by_bytes_and_not_by_count() -> None:
    numbers = random.Random(6)
    weights = [numbers.randint(20 * KB, 40 * KB) * (1 + 9 * (n % 800 > 600)) for n in range(4000)]
    found = backlog(weights)
    while not found.is_read:
        found.read()
    ranges = list(given_out(found, 2))
    assert {one.bytes <= MOST_BYTES for one in ranges} == {True}
    full, counts = zip(*((one.bytes, len(one.parts)) for one in ranges[:9]), strict=True)
    assert max(full) < 1.1 * min(full)
    assert max(counts) > 3 * min(counts)


def test_ranges_become_small_at_the_end() -> None:
    found = backlog([100 * KB] * 2000)
    while not found.is_read:
        found.read()
    sizes = [one.bytes for one in given_out(found, 2)]
    assert sizes[0] > 5 * MB
    assert sizes[-1] <= 128 * KB
    assert sizes == sorted(sizes, reverse=True)


def test_many_threads_without_bytes_are_divided_too() -> None:
    found = backlog([16 * KB] * 1000)
    while not found.is_read:
        found.read()
    ranges = list(given_out(found, 2))
    assert all(len(one.parts) <= MOST_THREADS for one in ranges)
    assert len(ranges) > 16


@pytest.mark.parametrize("place", [0, 60_000, 99_999])
def test_a_thread_of_a_gigabyte_is_not_the_tail(place: int) -> None:
    """It begins once it is weighed, long before its turn, and no range waits behind it."""
    number = 100_000
    found: Backlog[int] = Backlog(
        iter(range(number)), lambda some: [GB if one == place else KB for one in some]
    )
    while not found.is_read:
        found.read()
    first = found.take_heavy(2)
    assert first is not None
    assert first.parts == (place,)
    assert found.take_heavy(2) is None
    turns = list(iter(lambda: found.take(2), None))
    assert sum(len(one.parts) for one in turns) == number
    (turn,) = [one for one in turns if place in one.parts]
    assert (turn.parts, turn.bytes) == ((place,), 0)


def test_heavy_threads_that_are_all_alike_keep_their_order() -> None:
    found = backlog([100 * MB] * 200)
    while not found.is_read:
        found.read()
    assert found.take_heavy(2) is None
    first = found.take(2)
    assert first is not None
    assert first.parts == (0,)


def test_threads_that_wait_are_not_held_in_memory() -> None:
    names = (f"thread-{n:036}" for n in range(100_000))
    found: Backlog[str] = Backlog(names, lambda some: [KB] * len(some))
    tracemalloc.start()
    try:
        while not found.is_read:
            found.read()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5 * MB  # 4 of them are the part of the file that is in memory
    parts = chain.from_iterable(one.parts for one in iter(lambda: found.take(1), None))
    assert sum(1 for _ in parts) == 100_000


def test_a_list_that_breaks_off_gives_what_it_had() -> None:
    def broken() -> Iterator[int]:
        yield from range(30)
        raise StoreUnavailable("gone")

    found: Backlog[int] = Backlog(broken(), lambda some: [KB] * len(some))
    parts = list(chain.from_iterable(one.parts for one in iter(lambda: found.take(1), None)))
    assert parts == list(range(30))
    assert isinstance(found.error, StoreUnavailable)
