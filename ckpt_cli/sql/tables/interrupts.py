"""The table `interrupts`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ckpt_backends.model import Thread
from ckpt_cli.queries.interrupts import open_questions
from ckpt_cli.render.records import interrupt_record
from ckpt_cli.sql.tables.table import (
    Need,
    QueryTable,
    SqlColumn,
    SqlRow,
    TableReading,
    keys_of,
)


def _rows(reading: TableReading, threads: Sequence[Thread]) -> Iterator[SqlRow]:
    return map(interrupt_record, open_questions(reading.store, threads, None))


_STEP = Need.STEP

INTERRUPTS = QueryTable(
    "interrupts",
    "Questions that wait for an answer, as `interrupts` lists them.",
    keys_of(
        SqlColumn("task_id", "VARCHAR", "Task that asks.", _STEP),
        SqlColumn("node", "VARCHAR", "Its node.", _STEP),
        SqlColumn("path", "VARCHAR[]", "Nodes from the root graph to the one that asks.", _STEP),
        SqlColumn("interrupt_id", "VARCHAR", "Id of the question.", _STEP),
        SqlColumn("since", "TIMESTAMPTZ", "When the step began that asked it.", _STEP),
        SqlColumn("value", "JSON", "What the node gave to interrupt().", _STEP),
        SqlColumn("response_schema", "JSON", "JSON Schema of the answer, if it gave one.", _STEP),
    ),
    _rows,
    by_group=True,
    commands="interrupts",
)
