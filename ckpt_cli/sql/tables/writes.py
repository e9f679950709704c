"""The table `writes`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from ckpt_backends.model import NULL_TASK_ID, Thread, Write
from ckpt_cli.core.tasks.task_ids import pulled_node
from ckpt_cli.core.tasks.writes import TaskWrite, task_writes
from ckpt_cli.render.records import write_record
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
from ckpt_cli.threads.thread import ThreadReader

_AT_ONCE = 200


def _rows(reading: TableReading, threads: Sequence[Thread]) -> Iterator[SqlRow]:
    hide = redaction.is_redacted(reading.store)
    for reader in reading.readers(threads):
        for ns, ids in reading.namespaces(reader):
            # Writes of checkpoints that are gone belong to no answer.
            stored = {one.key.checkpoint_id for one in reader.index(ns)}
            times = reader.times(ns) if "ts" in reading.columns else {}
            for placed in _placed(reading, reader, ns, ids):
                checkpoint_id = placed.write.key.checkpoint_id
                if checkpoint_id in stored:
                    shown = redaction.placed(placed) if hide else placed
                    yield {
                        "thread_id": reader.thread_id,
                        "checkpoint_ns": ns,
                        "checkpoint_id": checkpoint_id,
                        "ts": optional_iso(times.get(checkpoint_id)),
                        "written_at": optional_iso(placed.write.at),
                        **_record(reading, shown),
                    }


def _record(reading: TableReading, placed: TaskWrite) -> SqlRow:
    write = placed.write
    if Need.VALUE in reading.needs:
        return {"encrypted": False, **write_record(placed)}
    return {
        "task_id": write.task_id,
        "node": placed.node,
        "task_path": placed.path,
        "idx": write.idx,
        "channel": write.channel,
        "type": None if write.value is None else write.value.type,
        "encrypted": write.value is not None and bool(write.value.encrypted),
        "bytes": write.size,
    }


def _placed(
    reading: TableReading, reader: ThreadReader, ns: str, ids: set[str] | None
) -> Iterator[TaskWrite]:
    """Yield the writes of a namespace with their nodes; without them if they are not asked for."""
    channels = reading.bounds.channels
    values = bool({Need.VALUE, Need.STORED} & reading.needs)
    by_step = not reading.columns.isdisjoint({"node", "task_path"})
    open_ids: list[str] = []
    stream = reader.store.writes(
        reader.thread_id, checkpoint_ns=ns, checkpoint_ids=ids, channels=channels, values=values
    )
    if by_step and reader.is_values_only:
        open_ids = [one.key.checkpoint_id for one in reader.index(ns)]
        stream = iter(())
    for checkpoint_id, group in groupby(stream, lambda one: one.key.checkpoint_id):
        writes = list(group)
        if by_step and not all(map(_tells_node, writes)):
            open_ids.append(checkpoint_id)
            continue
        for write in writes:
            node = pulled_node(write.task_path) if write.task_path else None
            yield TaskWrite(write, node, write.task_path)
    for start in range(0, len(open_ids), _AT_ONCE):
        some = [one for one in open_ids[start : start + _AT_ONCE] if ids is None or one in ids]
        for moment in reader.moments(ns, some, values=values) if some else ():
            for placed in task_writes(moment.writes, moment.step):
                if channels is None or placed.write.channel in channels:
                    yield placed


def _tells_node(write: Write) -> bool:
    """Return whether the row of a write tells its node, or that it has none."""
    if write.task_id == NULL_TASK_ID:
        return True
    return bool(write.task_path) and pulled_node(write.task_path) is not None


WRITES = QueryTable(
    "writes",
    "What tasks wrote, stored with the checkpoint that they started from; `writes` of `show`.",
    keys_of(
        SqlColumn("ts", "TIMESTAMPTZ", "When the checkpoint was saved: the step began."),
        SqlColumn("task_id", "VARCHAR", "Task; only zeros for writes of the caller."),
        SqlColumn("node", "VARCHAR", "Node; NULL for writes of the caller."),
        SqlColumn("task_path", "VARCHAR", "Task path."),
        SqlColumn("idx", "BIGINT", "Place among the writes of the task."),
        SqlColumn("channel", "VARCHAR", "Channel."),
        SqlColumn("bytes", "BIGINT", "Length of the stored value.", unit="bytes"),
        SqlColumn("written_at", "TIMESTAMPTZ", "When it was stored, in layouts that store that."),
        SqlColumn("type", "VARCHAR", "Type tag of the serializer.", Need.STORED),
        SqlColumn("encrypted", "BOOLEAN", "Whether it is stored encrypted.", Need.STORED),
        SqlColumn("value", "JSON", "Value.", Need.VALUE),
    ),
    _rows,
    commands="show",
)
