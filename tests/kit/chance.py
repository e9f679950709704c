"""Random moments and calls, for a bounded time, from a seed that a run can be repeated with.

`CKPT_TEST_SEED=N CKPT_TEST_SECONDS=S python -m pytest -m nightly` chooses both. Without them, the
seed is the day, so that each night tries something else, and a test takes a minute.
"""

from __future__ import annotations

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

    seed: str
    seconds: float
    """How long a test tries one round after the other."""

    def rounds(self, at_least: int = 1) -> Iterator[Random]:
        """Yield the dice of each round until the time is over, but of some rounds in any case."""
        end = time.monotonic() + self.seconds
        for number in count():
            if number >= at_least and time.monotonic() > end:
                return
            # pytest shows this of a test that fails.
            print(f"round {number} of CKPT_TEST_SEED={self.seed}")
            yield Random(f"{self.seed} {number}")


_CHANCE = Chance(
    os.environ.get("CKPT_TEST_SEED") or f"{datetime.now(UTC):%Y%m%d}",
    float(os.environ.get("CKPT_TEST_SECONDS") or 60),
)


@pytest.fixture
def chance() -> Chance:
    """What the run leaves to chance."""
    return _CHANCE


def pytest_report_header() -> str:
    """Say how the run is repeated."""
    return f"chance: CKPT_TEST_SEED={_CHANCE.seed}, {_CHANCE.seconds:g} s for each test of it"
