"""Add up what tasks wrote, by node and channel, next to the size of the merged values."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

_Key = TypeVar("_Key", bound=Hashable)

CALLER = "(caller)"
"""Shown as the node of `Command(update=...)`."""
UPDATE = "(update_state)"
UNKNOWN = "(unknown)"


@dataclass(frozen=True, slots=True)
class WrittenAmount:
    """Number of writes, and their stored bytes."""

    writes: int
    bytes: int

    @property
    def average(self) -> float:
        """Average bytes of one write."""
        return self.bytes / self.writes if self.writes else 0.0


@dataclass(frozen=True, slots=True)
class ChannelAmount:
    """The stored values of a channel, next to what was written to it."""

    written: WrittenAmount
    values: int
    """Number of stored values."""
    bytes: int
    """Bytes of all stored values, including copies if the layout stores one in each checkpoint."""


@dataclass(slots=True)
class WriteCounts:
    """Sums over some threads."""

    threads: int = 0
    checkpoints: int = 0
    pairs: dict[tuple[str, str], WrittenAmount] = field(default_factory=dict)
    """Writes by (node, channel)."""
    values: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Number and bytes of stored values, by channel."""

    def write(self, node: str, channel: str, size: int) -> None:
        """Count one write."""
        _add(self.pairs, (node, channel), 1, size)

    def value(self, channel: str, size: int) -> None:
        """Count one stored value."""
        count, total = self.values.get(channel, (0, 0))
        self.values[channel] = count + 1, total + size

    def add(self, other: WriteCounts) -> None:
        """Add the sums of another object."""
        self.threads += other.threads
        self.checkpoints += other.checkpoints
        for pair, amount in other.pairs.items():
            _add(self.pairs, pair, amount.writes, amount.bytes)
        for channel, (count, total) in other.values.items():
            here = self.values.get(channel, (0, 0))
            self.values[channel] = here[0] + count, here[1] + total

    @property
    def total(self) -> WrittenAmount:
        """The sum of all writes."""
        amounts = self.pairs.values()
        return WrittenAmount(sum(one.writes for one in amounts), sum(one.bytes for one in amounts))

    def largest(self) -> Iterator[tuple[str, str, WrittenAmount]]:
        """Yield (node, channel, amount), most bytes first."""
        for (node, channel), amount in sorted(
            self.pairs.items(), key=lambda item: (-item[1].bytes, item[0])
        ):
            yield node, channel, amount

    def nodes(self) -> Iterator[tuple[str, WrittenAmount]]:
        """Yield the writes of each node, most writes first."""
        found: dict[str, WrittenAmount] = {}
        for (node, _), amount in self.pairs.items():
            _add(found, node, amount.writes, amount.bytes)
        yield from sorted(found.items(), key=lambda item: (-item[1].writes, item[0]))

    def channels(self) -> Mapping[str, ChannelAmount]:
        """Return each channel that was written or stored, most stored bytes first."""
        written: dict[str, WrittenAmount] = {}
        for (_, channel), amount in self.pairs.items():
            _add(written, channel, amount.writes, amount.bytes)
        names = {*written, *self.values}
        found = {
            name: ChannelAmount(
                written.get(name, WrittenAmount(0, 0)), *self.values.get(name, (0, 0))
            )
            for name in names
        }
        return dict(sorted(found.items(), key=lambda item: (-item[1].bytes, item[0])))


def _add(sums: dict[_Key, WrittenAmount], key: _Key, writes: int, size: int) -> None:
    here = sums.get(key, WrittenAmount(0, 0))
    sums[key] = WrittenAmount(here.writes + writes, here.bytes + size)
