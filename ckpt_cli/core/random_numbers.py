"""The random numbers of plans: of new ids and versions.

A saved plan has a seed, so that planning again gives the same ids.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from uuid import UUID

_BITS_OF_ID = 128
_SYSTEM = random.SystemRandom()
_seed: ContextVar[str | None] = ContextVar("seed", default=None)
_numbers: ContextVar[random.Random] = ContextVar("numbers")


def random_bits(number: int) -> int:
    """Return an integer of at most this number of random bits."""
    return _numbers.get(_SYSTEM).getrandbits(number)


def random_fraction() -> float:
    """Return a number from 0 up to 1."""
    return _numbers.get(_SYSTEM).random()


def random_id() -> str:
    """Return a UUID of version 4."""
    return str(UUID(int=random_bits(_BITS_OF_ID), version=4))


def new_seed() -> str:
    """Return a seed that nobody can guess."""
    return os.urandom(16).hex()


@contextmanager
def seeded(seed: str) -> Iterator[None]:
    """Draw all random numbers from a seed: the same seed gives the same numbers."""
    numbers = _numbers.set(random.Random(seed))  # noqa: S311 - ids need not be secret
    named = _seed.set(seed)
    try:
        yield
    finally:
        _seed.reset(named)
        _numbers.reset(numbers)


@contextmanager
def seeded_for(name: str) -> Iterator[None]:
    """Draw them from a seed of this name, if there is a seed: whatever was drawn before."""
    seed = _seed.get()
    if seed is None:
        yield
        return
    with seeded(f"{seed}/{name}"):
        yield
