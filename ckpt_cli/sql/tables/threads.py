"""The table `threads`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ckpt_backends.model import Thread
from ckpt_cli.queries.head_details import sizes_of
from ckpt_cli.queries.threads import described_threads
from ckpt_cli.render.thread_records import thread_record
from ckpt_cli.sql.tables.table import Need, QueryTable, SqlColumn, SqlRow, TableReading
from ckpt_cli.threads.heads import some_at_once


def _rows(reading: TableReading, threads: Sequence[Thread]) -> Iterator[SqlRow]:
    for some in some_at_once(threads):
        ids = [one.thread_id for one in some]
        sizes = sizes_of(reading.store, ids) if Need.SIZES in reading.needs else {}
        details = Need.STEP in reading.needs
        for row in described_threads(
            reading.store, some, reading.inference, details=details, sizes=False
        ):
            record = thread_record(row)
            yield {**record, "bytes": sizes.get(row.thread.thread_id)}


_HEAD = Need.STEP

THREADS = QueryTable(
    "threads",
    "Threads, as `threads list --all --long` lists them.",
    (
        SqlColumn("thread_id", "VARCHAR", "Thread."),
        SqlColumn("head", "VARCHAR", "Checkpoint from which LangGraph resumes."),
        SqlColumn("first_at", "TIMESTAMPTZ", "Time of the oldest checkpoint."),
        SqlColumn("last_at", "TIMESTAMPTZ", "Time of the newest checkpoint."),
        SqlColumn("checkpoints", "BIGINT", "Checkpoints in all namespaces."),
        SqlColumn("namespaces", "BIGINT", "Namespaces, with the root."),
        SqlColumn("user", "VARCHAR", "User, in layouts that store one."),
        SqlColumn("bytes", "BIGINT", "Stored size.", Need.SIZES, "bytes"),
        SqlColumn("step", "BIGINT", "Step of the head.", _HEAD),
        SqlColumn("source", "VARCHAR", "How the head was made: input, loop, update, fork.", _HEAD),
        SqlColumn("parent", "VARCHAR", "Parent of the head.", _HEAD),
        SqlColumn("status", "VARCHAR", "error, interrupted, pending, done, unknown, empty.", _HEAD),
        SqlColumn("conditions", "VARCHAR[]", "All that hold, the worst first.", _HEAD),
        SqlColumn("next", "VARCHAR[]", "Nodes of the tasks that wait, as get_state.", _HEAD),
        SqlColumn(
            "runs", "VARCHAR[]", "Nodes that run first in a resume; NULL if not known.", _HEAD
        ),
        SqlColumn("error", "VARCHAR", "Error of a task that failed.", _HEAD),
        SqlColumn("question", "JSON", "First question that waits for an answer.", _HEAD),
        SqlColumn("asked_by", "VARCHAR[]", "Nodes from the root to the one that asks.", _HEAD),
        SqlColumn("title", "VARCHAR", "First line of what a person said first.", _HEAD),
        SqlColumn("expires_at", "TIMESTAMPTZ", "When the head expires.", _HEAD),
        SqlColumn("metadata", "JSON", "Metadata of the head.", _HEAD),
    ),
    _rows,
    by_group=True,
    commands="threads list",
)
