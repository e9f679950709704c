"""Sum up the tokens of messages by model, node, thread or day."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Literal, get_args

from ckpt_backends.errors import UsageError
from ckpt_cli.core.usage.prices import PriceList
from ckpt_cli.core.usage.tokens import TokenCounts

Grouping = Literal["model", "node", "thread", "day"]
GROUPINGS: tuple[Grouping, ...] = get_args(Grouping)


@dataclass(frozen=True, slots=True)
class CountedMessage:
    """A message with its tokens, and what it is counted for."""

    thread_id: str
    model: str | None
    shown_model: str | None
    """The same; None if it must not be shown."""
    node: str | None
    """The path of the node that wrote it."""
    day: date | None
    tokens: TokenCounts


@dataclass(frozen=True, slots=True)
class UsageRow:
    """The messages of one group."""

    key: tuple[str | None, ...]
    """One entry for each grouping; None if a message does not say it."""
    tokens: TokenCounts
    cost: float | None
    """None if no model of the group has a price."""


@dataclass(slots=True)
class UsageSums:
    """The tokens of some threads, by model and by the groups asked for."""

    by: tuple[Grouping, ...] = ("model",)
    threads: int = 0
    unread: int = 0
    """Number of values that could not be read, whose messages are not counted."""
    without_usage: int = 0
    """Number of messages of models that do not say how many tokens they used."""
    groups: dict[tuple[str | None, ...], TokenCounts] = field(default_factory=dict)
    """By model, followed by the groups."""

    def count(self, message: CountedMessage) -> None:
        """Add one message."""
        said = {
            "model": message.shown_model,
            "node": message.node,
            "thread": message.thread_id,
            "day": None if message.day is None else message.day.isoformat(),
        }
        key = (message.model, *(said[one] for one in self.by))
        self.groups.setdefault(key, TokenCounts()).add(message.tokens)

    def add(self, other: UsageSums) -> None:
        """Add the sums of another object with the same groups."""
        self.threads += other.threads
        self.unread += other.unread
        self.without_usage += other.without_usage
        for key, tokens in other.groups.items():
            self.groups.setdefault(key, TokenCounts()).add(tokens)

    @property
    def total(self) -> TokenCounts:
        """The tokens of all messages."""
        found = TokenCounts()
        for tokens in self.groups.values():
            found.add(tokens)
        return found

    def rows(self, prices: PriceList) -> list[UsageRow]:
        """Return the groups, the most tokens first; groups of days by day."""
        found: dict[tuple[str | None, ...], tuple[TokenCounts, list[float]]] = {}
        for (model, *key), tokens in self.groups.items():
            counts, costs = found.setdefault(tuple(key), (TokenCounts(), []))
            counts.add(tokens)
            if (price := prices.of(model)) is not None:
                costs.append(price.cost(tokens))
        rows = [
            UsageRow(key, counts, sum(costs) if costs else None)
            for key, (counts, costs) in found.items()
        ]
        rows.sort(key=lambda row: (-row.tokens.total, [one or "" for one in row.key]))
        if self.by[0] == "day":
            rows.sort(key=lambda row: row.key[0] or "")
        return rows

    def cost(self, prices: PriceList) -> float | None:
        """Return what all messages cost; None if no model has a price."""
        costs = [row.cost for row in self.rows(prices) if row.cost is not None]
        return sum(costs) if costs else None

    def unpriced(self, prices: PriceList) -> Iterator[str | None]:
        """Yield the models without a price, each once; None for messages that name none."""
        models = dict.fromkeys(key[0] for key in self.groups)
        return (model for model in models if prices.of(model) is None)


def parse_groupings(texts: Sequence[str]) -> tuple[Grouping, ...]:
    """Return what `--by` names; several may be separated by commas. Raises `UsageError`."""
    names = [name.strip() for text in texts for name in text.split(",")]
    found: list[Grouping] = []
    for name in dict.fromkeys(names):
        known = next((one for one in GROUPINGS if one == name), None)
        if known is None:
            raise UsageError(
                f"cannot group by '{name}'", hint=f"use some of {', '.join(GROUPINGS)}"
            )
        found.append(known)
    return tuple(found) or ("model",)
