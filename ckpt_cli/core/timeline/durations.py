"""Sum durations and rank them, in a bounded amount of memory."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable

_EXACT = 10_000
"""Number of durations that are kept as they are; more are counted in buckets."""
_GROWTH = 1.02
"""Ratio of the bounds of a bucket, so that an estimate is off by 1 % at most."""
_SHORTEST = 1e-6
"""Seconds; the times that stores keep are not finer."""


class Durations:
    """Durations in seconds. Percentiles are estimated if there are more than 10,000."""

    def __init__(self, seconds: Iterable[float] = ()) -> None:
        self.count = 0
        self.total = 0.0
        self.longest: float | None = None
        self._exact = array("d")
        self._buckets: Counter[int] = Counter()
        for one in seconds:
            self.add(one)

    @property
    def is_estimated(self) -> bool:
        """Whether percentiles are estimates."""
        return bool(self._buckets)

    def add(self, seconds: float) -> None:
        """Add one duration."""
        self.count += 1
        self.total += seconds
        self.longest = seconds if self.longest is None else max(self.longest, seconds)
        if self._buckets:
            self._buckets[_bucket(seconds)] += 1
            return
        self._exact.append(seconds)
        if len(self._exact) > _EXACT:
            self._fold()

    def merge(self, other: Durations) -> None:
        """Add the durations of another object."""
        self.count += other.count
        self.total += other.total
        known = [one.longest for one in (self, other) if one.longest is not None]
        self.longest = max(known, default=None)
        self._exact.extend(other._exact)
        self._buckets.update(other._buckets)
        if self._buckets or len(self._exact) > _EXACT:
            self._fold()

    def percentile(self, percent: float) -> float | None:
        """Return the smallest duration that is not exceeded by so many percent of them.

        Returns None if there are none.
        """
        if not self.count:
            return None
        rank = max(1, math.ceil(self.count * percent / 100))
        if not self._buckets:
            return sorted(self._exact)[rank - 1]
        passed = 0
        for bucket in sorted(self._buckets):
            passed += self._buckets[bucket]
            if passed >= rank:
                return min(_middle(bucket), self.longest or 0.0)
        return self.longest

    def _fold(self) -> None:
        """Count the durations that were kept as they are in buckets."""
        self._buckets.update(map(_bucket, self._exact))
        self._exact = array("d")


def _bucket(seconds: float) -> int:
    return math.ceil(math.log(max(seconds, _SHORTEST) / _SHORTEST, _GROWTH))


def _middle(bucket: int) -> float:
    return _SHORTEST * _GROWTH**bucket * 2 / (1 + _GROWTH)
