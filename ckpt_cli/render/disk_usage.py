"""Print sizes as tables with bars, and as records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ckpt_cli.core.size_sums import Ranking
from ckpt_cli.queries.disk_usage import By, ChannelSize, Survey
from ckpt_cli.render.terminal.fields import field
from ckpt_cli.render.terminal.safe_text import safe_text
from ckpt_cli.render.terminal.styled_text import StyledLine, line
from ckpt_cli.render.terminal.table import THREAD, Column, plain_columns, table_lines
from ckpt_cli.render.terminal.units import size
from ckpt_cli.render.values.one_line import counted

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
    return f"… and {ranked.more} more, {size(ranked.more_bytes)}" if ranked.more else ""


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
