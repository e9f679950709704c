"""Print tokens by model, node, thread or day, as a table and as records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from ckpt_cli.core.usage.prices import PriceList
from ckpt_cli.core.usage.sums import Grouping, UsageSums
from ckpt_cli.render.terminal.safe_text import safe_text
from ckpt_cli.render.terminal.styled_text import StyledLine, line
from ckpt_cli.render.terminal.table import Column, table_lines
from ckpt_cli.render.values.one_line import counted

_KEYS: dict[Grouping, str] = {
    "model": "model",
    "node": "node",
    "thread": "thread_id",
    "day": "day",
}
_MONEY = 6
"""Decimal places of costs."""


def usage_record(found: UsageSums, prices: PriceList) -> dict[str, Any]:
    """Return the answer of `stats --tokens` as JSON."""
    return {
        "threads": found.threads,
        **asdict(found.total),
        "cost": _rounded(found.cost(prices)),
        "currency": prices.currency,
        "unread": found.unread,
        "without_usage": found.without_usage,
        "by": list(usage_records(found, prices)),
    }


def usage_records(found: UsageSums, prices: PriceList) -> Iterator[dict[str, Any]]:
    """Yield one record for each group."""
    names = [_KEYS[one] for one in found.by]
    for row in found.rows(prices):
        yield {
            **dict(zip(names, row.key, strict=True)),
            **asdict(row.tokens),
            "cost": _rounded(row.cost),
        }


def usage_columns(found: UsageSums, prices: PriceList) -> Sequence[Column]:
    """Return the columns of the groups; costs only if there are prices."""
    empty = {"model": "(unnamed)", "node": "(unknown)", "day": "(unknown)"}
    return [
        *(
            Column(one.upper(), _KEYS[one], empty=empty.get(one, ""), style="head")
            for one in found.by
        ),
        Column("MESSAGES", "messages", _grouped, right=True),
        Column("INPUT", "input", _grouped, right=True),
        Column("OUTPUT", "output", _grouped, right=True),
        Column("CACHE READ", "cache_read", _grouped, right=True, drop=2),
        Column("CACHE WRITE", "cache_creation", _grouped, right=True, drop=3),
        Column("REASONING", "reasoning", _grouped, right=True, drop=1),
        Column("TOTAL", "total", _grouped, right=True),
        *(
            [Column(f"COST {prices.currency}", "cost", money, empty="?", right=True)]
            if prices.models
            else []
        ),
    ]


def usage_lines(found: UsageSums, prices: PriceList, top: int, width: int) -> Iterator[StyledLine]:
    """Yield the totals, and a table of the largest groups."""
    total, cost = found.total, found.cost(prices)
    parts = [
        counted(found.threads, "thread"),
        counted(total.messages, "message"),
        f"{_grouped(total.total)} tokens",
    ]
    if cost is not None:
        parts.append(f"{money(cost)} {safe_text(prices.currency)}")
    yield line(", ".join(parts))
    rows = list(usage_records(found, prices))
    if rows:
        yield line("")
        yield from table_lines(rows[:top], usage_columns(found, prices), width)
        if len(rows) > top:
            yield line((f"… and {len(rows) - top} more", "dim"))


def without_usage_note(found: UsageSums) -> str | None:
    """Return a note about messages whose tokens are not known; None if there are none."""
    number = found.without_usage
    if not number:
        return None
    has, their = ("has", "its") if number == 1 else ("have", "their")
    messages = f"{counted(number, 'message')} of models"
    return f"{messages} {has} no usage data: {their} tokens are not known"


def unpriced_note(found: UsageSums, prices: PriceList, *, named: bool) -> str | None:
    """Return a note about models whose tokens are not in the costs; None if there are none."""
    if not prices.models:
        return None
    models = list(found.unpriced(prices))
    if not models:
        return None
    if not named:
        return f"no price for {counted(len(models), 'model')}"
    names = ", ".join("messages that name no model" if one is None else one for one in models)
    return f"no price for {names}"


def money(cost: float) -> str:
    """Return a cost with at least two decimal places, and more if it is small."""
    return f"{cost:,.2f}" if cost >= 1 or not cost else f"{cost:.4f}"


def _grouped(number: int) -> str:
    return f"{number:,}"


def _rounded(cost: float | None) -> float | None:
    return None if cost is None else round(cost, _MONEY)
