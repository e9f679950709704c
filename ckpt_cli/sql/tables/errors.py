"""The table `errors`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ckpt_backends.model import Thread
from ckpt_cli.queries.errors import failures_of_threads
from ckpt_cli.render.errors import failure_record
from ckpt_cli.sql.tables.table import (
    Need,
    QueryTable,
    SqlColumn,
    SqlRow,
    TableReading,
    keys_of,
)


def _rows(reading: TableReading, threads: Sequence[Thread]) -> Iterator[SqlRow]:
    for one in failures_of_threads(reading.store, threads, history=True):
        record = failure_record(one)
        yield {**record, "failed_at": record["at"]}


_STEP = Need.STEP

ERRORS = QueryTable(
    "errors",
    "Tasks that failed, as `errors --history` lists them.",
    keys_of(
        SqlColumn("task_id", "VARCHAR", "Task.", _STEP),
        SqlColumn("node", "VARCHAR", "Node that failed.", _STEP),
        SqlColumn("path", "VARCHAR[]", "Nodes from the root graph to the one that failed.", _STEP),
        SqlColumn("error", "VARCHAR", "Error.", _STEP),
        SqlColumn("failed_at", "TIMESTAMPTZ", "When it was stored, or the step began.", _STEP),
        SqlColumn("state", "VARCHAR", "failed, retried, handled, left.", _STEP),
        SqlColumn("retried", "BOOLEAN", "Whether the task ran again, with success.", _STEP),
        SqlColumn("handled", "BOOLEAN", "Whether its error handler has finished, or asks.", _STEP),
        SqlColumn("resume", "JSON", "What retries it; NULL if the thread went on.", _STEP),
    ),
    _rows,
    by_group=True,
    commands="errors",
)
