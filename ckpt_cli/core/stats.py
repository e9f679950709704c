"""Sums of what tasks wrote, by node and channel, beside what the merged values take."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

_Key = TypeVar("_Key", bound=Hashable)

CALLER = "(caller)"
"""What stands for the node of `Command(update=...)`."""
UPDATE = "(update_state)"
UNKNOWN = "(unknown)"


@dataclass(frozen=True, slots=True)
class Amount:
    """So many writes, and their stored bytes."""

    writes: int
    bytes: int

    @property
    def average(self) -> float:
        """Bytes of one write."""
        return self.bytes / self.writes if self.writes else 0.0


@dataclass(frozen=True, slots=True)
class Merged:
    """What a channel's values take, beside what was written to it."""

    written: Amount
    values: int
    """So many stored values."""
    bytes: int
    """Of all of them, copies in each checkpoint included where a layout makes them."""


@dataclass(slots=True)
class Stats:
    """Sums over some threads."""

    threads: int = 0
    checkpoints: int = 0
    pairs: dict[tuple[str, str], Amount] = field(default_factory=dict)
    """By node and channel."""
    values: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By channel, how many values are stored, and their bytes."""

    def write(self, node: str, channel: str, size: int) -> None:
        """Count one write."""
        _add(self.pairs, (node, channel), 1, size)

    def value(self, channel: str, size: int) -> None:
        """Count one stored value."""
        count, total = self.values.get(channel, (0, 0))
        self.values[channel] = count + 1, total + size

    def add(self, other: Stats) -> None:
        """Count what another one counted."""
        self.threads += other.threads
        self.checkpoints += other.checkpoints
        for pair, amount in other.pairs.items():
            _add(self.pairs, pair, amount.writes, amount.bytes)
        for channel, (count, total) in other.values.items():
            here = self.values.get(channel, (0, 0))
            self.values[channel] = here[0] + count, here[1] + total

    @property
    def total(self) -> Amount:
        """All writes."""
        amounts = self.pairs.values()
        return Amount(sum(one.writes for one in amounts), sum(one.bytes for one in amounts))

    def largest(self) -> Iterator[tuple[str, str, Amount]]:
        """(node, channel, amount), the most bytes first."""
        for (node, channel), amount in sorted(
            self.pairs.items(), key=lambda item: (-item[1].bytes, item[0])
        ):
            yield node, channel, amount

    def nodes(self) -> Iterator[tuple[str, Amount]]:
        """What each node wrote, the most writes first."""
        found: dict[str, Amount] = {}
        for (node, _), amount in self.pairs.items():
            _add(found, node, amount.writes, amount.bytes)
        yield from sorted(found.items(), key=lambda item: (-item[1].writes, item[0]))

    def channels(self) -> Mapping[str, Merged]:
        """Each channel that was written or stored, the most stored bytes first."""
        written: dict[str, Amount] = {}
        for (_, channel), amount in self.pairs.items():
            _add(written, channel, amount.writes, amount.bytes)
        names = {*written, *self.values}
        found = {
            name: Merged(written.get(name, Amount(0, 0)), *self.values.get(name, (0, 0)))
            for name in names
        }
        return dict(sorted(found.items(), key=lambda item: (-item[1].bytes, item[0])))


def _add(sums: dict[_Key, Amount], key: _Key, writes: int, size: int) -> None:
    here = sums.get(key, Amount(0, 0))
    sums[key] = Amount(here.writes + writes, here.bytes + size)
