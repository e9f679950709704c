"""Add up writes, times and tokens, by node or by other keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Flag, auto
from typing import Literal, get_args

from ckpt_backends.errors import UsageError
from ckpt_cli.core.conversation import TokenCounts
from ckpt_cli.core.timeline import NodeTime
from ckpt_cli.core.usage import PriceList

Grouping = Literal["node", "channel", "model", "thread", "day", "user"]
GROUPINGS: tuple[Grouping, ...] = get_args(Grouping)
Key = tuple[str | None, ...]
"""One entry for each grouping; None for what is not known."""

CALLER = "(caller)"
"""Shown as the node of `Command(update=...)`."""
UPDATE = "(update_state)"
UNKNOWN = "(unknown)"


class StatsPart(Flag):
    """What is counted."""

    WRITES = auto()
    STORED = auto()
    """The size of all stored values of each channel, for which all bodies are read."""
    TIMES = auto()
    TOKENS = auto()


@dataclass(slots=True)
class Amounts:
    """What was written, how long it took, and what it cost in tokens."""

    writes: int = 0
    bytes: int = 0
    """Stored bytes of the writes."""
    time: NodeTime = field(default_factory=NodeTime)
    by_model: dict[str | None, TokenCounts] = field(default_factory=dict)

    @property
    def average(self) -> float:
        """Average bytes of one write."""
        return self.bytes / self.writes if self.writes else 0.0

    @property
    def tokens(self) -> TokenCounts:
        """The tokens of all models."""
        found = TokenCounts()
        for one in self.by_model.values():
            found.add(one)
        return found

    def spend(self, model: str | None, tokens: TokenCounts) -> None:
        """Add the tokens of a message."""
        self.by_model.setdefault(model, TokenCounts()).add(tokens)

    def cost(self, prices: PriceList) -> float | None:
        """Return what the tokens cost; None if no model of them has a price."""
        if prices.models and not self.by_model:
            return 0.0
        costs = [
            price.cost(tokens)
            for model, tokens in self.by_model.items()
            if (price := prices.of(model)) is not None
        ]
        return sum(costs) if costs else None

    def merge(self, other: Amounts) -> None:
        """Add the amounts of another object."""
        self.writes += other.writes
        self.bytes += other.bytes
        self.time.merge(other.time)
        for model, tokens in other.by_model.items():
            self.spend(model, tokens)


@dataclass(frozen=True, slots=True)
class StoredAmount:
    """The stored values of a channel, next to what was written to it."""

    channel: str
    written: Amounts
    values: int
    """Number of stored values."""
    bytes: int
    """Bytes of all stored values, including copies if the layout stores one in each checkpoint."""


@dataclass(slots=True)
class Stats:
    """Sums over some threads."""

    by: tuple[Grouping, ...]
    parts: StatsPart
    threads: int = 0
    checkpoints: int = 0
    steps: int = 0
    """In the root graph, as are these times."""
    running_seconds: float = 0.0
    waiting_seconds: float = 0.0
    idle_seconds: float = 0.0
    """Between two runs."""
    unread: int = 0
    """Number of values that could not be read, whose messages are not counted."""
    without_usage: int = 0
    """Number of messages of models that do not say how many tokens they used."""
    groups: dict[Key, Amounts] = field(default_factory=dict)
    values: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Number and bytes of stored values, by channel."""

    def of(self, **said: str | None) -> Amounts:
        """Return the amounts of a group, by all that is said about what is counted."""
        key = tuple(said.get(one) for one in self.by)
        found = self.groups.get(key)
        if found is None:
            found = self.groups[key] = Amounts()
        return found

    def value(self, channel: str, size: int) -> None:
        """Count one stored value."""
        count, total = self.values.get(channel, (0, 0))
        self.values[channel] = count + 1, total + size

    def add(self, other: Stats) -> None:
        """Add the sums of another object with the same groups."""
        self.threads += other.threads
        self.checkpoints += other.checkpoints
        self.steps += other.steps
        self.running_seconds += other.running_seconds
        self.waiting_seconds += other.waiting_seconds
        self.idle_seconds += other.idle_seconds
        self.unread += other.unread
        self.without_usage += other.without_usage
        for key, amounts in other.groups.items():
            self.groups.setdefault(key, Amounts()).merge(amounts)
        for channel, (count, total) in other.values.items():
            here = self.values.get(channel, (0, 0))
            self.values[channel] = here[0] + count, here[1] + total

    @property
    def total(self) -> Amounts:
        """The sum of all groups."""
        found = Amounts()
        for one in self.groups.values():
            found.merge(one)
        return found

    def rows(self, by: Sequence[Grouping]) -> list[tuple[Key, Amounts]]:
        """Return the sums by some of the keys, the largest first; groups of days by day.

        That is what took the most time, or else used the most tokens, or else wrote most. With
        channels, groups without a write are left out.
        """
        places = [self.by.index(one) for one in by]
        found: dict[Key, Amounts] = {}
        for key, amounts in self.groups.items():
            if "channel" not in by or amounts.writes:
                part = tuple(key[place] for place in places)
                found.setdefault(part, Amounts()).merge(amounts)
        size = _written if "channel" in by else _largest
        rows = sorted(found.items(), key=lambda row: (size(row[1]), [one or "" for one in row[0]]))
        if by[0] == "day":
            rows.sort(key=lambda row: row[0][0] or "")
        return rows

    def channels(self) -> Iterator[StoredAmount]:
        """Yield each channel that was written or stored, most stored bytes first."""
        written = {str(key[0]): amounts for key, amounts in self.rows(["channel"])}
        found = [
            StoredAmount(name, written.get(name, Amounts()), *self.values.get(name, (0, 0)))
            for name in {*written, *self.values}
        ]
        yield from sorted(found, key=lambda one: (-one.bytes, one.channel))

    def unpriced(self, prices: PriceList) -> Iterator[str | None]:
        """Yield the models without a price, each once; None for messages that name none."""
        models = dict.fromkeys(one for amounts in self.groups.values() for one in amounts.by_model)
        return (model for model in models if prices.of(model) is None)


def _largest(one: Amounts) -> tuple[float, ...]:
    return -one.time.seconds.total, -one.tokens.total, -one.bytes


def _written(one: Amounts) -> tuple[float, ...]:
    return (-one.bytes,)


def parse_groupings(texts: Sequence[str]) -> tuple[Grouping, ...]:
    """Return what `--by` names; several may be separated by commas. Raises `UsageError`."""
    found: list[Grouping] = []
    for name in dict.fromkeys(name.strip() for text in texts for name in text.split(",")):
        known = next((one for one in GROUPINGS if one == name), None)
        if known is None:
            raise UsageError(
                f"cannot group by '{name}'", hint=f"use some of {', '.join(GROUPINGS)}"
            )
        found.append(known)
    if "channel" in found and "model" in found:
        raise UsageError(
            "cannot group by channel and model together: writes have no model",
            hint="use --by channel or --by model",
        )
    return tuple(found)


def records_of(by: Sequence[Grouping]) -> StatsPart:
    """Return what can be counted by these keys."""
    if "model" in by:
        return StatsPart.TOKENS
    if "channel" in by:
        return StatsPart.WRITES if len(by) > 1 else StatsPart.WRITES | StatsPart.STORED
    return StatsPart.WRITES | StatsPart.TIMES | StatsPart.TOKENS
