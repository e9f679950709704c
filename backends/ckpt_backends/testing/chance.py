"""What a night leaves to chance: random moments and calls, for a bounded time, from one seed.

`CKPT_TEST_SEED=N CKPT_TEST_SECONDS=S python -m pytest -m nightly` chooses both. Without them, the
seed is the number of the day, so that each night tries something else, and each test says how long
it tries one round after the other.
"""

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count
from random import Random
from typing import NamedTuple

import pytest


class Chance(NamedTuple):
    """What a run leaves to chance."""

    seed: int
    seconds: float | None
    """How long each test tries; None for as long as it says itself."""

    def rounds(self, seconds: float = 20, at_least: int = 1) -> Iterator[Random]:
        """Yield the dice of each round until the time is over, but of some rounds in any case."""
        end = time.monotonic() + (self.seconds or seconds)
        for number in count():
            if number >= at_least and time.monotonic() > end:
                return
            # pytest shows this of a test that fails.
            print(f"round {number} of CKPT_TEST_SEED={self.seed}")
            yield Random(f"{self.seed} {number}")


# The workers of a run inherit it, so that all have the same at midnight.
os.environ.setdefault("CKPT_TEST_SEED", str(datetime.now(UTC).toordinal()))
CHANCE = Chance(
    int(os.environ["CKPT_TEST_SEED"]), float(os.environ.get("CKPT_TEST_SECONDS") or 0) or None
)


@pytest.fixture
def chance() -> Chance:
    """What the run leaves to chance."""
    return CHANCE
