"""What threads take: bytes, writes, tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from ckpt_backends.model import Status
from ckpt_cli.core.stats import UNKNOWN, Amounts, Grouping, Key, Stats, StatsPart
from ckpt_cli.core.usage import PriceList, Ranking
from ckpt_cli.queries.usage import By, ChannelSize, StoreMetrics, Survey
from ckpt_cli.render.table import (
    THREAD,
    Column,
    duration,
    optional_iso,
    plain_columns,
    size,
    table_lines,
)
from ckpt_cli.render.text import StyledLine, field, line, safe_text
from ckpt_cli.render.timeline import NODE_TIME, node_remarks, remark_lines
from ckpt_cli.render.values import counted

_BAR = 20
_EIGHTHS = " ▏▎▍▌▋▊▉"
_HEADERS: Mapping[By, str] = {
    "thread": "THREAD",
    "channel": "CHANNEL",
    "ns": "NAMESPACE",
    "type": "TYPE",
    "table": "TABLE",
}


def ranking(found: Survey, by: By) -> Ranking[Any]:
    """Return the sizes of a survey for one grouping of `--by`."""
    chosen: dict[By, Ranking[Any] | None] = {
        "thread": found.threads,
        "channel": found.channels,
        "ns": found.namespaces,
        "type": found.types,
        "table": found.tables,
    }
    ranked = chosen[by]
    return ranked if ranked is not None else Ranking((), 0, 0, 0)


def amount_records(found: Survey, by: By) -> Iterator[dict[str, Any]]:
    """Yield one record for each thread, channel, namespace kind, type or column, largest first."""
    ranked = ranking(found, by)
    for one in ranked.top:
        share = one.bytes / ranked.total if ranked.total else 0.0
        yield {**_key(by, one.key), "rows": one.rows, "bytes": one.bytes, "share": round(share, 4)}


def amount_columns(by: By, *, unicode: bool) -> Sequence[Column]:
    """Return the columns of `du --by`."""
    names: dict[By, list[Column]] = {
        "thread": [THREAD],
        "channel": [
            Column("CHANNEL", "channel", style="head", table=False),
            Column("CHANNEL", "part", style="head", table=False),
            Column("CHANNEL", "name", style="head"),
        ],
        "ns": [Column("NAMESPACE", "checkpoint_ns", lambda ns: ns or "(root)", style="head")],
        "type": [Column("TYPE", "type", lambda tag: tag or "(none)", style="head")],
        "table": [Column("TABLE", "table", style="head"), Column("COLUMN", "column")],
    }
    return [
        *names[by],
        Column("ROWS", "rows", right=True),
        Column("SIZE", "bytes", size, right=True),
        Column("SHARE", "share", share_text(unicode=unicode)),
    ]


def more_text(found: Survey, by: By) -> str:
    """Return a line about what a table leaves out; empty if it shows all."""
    ranked = ranking(found, by)
    if not ranked.more:
        return ""
    return f"… and {ranked.more} more, {size(ranked.more_bytes)}; --top N for more"


def scanned_text(found: Survey) -> str:
    """Return how many checkpoints were scanned; empty if all were."""
    done = found.scanned
    if done is None or done.bodies >= done.of_bodies:
        return ""
    return (
        f"channels: scanned {done.bodies} of {done.of_bodies} checkpoints, {size(done.bytes)} of"
        f" {size(done.of_bytes)}"
    )


def survey_record(found: Survey) -> dict[str, Any]:
    """Return the answer of `du` as JSON."""
    done = found.scanned
    return {
        "size": found.info.size,
        "free": found.info.free,
        **({} if found.info.log is None else {"log": found.info.log}),
        "bytes": found.bytes,
        **({} if found.chosen is None else {"chosen": found.chosen}),
        "tables": list(amount_records(found, "table")),
        "threads": list(amount_records(found, "thread")),
        "namespaces": list(amount_records(found, "ns")),
        "channels": list(amount_records(found, "channel")),
        "types": list(amount_records(found, "type")),
        "scanned": None if done is None else asdict(done),
    }


def survey_rows(found: Survey) -> Iterator[dict[str, Any]]:
    """Yield the same as rows, one for each amount."""
    for by in _HEADERS:
        for record in amount_records(found, by):
            yield {**record, "by": by, "name": _name(by, record)}


SURVEY_COLUMNS = plain_columns("by", "name", "rows", "bytes", "share")


def survey_lines(
    found: Survey, thread_id: str | None, width: int, *, unicode: bool
) -> Iterator[StyledLine]:
    """Yield the totals, and a table for each grouping with more than one entry."""
    yield from _totals(found, thread_id, width)
    for by in ("table", "thread", "ns", "channel", "type"):
        ranked = ranking(found, by)
        if len(ranked.top) < 2:
            continue
        yield line("")
        rows = list(amount_records(found, by))
        yield from table_lines(rows, amount_columns(by, unicode=unicode), width)
        if more := more_text(found, by):
            yield line((more, "dim"))
    done = found.scanned
    if done is not None and done.of_bodies:
        yield line("")
        of = counted(done.of_bodies, "checkpoint")
        bytes_of = f"{size(done.bytes)} of {size(done.of_bytes)}"
        yield line((f"channels: {done.bodies} of {of} scanned, {bytes_of}", "dim"))


def share_text(*, unicode: bool) -> Callable[[float], str]:
    """Return a function that shows a share as a percentage and a bar."""

    def show(share: float) -> str:
        percents = f"{share:4.0%}"
        whole, part = divmod(round(share * _BAR * 8), 8)
        bar = "█" * whole + _EIGHTHS[part].strip() if unicode else "#" * round(share * _BAR)
        return f"{percents} {bar}".rstrip()

    return show


def _totals(found: Survey, thread_id: str | None, width: int) -> Iterator[StyledLine]:
    info = found.info
    if thread_id is not None:
        yield line(("thread ", "dim"), (safe_text(thread_id), "head"), f"  {size(found.bytes)}")
        return
    parts = [f"{size(found.bytes)} of values"]
    if found.chosen is not None:
        yield from field("threads", f"{counted(found.chosen, 'thread')}, {parts[0]}", width)
        return
    if info.size is not None:
        free, log = info.free or 0, info.log or 0
        rest = info.size - free - log - found.bytes
        parts = [f"{size(info.size)} on disk: {parts[0]}"]
        parts += [f"{size(rest)} of keys, indexes and overhead"] if rest > 0 else []
        parts += [f"{size(free)} free"]
        parts += [f"{size(log)} of write-ahead log"] if log else []
    yield from field("store", ", ".join(parts), width)


def _key(by: By, key: Any) -> dict[str, Any]:
    if by == "table":
        return {"table": key[0], "column": key[1]}
    if by == "channel":
        assert isinstance(key, ChannelSize)  # noqa: S101
        return {"channel": key.name, "part": key.part, "name": str(key)}
    return {{"thread": "thread_id", "ns": "checkpoint_ns"}.get(by, by): key}


def _name(by: By, record: Mapping[str, Any]) -> str:
    if by == "table":
        return f"{record['table']}.{record['column']}"
    names = {"thread": "thread_id", "ns": "checkpoint_ns", "type": "type", "channel": "name"}
    return str(record[names[by]])


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
        record |= {"checkpoints": found.checkpoints, "writes": total.writes, "bytes": total.bytes}
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
            yield {**_stats_key(by, key), **_token_record(amounts, prices)}
    else:
        for key, amounts in found.rows(by):
            yield {
                **_stats_key(by, key),
                **NODE_TIME.record(amounts.time),
                **_written_record(amounts),
                **_token_record(amounts, prices),
            }


def _stats_key(by: Sequence[Grouping], key: Key) -> dict[str, Any]:
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
        yield {**_stats_key(by, key), **_written_record(amounts), "share": share}


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
    found: Stats, prices: PriceList, by: Sequence[Grouping], top: int, width: int, *, unicode: bool
) -> Iterator[StyledLine]:
    """Yield the totals, a table of the largest groups, and what it does not tell."""
    yield from map(line, _stats_totals(found, prices))
    rows = list(stats_records(found, prices, by))
    if rows:
        yield line("")
        yield from table_lines(rows[:top], stats_columns(by, prices, unicode=unicode), width)
        if len(rows) > top:
            yield line((f"… and {len(rows) - top} more; --top N for more", "dim"))
    if "node" in by and StatsPart.TIMES in found.parts:
        times = {str(key): one.time for key, one in found.groups.items()}
        yield from remark_lines(node_remarks(times))


def _stats_totals(found: Stats, prices: PriceList) -> Iterator[str]:
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


# Print the metrics of a store, as OpenMetrics text and as a record.
#
# All are gauges: with that the text is also what Prometheus's older text format allows, which the
# textfile collector of node_exporter reads.


_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


@dataclass(frozen=True, slots=True)
class Gauge:
    """One metric; its name ends with its unit, if it has one."""

    name: str
    help: str
    value: float | Mapping[str, int] | None
    """A number, or one for each value of the label `status`; None leaves the metric out."""
    unit: str | None = None


def metrics_record(found: StoreMetrics) -> dict[str, Any]:
    """Return the metrics as JSON."""
    return {
        "store": found.url,
        "layout": found.layout,
        "threads": found.threads,
        "statuses": None if found.statuses is None else _by_status(found.statuses),
        "checkpoints": found.checkpoints,
        "bytes": found.bytes,
        "newest_at": optional_iso(found.newest_at),
        "open_questions": found.questions,
        "oldest_question_at": optional_iso(found.oldest_question_at),
        "failed_tasks": found.failed,
        "seconds": round(found.seconds, 3),
    }


def metrics_text(found: StoreMetrics | None, store: str, now: datetime) -> str:
    """Return the metrics as OpenMetrics text; None is a store that could not be read."""
    up = Gauge("ckpt_up", "Whether the store could be read: 1 or 0.", int(found is not None))
    gauges = [up] if found is None else [up, *_gauges(found, now)]
    lines = [line for one in gauges for line in _lines(one, safe_text(store))]
    return "".join(f"{line}\n" for line in [*lines, "# EOF"])


def _gauges(found: StoreMetrics, now: datetime) -> Iterator[Gauge]:
    yield Gauge("ckpt_threads", "Threads in the store.", found.threads)
    by_status = None if found.statuses is None else _by_status(found.statuses)
    yield Gauge("ckpt_threads_by_status", "Threads by the status of their head.", by_status)
    yield Gauge("ckpt_checkpoints", "Checkpoints in the store.", found.checkpoints)
    yield Gauge("ckpt_store_size_bytes", "What the store uses on disk.", found.bytes, unit="bytes")
    yield Gauge(
        "ckpt_newest_checkpoint_timestamp_seconds",
        "When the newest checkpoint was saved, in Unix time.",
        None if found.newest_at is None else found.newest_at.timestamp(),
        unit="seconds",
    )
    yield Gauge("ckpt_open_questions", "Questions that wait for a person.", found.questions)
    asked = found.oldest_question_at
    yield Gauge(
        "ckpt_oldest_question_age_seconds",
        "How long the oldest of these questions waits. Absent if there is none.",
        None if asked is None else max((now - asked).total_seconds(), 0.0),
        unit="seconds",
    )
    yield Gauge("ckpt_failed_tasks", "Failed tasks that wait for a retry.", found.failed)
    yield Gauge(
        "ckpt_scrape_duration_seconds",
        "How long it took to read these numbers.",
        found.seconds,
        unit="seconds",
    )


def _by_status(counts: Mapping[Status, int]) -> dict[str, int]:
    """Return the number for each status, 0 too, so that no time series ends when it is reached."""
    return {status.value: counts.get(status, 0) for status in Status}


def _lines(gauge: Gauge, store: str) -> Iterator[str]:
    if gauge.value is None:
        return
    yield f"# HELP {gauge.name} {gauge.help}"
    yield f"# TYPE {gauge.name} gauge"
    if gauge.unit is not None:
        yield f"# UNIT {gauge.name} {gauge.unit}"
    label = f'store="{store.translate(_ESCAPES)}"'
    if isinstance(gauge.value, Mapping):
        for status, number in gauge.value.items():
            yield f'{gauge.name}{{{label},status="{status}"}} {number}'
    else:
        yield f"{gauge.name}{{{label}}} {_number(gauge.value)}"


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.3f}"
