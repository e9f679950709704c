"""Add up bytes by name, and find the largest sums."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

_Key = TypeVar("_Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class ByteSum(Generic[_Key]):
    """Rows and bytes of one name."""

    key: _Key
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Ranking(Generic[_Key]):
    """The largest amounts, largest first, and the sum of all others."""

    top: tuple[ByteSum[_Key], ...]
    more: int
    """Number of the others."""
    more_bytes: int
    total: int
    """Bytes of all names."""


class SizeTally(Generic[_Key]):
    """Adds up rows and bytes by name."""

    def __init__(self) -> None:
        self._sums: dict[_Key, tuple[int, int]] = {}

    def add(self, key: _Key, rows: int, size: int) -> None:
        """Add rows and bytes to a name."""
        old_rows, old_size = self._sums.get(key, (0, 0))
        self._sums[key] = (old_rows + rows, old_size + size)

    def amounts(self) -> Iterable[ByteSum[_Key]]:
        """Return the amounts of all names."""
        return (ByteSum(key, rows, size) for key, (rows, size) in self._sums.items())


def rank(amounts: Iterable[ByteSum[_Key]], most: int) -> Ranking[_Key]:
    """Return the `most` largest amounts of a stream, which alone are held in memory."""
    heap: list[tuple[int, _Reversed, int, ByteSum[_Key]]] = []
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


@dataclass(frozen=True, slots=True)
class _Reversed:
    """Text that sorts in reverse order."""

    text: str

    def __lt__(self, other: _Reversed) -> bool:
        return self.text > other.text
