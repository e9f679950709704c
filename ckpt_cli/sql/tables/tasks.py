"""The table `tasks`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ckpt_backends.model import Thread
from ckpt_cli.render.records import moment_record
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
        for ns, ids in reading.namespaces(reader):
            for moment in reader.moments(ns, ids):
                record = moment_record(redaction.moment(moment) if hide else moment, [])
                for task in record["tasks"]:
                    yield {
                        "thread_id": reader.thread_id,
                        "checkpoint_ns": ns,
                        "checkpoint_id": record["checkpoint_id"],
                        "ts": record["ts"],
                        "step": record["step"],
                        **task,
                        "task_id": task["id"],
                    }


_STEP = Need.STEP

TASKS = QueryTable(
    "tasks",
    "Tasks of the step after each checkpoint, as `tasks` of `history --all-ns` has them.",
    keys_of(
        SqlColumn("ts", "TIMESTAMPTZ", "When the checkpoint was saved: the step began.", _STEP),
        SqlColumn("step", "BIGINT", "Step of the checkpoint.", _STEP),
        SqlColumn("task_id", "VARCHAR", "Task.", _STEP),
        SqlColumn("node", "VARCHAR", "Node; NULL if not known.", _STEP),
        SqlColumn("path", "VARCHAR", "Task path.", _STEP),
        SqlColumn("finished", "BOOLEAN", "Whether it has output.", _STEP),
        SqlColumn("error", "VARCHAR", "Its error.", _STEP),
        SqlColumn("failed_in", "VARCHAR[]", "Nodes from this one to the one that failed.", _STEP),
        SqlColumn("interrupts", "JSON", "Its questions, a list.", _STEP),
    ),
    _rows,
    commands="history",
)
