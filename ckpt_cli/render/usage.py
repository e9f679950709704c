"""What threads take: bytes, writes, tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from ckpt_backends.model import Status
from ckpt_cli.core.conversation import TokenCounts
from ckpt_cli.core.resume import WHY_CODES, WhyCode
from ckpt_cli.core.stats import UNKNOWN, Amounts, Grouping, Stats, StatsPart
from ckpt_cli.core.usage import ByteSum, PriceList, Ranking
from ckpt_cli.queries.usage import BYS, By, StoreMetrics, Survey
from ckpt_cli.render.fields import Field, Part, Shape, View, known
from ckpt_cli.render.table import THREAD, Column, duration, plain_columns, size, table_lines
from ckpt_cli.render.text import StyledLine, Ui, field, line, safe_text
from ckpt_cli.render.timeline import NODE_TIME, node_remarks, remark_lines
from ckpt_cli.render.types import BYTES, INTEGER, NUMBER, SECONDS, TEXT, TIME
from ckpt_cli.render.values import counted

_BAR = 20
_EIGHTHS = " ▏▎▍▌▋▊▉"
_LISTED: tuple[tuple[By, str], ...] = (
    ("table", "tables"),
    ("thread", "threads"),
    ("ns", "namespaces"),
    ("channel", "channels"),
    ("type", "types"),
)
"""The listings of a survey, and their keys."""


def ranking(found: Survey, by: By) -> Ranking[Any]:
    """Return the sizes of a survey for one grouping of `--by`."""
    ranked: Ranking[Any] | None = getattr(found, dict(_LISTED)[by])
    return ranked if ranked is not None else Ranking((), 0, 0, 0)


def _amount(name: str, *keys: Field) -> Shape:
    return Shape(
        f"The size of one {name}.",
        *keys,
        Field("rows", INTEGER, "Its rows.", "one.rows"),
        Field("bytes", BYTES, "Stored size.", "one.bytes"),
        Field("share", NUMBER, "Its part of all of them, from 0 to 1."),
    )


class _Amount(NamedTuple):
    """One line of a listing."""

    one: ByteSum[Any]
    share: float


AMOUNTS: Mapping[By, Shape] = {
    "table": _amount(
        "table",
        Field("table", TEXT, "Table.", lambda found: found.one.key[0]),
        Field("column", TEXT, "Column.", lambda found: found.one.key[1]),
    ),
    "thread": _amount("thread", Field("thread_id", TEXT, "Thread.", "one.key")),
    "ns": _amount(
        "namespace", Field("checkpoint_ns", TEXT, "Kind of namespace; '' is the root.", "one.key")
    ),
    "channel": _amount(
        "channel",
        Field("channel", TEXT.or_null, "Channel; null for what belongs to none.", "one.key.name"),
        Field("part", TEXT, "`channel`, or what else it is.", "one.key.part"),
        Field("name", TEXT, "The channel, or that.", lambda found: str(found.one.key)),
    ),
    "type": _amount(
        "type",
        Field(
            "type",
            TEXT,
            "Type tag of the serializer. A row counts once for that of its body and of its"
            " metadata.",
            "one.key",
        ),
    ),
}


def _amounts(found: Survey, by: By) -> Iterator[_Amount]:
    """Yield each thread, channel, namespace kind, type or column, largest first."""
    ranked = ranking(found, by)
    for one in ranked.top:
        yield _Amount(one, round(one.bytes / ranked.total, 4) if ranked.total else 0.0)


def amount_records(found: Survey, by: By) -> Iterator[dict[str, Any]]:
    """Return the same as records."""
    return map(AMOUNTS[by].record, _amounts(found, by))


def amount_columns(by: By, *, unicode: bool) -> Sequence[Column]:
    """Return the columns of `du --by`."""
    names: dict[By, list[Column | str]] = {
        "thread": [THREAD],
        "channel": ["channel", "part", Column("CHANNEL", "name", style="head")],
        "ns": [Column("NAMESPACE", "checkpoint_ns", lambda ns: ns or "(root)", style="head")],
        "type": [Column("TYPE", "type", lambda tag: tag or "(none)", style="head")],
        "table": [Column("TABLE", "table", style="head"), Column("COLUMN", "column")],
    }
    return AMOUNTS[by].columns(
        *names[by],
        Column("ROWS", "rows", right=True),
        Column("SIZE", "bytes", size, right=True),
        Column("SHARE", "share", _share_text(unicode=unicode)),
    )


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


_SCANNED = Shape(
    "How many checkpoints were scanned to measure channels.",
    Field("bodies", INTEGER, "Checkpoints."),
    Field("bytes", BYTES, "Their size."),
    Field("of_bodies", INTEGER, "All checkpoints."),
    Field("of_bytes", BYTES, "Their size."),
)
DU = Shape(
    "Disk usage of a store.",
    Field("size", BYTES.or_null, "What the store uses on disk.", "info.size"),
    Field("free", BYTES.or_null, "How much of it is free.", "info.free"),
    known("log", BYTES, "Its write-ahead log.", "info.log"),
    Field("bytes", BYTES, "Stored length of all values."),
    known("chosen", INTEGER, "Number of threads, if not all are measured."),
    *(
        Field(key, AMOUNTS[by].list, "The largest first.", partial(_amounts, by=by))
        for by, key in _LISTED
    ),
    Field("scanned", _SCANNED.or_null, "What was scanned for `channels`."),
)


def _survey_rows(found: Survey) -> Iterator[dict[str, Any]]:
    """Yield the same as rows, one for each amount."""
    for by in BYS:
        for record in amount_records(found, by):
            yield {**record, "by": by, "name": _name(by, record)}


def _survey_lines(found: Survey, ui: Ui, thread_id: str | None) -> Iterator[StyledLine]:
    """Yield the totals, and a table for each grouping with more than one entry."""
    yield from _totals(found, thread_id, ui.width)
    for by, _ in _LISTED:
        ranked = ranking(found, by)
        if len(ranked.top) < 2:
            continue
        yield line("")
        rows = list(amount_records(found, by))
        yield from table_lines(rows, amount_columns(by, unicode=ui.unicode), ui)
        if more := more_text(found, by):
            yield line((more, "dim"))
    done = found.scanned
    if done is not None and done.of_bodies:
        yield line("")
        of = counted(done.of_bodies, "checkpoint")
        bytes_of = f"{size(done.bytes)} of {size(done.of_bytes)}"
        yield line((f"channels: {done.bodies} of {of} scanned, {bytes_of}", "dim"))


def _share_text(*, unicode: bool) -> Callable[[float], str]:
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


def _name(by: By, record: Mapping[str, Any]) -> str:
    if by == "table":
        return f"{record['table']}.{record['column']}"
    names = {"thread": "thread_id", "ns": "checkpoint_ns", "type": "type", "channel": "name"}
    return str(record[names[by]])


DU_VIEW = View(
    DU.record, _survey_lines, _survey_rows, plain_columns("by", "name", "rows", "bytes", "share")
)
_KEYS: dict[Grouping, str] = {
    **{"node": "node", "channel": "channel", "model": "model"},
    **{"thread": "thread_id", "day": "day", "user": "user"},
}
_MONEY = 6
"""Decimal places of costs."""


class _Counted(NamedTuple):
    """What `stats` counted."""

    stats: Stats
    prices: PriceList
    by: Sequence[Grouping] | None

    @property
    def total(self) -> Amounts:
        return self.stats.total


class _Priced(NamedTuple):
    """Tokens, and what they cost."""

    tokens: TokenCounts
    cost: float | None


def _priced(one: Amounts, prices: PriceList) -> _Priced:
    cost = one.cost(prices)
    return _Priced(one.tokens, None if cost is None else round(cost, _MONEY))


def _if(part: StatsPart) -> Callable[[_Counted], _Counted | None]:
    return lambda found: found if part in found.stats.parts else None


_TOKENS = Shape(
    "Tokens of models.",
    Field("tokens", INTEGER, "The same as `total`.", "tokens.total"),
    Field("messages", INTEGER, "Messages that tell their tokens.", "tokens.messages"),
    Field("input", INTEGER, "Prompt, cached tokens included.", "tokens.input"),
    Field("output", INTEGER, "Answer, reasoning included.", "tokens.output"),
    Field("cache_read", INTEGER, "Read from the cache.", "tokens.cache_read"),
    Field("cache_creation", INTEGER, "Written to the cache.", "tokens.cache_creation"),
    Field("reasoning", INTEGER, "Reasoning.", "tokens.reasoning"),
    Field("total", INTEGER, "Prompt and answer.", "tokens.total"),
    Field("cost", NUMBER.or_null, "Cost; null without a price."),
)
_WRITTEN = Shape(
    "What was written.",
    Field("writes", INTEGER, "Writes."),
    Field("bytes", BYTES, "Their stored size."),
    Field("average", NUMBER, "Average of it.", lambda one: round(one.average, 1)),
)
_CHANNEL = Shape(
    "A channel.",
    Field("channel", TEXT, "Channel."),
    Field("writes", INTEGER, "Writes.", "written.writes"),
    Field("bytes", BYTES, "Their stored size.", "written.bytes"),
    Field("values", INTEGER, "Stored values."),
    Field("merged_bytes", BYTES, "Their stored size.", "bytes"),
    Field(
        "ratio",
        NUMBER.or_null,
        "How often what was written is stored.",
        lambda one: round(one.bytes / one.written.bytes, 2) if one.written.bytes else None,
    ),
)
_GROUP = Shape(
    "One group; null stands for what is not known of it.",
    *(known(key, TEXT.or_null, f"What --by {by} groups by.") for by, key in _KEYS.items()),
    Part(NODE_TIME, "time"),
    Part(_WRITTEN, ""),
    known("share", NUMBER, "Its part of all bytes, from 0 to 1."),
    *(one._replace(optional=True) for one in _CHANNEL if one.key != "channel"),
    Part(_TOKENS, ""),
)
_ROWS = _GROUP.list.converted_by(list)
_SUMS = (
    Field("threads", INTEGER, "Threads.", "stats.threads"),
    Part(
        Shape(
            "What was written.",
            Field("checkpoints", INTEGER, "Checkpoints.", "stats.checkpoints"),
            Field("writes", INTEGER, "Writes.", "total.writes"),
            Field("bytes", BYTES, "Their stored size.", "total.bytes"),
        ),
        _if(StatsPart.WRITES),
    ),
    Part(
        Shape(
            "How long it took.",
            Field("steps", INTEGER, "Steps of the root graph.", "stats.steps"),
            Field("runs", INTEGER, "Runs of nodes.", "total.time.runs"),
            Field("running_seconds", SECONDS, "Nodes ran.", "stats.running_seconds"),
            Field("waiting_seconds", SECONDS, "Questions waited.", "stats.waiting_seconds"),
            Field("idle_seconds", SECONDS, "Nothing ran.", "stats.idle_seconds"),
        ),
        _if(StatsPart.TIMES),
    ),
    Part(
        Shape(
            "What it cost.",
            Part(_TOKENS, lambda found: _priced(found.total, found.prices)),
            Field("currency", TEXT, "Of `cost`.", "prices.currency"),
            Field("unread", INTEGER, "Values that could not be read.", "stats.unread"),
            Field(
                "without_usage",
                INTEGER,
                "Messages of models without usage data.",
                "stats.without_usage",
            ),
        ),
        _if(StatsPart.TOKENS),
    ),
)


def _records(by: Sequence[Grouping]) -> Callable[[_Counted], Iterator[dict[str, Any]]]:
    return lambda found: stats_records(found.stats, found.prices, by)


STATS = Shape(
    "What nodes wrote, how long they took, and what their tokens cost.",
    *_SUMS,
    Field("nodes", _ROWS, "By node.", _records(["node"])),
    Field("by", _ROWS, "By node and channel.", _records(["node", "channel"])),
    Field("channels", _CHANNEL.list, "By channel.", lambda found: found.stats.channels()),
)
STATS_BY = Shape(
    "The same by other keys.",
    *_SUMS,
    Field(
        "by",
        _ROWS,
        "The groups, the largest first.",
        lambda found: stats_records(found.stats, found.prices, found.by),
    ),
)


def stats_view(found: Stats, prices: PriceList, by: Sequence[Grouping] | None) -> View:
    """Return how `stats` is printed: by these keys, or by node and in more detail."""
    shape = STATS if by is None else STATS_BY
    return View(
        lambda found: shape.record(_Counted(found, prices, by)),
        lambda found, ui, top: stats_lines(found, prices, top, ui),
        lambda found: stats_records(found, prices, found.by),
        stats_columns(found.by, prices),
    )


def stats_records(
    found: Stats, prices: PriceList, by: Sequence[Grouping]
) -> Iterator[dict[str, Any]]:
    """Yield one record for each group, the largest first."""
    if list(by) == ["channel"]:
        yield from map(_CHANNEL.record, found.channels())
        return
    total = found.total.bytes
    for key, amounts in found.rows(by):
        record: dict[str, Any] = dict(zip((_KEYS[one] for one in by), key, strict=True))
        if "channel" in by:
            share = round(amounts.bytes / total, 4) if total else 0.0
            yield {**record, **_WRITTEN.record(amounts), "share": share}
            continue
        if "model" not in by:
            record |= NODE_TIME.record(amounts.time) | _WRITTEN.record(amounts)
        yield record | _TOKENS.record(_priced(amounts, prices))


def stats_columns(
    by: Sequence[Grouping], prices: PriceList, *, unicode: bool = True
) -> list[Column]:
    """Return the columns of the groups; costs only if there are prices."""
    if list(by) == ["channel"]:
        return _CHANNEL.columns(
            Column("CHANNEL", "channel", style="head"),
            "writes",
            Column("WRITTEN", "bytes", size, right=True),
            Column("VALUES", "values", right=True),
            Column("STORED", "merged_bytes", size, right=True),
            Column("RATIO", "ratio", lambda n: f"{n:.1f}×", right=True),
        )
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
            Column("SHARE", "share", _share_text(unicode=unicode), drop=1),
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


def stats_lines(found: Stats, prices: PriceList, top: int, ui: Ui) -> Iterator[StyledLine]:
    """Yield the totals, a table of the largest groups, and what it does not tell."""
    by = found.by
    yield from map(line, _stats_totals(found, prices))
    rows = list(stats_records(found, prices, by))
    if rows:
        yield line("")
        yield from table_lines(rows[:top], stats_columns(by, prices, unicode=ui.unicode), ui)
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
    """A number, or one for each value of the label; None leaves the metric out."""
    unit: str | None = None
    label: str = ""


def _by_status(counts: Mapping[Status, int]) -> dict[str, int]:
    """Return the number for each status, 0 too, so that no time series ends when it is reached."""
    return {status.value: counts.get(status, 0) for status in Status}


def _by_reason(counts: Mapping[WhyCode, int]) -> dict[str, int]:
    """Return the same for each reason of which a thread is pending."""
    return {code: counts.get(code, 0) for code in WHY_CODES if code != "joins"}


_STATUSES = INTEGER.by_name.converted_by(_by_status).or_null
METRICS = Shape(
    "Numbers of a store for a monitoring system.",
    Field("store", TEXT, "URL without secrets.", "url"),
    Field("layout", TEXT, "Layout."),
    Field("threads", INTEGER, "Threads."),
    Field("statuses", _STATUSES, "Threads by status; null with --fast."),
    Field(
        "pending",
        INTEGER.by_name.converted_by(_by_reason).or_null,
        "Pending threads by `why`; null with --fast.",
    ),
    Field("checkpoints", INTEGER, "Checkpoints."),
    Field("bytes", BYTES.or_null, "What the store uses on disk."),
    Field("newest_at", TIME.or_null, "Time of the newest checkpoint."),
    Field("open_questions", INTEGER.or_null, "Questions that wait for a person.", "questions"),
    Field("oldest_question_at", TIME.or_null, "Since when the oldest waits."),
    Field("failed_tasks", INTEGER.or_null, "Failed tasks that wait for a retry.", "failed"),
    known("questions_by_user", INTEGER.by_name, "With --by-user: open questions.", "asking"),
    known("failed_by_user", INTEGER.by_name, "With --by-user: failed tasks.", "failing"),
    Field("seconds", NUMBER, "How long the reading took.", lambda found: round(found.seconds, 3)),
)


def metrics_text(found: StoreMetrics | None, store: str, now: datetime) -> str:
    """Return the metrics as OpenMetrics text; None is a store that could not be read."""
    up = Gauge("ckpt_up", "Whether the store could be read: 1 or 0.", int(found is not None))
    gauges = [up] if found is None else [up, *_gauges(found, now)]
    lines = [line for one in gauges for line in _lines(one, safe_text(store))]
    return "".join(f"{line}\n" for line in [*lines, "# EOF"])


def _gauges(found: StoreMetrics, now: datetime) -> Iterator[Gauge]:
    yield Gauge("ckpt_threads", "Threads in the store.", found.threads)
    by_status = None if found.statuses is None else _by_status(found.statuses)
    yield Gauge(
        "ckpt_threads_by_status", "Threads by the status of their head.", by_status, label="status"
    )
    yield Gauge(
        "ckpt_threads_pending",
        "Pending threads by why they do not go on, as far as their rows tell.",
        None if found.pending is None else _by_reason(found.pending),
        label="why",
    )
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
        *("ckpt_open_questions_by_user", "Open questions by the user of their thread."),
        found.asking,
        label="user",
    )
    yield Gauge(
        *("ckpt_failed_tasks_by_user", "Failed tasks by the user of their thread."),
        found.failing,
        label="user",
    )
    yield Gauge(
        "ckpt_scrape_timestamp_seconds",
        "When these numbers were read, in Unix time.",
        now.timestamp(),
        unit="seconds",
    )
    yield Gauge(
        "ckpt_scrape_duration_seconds",
        "How long it took to read these numbers.",
        found.seconds,
        unit="seconds",
    )


def _lines(gauge: Gauge, store: str) -> Iterator[str]:
    if gauge.value is None:
        return
    yield f"# HELP {gauge.name} {gauge.help}"
    yield f"# TYPE {gauge.name} gauge"
    if gauge.unit is not None:
        yield f"# UNIT {gauge.name} {gauge.unit}"
    label = f'store="{store.translate(_ESCAPES)}"'
    if isinstance(gauge.value, Mapping):
        for value, number in gauge.value.items():
            named = safe_text(value).translate(_ESCAPES)
            yield f'{gauge.name}{{{label},{gauge.label}="{named}"}} {number}'
    else:
        yield f"{gauge.name}{{{label}}} {_number(gauge.value)}"


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.3f}"
