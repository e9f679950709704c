"""Print what was written, how long it took and what it cost, as a table and as records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from ckpt_cli.core.stats import UNKNOWN, Amounts, Grouping, Key, Stats, StatsPart
from ckpt_cli.core.usage.prices import PriceList
from ckpt_cli.render.disk_usage import share_text
from ckpt_cli.render.terminal.safe_text import safe_text
from ckpt_cli.render.terminal.styled_text import StyledLine, line
from ckpt_cli.render.terminal.table import Column, table_lines
from ckpt_cli.render.terminal.units import duration, size
from ckpt_cli.render.timeline import node_record, node_remarks, remark_lines
from ckpt_cli.render.values.one_line import counted

_KEYS: dict[Grouping, str] = {
    **{"node": "node", "channel": "channel", "model": "model"},
    **{"thread": "thread_id", "day": "day", "user": "user"},
}
_MONEY = 6
"""Decimal places of costs."""


def stats_record(found: Stats, prices: PriceList, by: Sequence[Grouping] | None) -> dict[str, Any]:
    """Return the answer of `stats` as JSON: by these keys, or by node and in more detail."""
    total, parts = found.total, found.parts
    record: dict[str, Any] = {"threads": found.threads}
    if StatsPart.WRITES in parts:
        record |= {
            "checkpoints": found.checkpoints,
            "writes": total.writes,
            "bytes": total.bytes,
        }
    if StatsPart.TIMES in parts:
        record |= {
            "steps": found.steps,
            "runs": total.time.runs,
            "running_seconds": round(found.running_seconds, 6),
            "waiting_seconds": round(found.waiting_seconds, 6),
            "idle_seconds": round(found.idle_seconds, 6),
        }
    if StatsPart.TOKENS in parts:
        record |= {
            **_token_record(total, prices),
            "currency": prices.currency,
            "unread": found.unread,
            "without_usage": found.without_usage,
        }
    if by is not None:
        return record | {"by": list(stats_records(found, prices, by))}
    return record | {
        "nodes": list(stats_records(found, prices, ["node"])),
        "by": list(_written_records(found, ["node", "channel"])),
        "channels": list(_channel_records(found)),
    }


def stats_records(
    found: Stats, prices: PriceList, by: Sequence[Grouping]
) -> Iterator[dict[str, Any]]:
    """Yield one record for each group, the largest first."""
    if list(by) == ["channel"]:
        yield from _channel_records(found)
    elif "channel" in by:
        yield from _written_records(found, by)
    elif "model" in by:
        for key, amounts in found.rows(by):
            yield {**_key(by, key), **_token_record(amounts, prices)}
    else:
        for key, amounts in found.rows(by):
            yield {
                **_key(by, key),
                **node_record(amounts.time),
                **_written_record(amounts),
                **_token_record(amounts, prices),
            }


def _key(by: Sequence[Grouping], key: Key) -> dict[str, Any]:
    return dict(zip((_KEYS[one] for one in by), key, strict=True))


def _token_record(one: Amounts, prices: PriceList) -> dict[str, Any]:
    tokens, cost = one.tokens, one.cost(prices)
    rounded = None if cost is None else round(cost, _MONEY)
    return {"tokens": tokens.total, **asdict(tokens), "cost": rounded}


def _written_record(one: Amounts) -> dict[str, Any]:
    return {"writes": one.writes, "bytes": one.bytes, "average": round(one.average, 1)}


def _written_records(found: Stats, by: Sequence[Grouping]) -> Iterator[dict[str, Any]]:
    total = found.total.bytes
    for key, amounts in found.rows(by):
        share = round(amounts.bytes / total, 4) if total else 0.0
        yield {**_key(by, key), **_written_record(amounts), "share": share}


def _channel_records(found: Stats) -> Iterator[dict[str, Any]]:
    for one in found.channels():
        written = one.written.bytes
        yield {
            "channel": one.channel,
            "writes": one.written.writes,
            "bytes": written,
            "values": one.values,
            "merged_bytes": one.bytes,
            "ratio": round(one.bytes / written, 2) if written else None,
        }


def stats_columns(
    by: Sequence[Grouping], prices: PriceList, *, unicode: bool = True
) -> list[Column]:
    """Return the columns of the groups; costs only if there are prices."""
    if list(by) == ["channel"]:
        return [
            Column("CHANNEL", "channel", style="head"),
            Column("WRITES", "writes", table=False),
            Column("WRITTEN", "bytes", size, right=True),
            Column("VALUES", "values", right=True),
            Column("STORED", "merged_bytes", size, right=True),
            Column("RATIO", "ratio", lambda n: f"{n:.1f}×", right=True),
        ]
    empty = {"model": "(unnamed)", "day": UNKNOWN, "user": UNKNOWN}
    keys = [
        Column(
            one.upper(),
            _KEYS[one],
            empty=empty.get(one, ""),
            style="node" if one == "node" else "head",
        )
        for one in by
    ]
    if "channel" in by:
        return [
            *keys,
            Column("WRITES", "writes", right=True),
            Column("SIZE", "bytes", size, right=True),
            Column("AVERAGE", "average", lambda n: size(round(n)), right=True, drop=2),
            Column("SHARE", "share", share_text(unicode=unicode), drop=1),
        ]
    cost = Column(f"COST {prices.currency}", "cost", _money, empty="?", right=True)
    if "model" in by:
        return [
            *keys,
            Column("MESSAGES", "messages", _grouped, right=True),
            Column("INPUT", "input", _grouped, right=True),
            Column("OUTPUT", "output", _grouped, right=True),
            Column("CACHE READ", "cache_read", _grouped, right=True, drop=2),
            Column("CACHE WRITE", "cache_creation", _grouped, right=True, drop=3),
            Column("REASONING", "reasoning", _grouped, right=True, drop=1),
            Column("TOTAL", "total", _grouped, right=True),
            *([cost] if prices.models else []),
        ]
    return [
        *keys,
        Column("RUNS", "runs", _some, right=True),
        Column("MEASURED", "measured", table=False),
        Column("SHARED", "shared", table=False),
        Column("WRITES", "writes", _some, right=True, drop=1),
        Column("SIZE", "bytes", size, right=True, drop=2),
        Column("TIME", "seconds", duration, right=True),
        Column("P50", "p50", duration, right=True, drop=3),
        Column("P95", "p95", duration, right=True),
        Column("MAX", "max", table=False),
        Column("TOKENS", "tokens", _some, right=True),
        *([cost] if prices.models else []),
    ]


def stats_lines(
    found: Stats,
    prices: PriceList,
    by: Sequence[Grouping],
    top: int,
    width: int,
    *,
    unicode: bool,
) -> Iterator[StyledLine]:
    """Yield the totals, a table of the largest groups, and what it does not tell."""
    yield from map(line, _totals(found, prices))
    rows = list(stats_records(found, prices, by))
    if rows:
        yield line("")
        yield from table_lines(rows[:top], stats_columns(by, prices, unicode=unicode), width)
        if len(rows) > top:
            yield line((f"… and {len(rows) - top} more", "dim"))
    if "node" in by and StatsPart.TIMES in found.parts:
        times = {str(key): one.time for key, one in found.groups.items()}
        yield from remark_lines(node_remarks(times))


def _totals(found: Stats, prices: PriceList) -> Iterator[str]:
    """Yield the sums of all that was counted, then those of times."""
    total, tokens = found.total, found.total.tokens
    parts = [counted(found.threads, "thread")]
    if StatsPart.WRITES in found.parts:
        parts.append(counted(found.checkpoints, "checkpoint"))
    if StatsPart.TIMES in found.parts:
        parts.append(counted(total.time.runs, "run"))
    if StatsPart.WRITES in found.parts:
        parts.append(f"{counted(total.writes, 'write')} of {size(total.bytes)}")
    if StatsPart.TOKENS in found.parts:
        if "model" in found.by:
            parts.append(counted(tokens.messages, "message"))
        parts.append(f"{_grouped(tokens.total)} tokens")
        if cost := total.cost(prices):
            parts.append(f"{_money(cost)} {safe_text(prices.currency)}")
    yield ", ".join(parts)
    times = {
        "running": found.running_seconds,
        "waiting for answers": found.waiting_seconds,
        "idle": found.idle_seconds,
    }
    if any(times.values()):
        yield ", ".join(f"{duration(spent)} {doing}" for doing, spent in times.items() if spent)


def stats_notes(found: Stats, prices: PriceList, *, named: bool) -> Iterator[str]:
    """Yield notes about tokens and prices that are not known; with `named`, with the models."""
    models = list(found.unpriced(prices)) if prices.models else []
    if models and not named:
        yield f"no price for {counted(len(models), 'model')}"
    elif models:
        texts = ("messages that name no model" if one is None else one for one in models)
        yield f"no price for {', '.join(texts)}"
    if number := found.without_usage:
        has, their = ("has", "its") if number == 1 else ("have", "their")
        messages = f"{counted(number, 'message')} of models"
        yield f"{messages} {has} no usage data: {their} tokens are not known"


def _money(cost: float) -> str:
    """Return a cost with at least two decimal places, and more if it is small; nothing for 0."""
    if not cost:
        return ""
    return f"{cost:,.2f}" if cost >= 1 else f"{cost:.4f}"


def _grouped(number: int) -> str:
    return f"{number:,}"


def _some(number: int) -> str:
    """Return a number; nothing for 0, of which a table of all amounts would be full."""
    return f"{number:,}" if number else ""
