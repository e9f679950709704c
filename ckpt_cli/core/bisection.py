"""Find where a condition begins to hold along a line of checkpoints.

The condition need not be monotonic: it may hold, stop and hold again. A verdict is None if it is
not known whether the condition holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

Verdict = bool | None


@dataclass(frozen=True, slots=True)
class Onset:
    """The place where a condition begins to hold; places count from 0, the oldest."""

    place: int
    from_start: bool
    """No earlier place is known where the condition does not hold."""
    skipped: tuple[int, ...]
    """The places directly before it without a verdict: it may have begun to hold there."""


@dataclass(frozen=True, slots=True)
class OnsetSearch:
    """The result of a search."""

    onset: Onset | None
    """None if the condition holds nowhere."""
    tried: int
    """Number of places that were judged, with or without a verdict."""
    skipped: int
    """Number of these without a verdict."""


def linear(verdicts: Iterable[Verdict]) -> OnsetSearch:
    """Return the first place where the condition holds after one where it does not.

    If it only holds before it first does not, returns the first place. Stops reading when it is
    found.
    """
    earliest: Onset | None = None
    seen_without = False
    skipped: list[int] = []
    tried = without_verdict = 0
    for place, verdict in enumerate(verdicts):
        tried += 1
        if verdict is None:
            without_verdict += 1
            skipped.append(place)
            continue
        if verdict and seen_without:
            return OnsetSearch(Onset(place, False, tuple(skipped)), tried, without_verdict)
        if verdict and earliest is None:
            earliest = Onset(place, True, tuple(skipped))
        seen_without = seen_without or not verdict
        skipped.clear()
    return OnsetSearch(earliest, tried, without_verdict)


def binary(number: int, judge: Callable[[int], Verdict]) -> OnsetSearch:
    """Return a place where the condition begins to hold, by halving; judges few of `number` places.

    If it begins to hold several times, finds one of them. Finds none if the condition does not hold
    at the newest place.
    """
    known: dict[int, Verdict] = {}

    def ask(place: int) -> Verdict:
        if place not in known:
            known[place] = judge(place)
        return known[place]

    def answer(onset: Onset | None) -> OnsetSearch:
        return OnsetSearch(onset, len(known), sum(one is None for one in known.values()))

    low = next((place for place in range(number) if ask(place) is not None), None)
    if low is None:
        return answer(None)
    if known[low]:
        return answer(Onset(low, True, tuple(range(low))))
    high = next(place for place in reversed(range(low, number)) if ask(place) is not None)
    if not known[high]:
        return answer(None)
    while (middle := _nearest_verdict(low, high, ask)) is not None:
        low, high = (low, middle) if known[middle] else (middle, high)
    return answer(Onset(high, False, tuple(range(low + 1, high))))


def _nearest_verdict(low: int, high: int, ask: Callable[[int], Verdict]) -> int | None:
    """Return a place between two that has a verdict, nearest to their middle; None without any."""
    middle = (low + high) // 2
    places = sorted(range(low + 1, high), key=lambda place: abs(place - middle))
    return next((place for place in places if ask(place) is not None), None)
