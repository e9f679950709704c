"""The table `usage`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from ckpt_backends.model import Thread
from ckpt_cli.queries.token_usage import thread_messages
from ckpt_cli.render.terminal.units import optional_iso
from ckpt_cli.sql.tables.table import (
    Need,
    QueryTable,
    SqlColumn,
    SqlRow,
    TableReading,
    keys_of,
)
from ckpt_cli.threads import redaction


def _rows(reading: TableReading, threads: Sequence[Thread]) -> Iterator[SqlRow]:
    hide = redaction.is_redacted(reading.store)
    for reader in reading.readers(threads):
        for one, node in thread_messages(reader, with_nodes="node" in reading.columns):
            price = reading.prices.of(one.model)
            yield {
                "thread_id": reader.thread_id,
                "checkpoint_ns": one.origin.checkpoint_ns,
                "checkpoint_id": one.origin.checkpoint_id,
                "ts": optional_iso(one.origin.at),
                "task_id": one.origin.task_id,
                "node": node,
                "model": None if hide else one.model,
                **asdict(one.tokens),
                "cost": None if price is None else price.cost(one.tokens),
            }


_VALUE = Need.VALUE

USAGE = QueryTable(
    "usage",
    "Messages of models that tell their tokens, each once, as `stats --by model` counts them.",
    keys_of(
        SqlColumn("ts", "TIMESTAMPTZ", "Start of the step that wrote it.", _VALUE),
        SqlColumn("task_id", "VARCHAR", "Task that wrote it.", _VALUE),
        SqlColumn("node", "VARCHAR", "Node that wrote it, with its callers: a > b.", _VALUE),
        SqlColumn("model", "VARCHAR", "Model.", _VALUE),
        SqlColumn("input", "BIGINT", "Prompt, cached tokens included.", _VALUE, "tokens"),
        SqlColumn("output", "BIGINT", "Answer, reasoning included.", _VALUE, "tokens"),
        SqlColumn("cache_read", "BIGINT", "Read from the cache.", _VALUE, "tokens"),
        SqlColumn("cache_creation", "BIGINT", "Written to the cache.", _VALUE, "tokens"),
        SqlColumn("reasoning", "BIGINT", "Reasoning.", _VALUE, "tokens"),
        SqlColumn("total", "BIGINT", "Prompt and answer.", _VALUE, "tokens"),
        SqlColumn("cost", "DOUBLE", "Cost; NULL without a price.", _VALUE, "of [prices]"),
    ),
    _rows,
    commands="stats --by model",
)
