"""Sums of bytes by name, and the largest of them."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

_Key = TypeVar("_Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Amount(Generic[_Key]):
    """What one name takes."""

    key: _Key
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Ranking(Generic[_Key]):
    """The largest amounts, largest first, and what all others take."""

    top: tuple[Amount[_Key], ...]
    more: int
    """How many others there are."""
    more_bytes: int
    total: int
    """Bytes of all."""


class Tally(Generic[_Key]):
    """Adds up amounts by name."""

    def __init__(self) -> None:
        self._sums: dict[_Key, tuple[int, int]] = {}

    def add(self, key: _Key, rows: int, size: int) -> None:
        """Add rows and bytes to a name."""
        old_rows, old_size = self._sums.get(key, (0, 0))
        self._sums[key] = (old_rows + rows, old_size + size)

    def amounts(self) -> Iterable[Amount[_Key]]:
        """All names."""
        return (Amount(key, rows, size) for key, (rows, size) in self._sums.items())


def rank(amounts: Iterable[Amount[_Key]], most: int) -> Ranking[_Key]:
    """The largest of a stream, equal ones in the order of their names; keeps `most` in hand."""
    heap: list[tuple[int, _Reversed, int, Amount[_Key]]] = []
    number = total = 0
    for amount in amounts:
        number += 1
        total += amount.bytes
        item = (amount.bytes, _Reversed(str(amount.key)), -number, amount)
        if len(heap) < most:
            heapq.heappush(heap, item)
        else:
            heapq.heappushpop(heap, item)
    top = tuple(item[-1] for item in sorted(heap, reverse=True))
    rest = total - sum(one.bytes for one in top)
    return Ranking(top, number - len(top), rest, total)


def namespace_kind(checkpoint_ns: str) -> str:
    """A namespace without the ids of tasks: what all calls of a subgraph have in common."""
    parts = [part.partition(":")[0] for part in checkpoint_ns.split("|") if not part.isdigit()]
    return "|".join(parts)


@dataclass(frozen=True, slots=True)
class _Reversed:
    """Text that sorts from z to a."""

    text: str

    def __lt__(self, other: _Reversed) -> bool:
        return self.text > other.text
