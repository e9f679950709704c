"""Print what was written, by node and channel, as tables with bars and as records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ckpt_cli.core.write_counts import WriteCounts, WrittenAmount
from ckpt_cli.render.disk_usage import share_text
from ckpt_cli.render.terminal.styled_text import StyledLine, line
from ckpt_cli.render.terminal.table import Column, plain_columns, table_lines
from ckpt_cli.render.terminal.units import size
from ckpt_cli.render.values.one_line import counted


def stats_record(found: WriteCounts) -> dict[str, Any]:
    """Return the answer of `stats` as JSON."""
    total = found.total
    return {
        "threads": found.threads,
        "checkpoints": found.checkpoints,
        "writes": total.writes,
        "bytes": total.bytes,
        "by": list(pair_records(found)),
        "nodes": [{"node": node, **_amount(amount)} for node, amount in found.nodes()],
        "channels": list(_channel_records(found)),
    }


def pair_records(found: WriteCounts) -> Iterator[dict[str, Any]]:
    """Yield one record for each node and channel, most bytes first."""
    total = found.total.bytes
    for node, channel, amount in found.largest():
        yield {
            "node": node,
            "channel": channel,
            **_amount(amount),
            "share": round(amount.bytes / total, 4) if total else 0.0,
        }


def _amount(one: WrittenAmount) -> dict[str, Any]:
    return {"writes": one.writes, "bytes": one.bytes, "average": round(one.average, 1)}


def _channel_records(found: WriteCounts) -> Iterator[dict[str, Any]]:
    for name, merged in found.channels().items():
        written = merged.written.bytes
        yield {
            "channel": name,
            "writes": merged.written.writes,
            "bytes": written,
            "values": merged.values,
            "merged_bytes": merged.bytes,
            "ratio": round(merged.bytes / written, 2) if written else None,
        }


STATS_COLUMNS = plain_columns("node", "channel", "writes", "bytes", "average", "share")


def stats_lines(found: WriteCounts, top: int, width: int, *, unicode: bool) -> Iterator[StyledLine]:
    """Yield the totals, the largest pairs with bars, and the writes and values of each channel."""
    total = found.total
    yield line(
        f"{counted(found.threads, 'thread')}, {counted(found.checkpoints, 'checkpoint')},"
        f" {counted(total.writes, 'write')} of {size(total.bytes)}"
    )
    pairs = list(pair_records(found))
    if pairs:
        yield line("")
        columns = [
            Column("NODE", "node", style="node"),
            Column("CHANNEL", "channel", style="head"),
            Column("WRITES", "writes", right=True),
            Column("SIZE", "bytes", size, right=True),
            Column("AVERAGE", "average", lambda n: size(round(n)), right=True, drop=2),
            Column("SHARE", "share", share_text(unicode=unicode), drop=1),
        ]
        yield from table_lines(pairs[:top], columns, width)
        if len(pairs) > top:
            yield line((f"… and {len(pairs) - top} more", "dim"))
    channels = list(_channel_records(found))
    if channels:
        yield line("")
        columns = [
            Column("CHANNEL", "channel", style="head"),
            Column("WRITTEN", "bytes", size, right=True),
            Column("VALUES", "values", right=True),
            Column("STORED", "merged_bytes", size, right=True),
            Column("RATIO", "ratio", lambda n: f"{n:.1f}×", right=True),
        ]
        yield from table_lines(channels[:top], columns, width)
        if len(channels) > top:
            yield line((f"… and {len(channels) - top} more", "dim"))
