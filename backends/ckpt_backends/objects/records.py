"""What the objects of checkpoints and writes hold, as records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ckpt_backends.model import CheckpointKey, Kind, Record, TypedBytes
from ckpt_backends.objects import CHECKPOINTS, KEY, PARENT, WRITES
from ckpt_backends.rows import Cell, Row
from ckpt_backends.transfer.form import CannotHold


def typed(pair: Any) -> TypedBytes:
    """A stored type and value."""
    match pair:
        case [str(tag), bytes(data)]:
            return TypedBytes(tag, data)
    return TypedBytes("", b"", problem="no type and bytes, as the saver stores them")


def sound(pair: Any) -> TypedBytes:
    """The same. Raises ValueError if it is neither."""
    found = typed(pair)
    if found.problem:
        raise ValueError(found.problem)
    return found


def row_of(record: Record) -> Row:
    """The row of a record. Raises `CannotHold`."""
    if record.kind is Kind.VALUE:
        raise CannotHold("this layout has no values outside of checkpoints")
    value, metadata = record.value, record.metadata
    if value.problem or value.part or metadata.part:
        raise CannotHold(f"a value cannot be written: {value.problem or 'encrypted'}")
    cells: dict[str, Cell] = {**record.key._asdict(), "type": value.type}
    if record.kind is Kind.CHECKPOINT:
        cells |= {PARENT: record.parent or None, "checkpoint": value.data}
        cells |= {"metadata_type": metadata.type, "metadata": metadata.data}
        return Row(CHECKPOINTS, cells)
    cells |= {"task_id": record.task_id, "idx": record.idx, "channel": record.channel}
    return Row(WRITES, {**cells, "value": value.data})


def records_of(layout: str, rows: Iterable[Row]) -> Iterator[Record]:  # noqa: ARG001 - all alike
    """The records that the rows of one thread hold."""
    for row in rows:
        cells: Any = row.cells
        key = CheckpointKey(*(cells[name] for name in KEY))
        if row.table == CHECKPOINTS:
            body = TypedBytes(cells["type"], cells["checkpoint"])
            metadata = TypedBytes(cells["metadata_type"], cells["metadata"])
            yield Record.checkpoint(key, cells.get(PARENT) or None, body, metadata)
        else:
            value = TypedBytes(cells["type"], cells["value"])
            task = cells["task_id"], cells.get("task_path", ""), cells["idx"], cells["channel"]
            yield Record.write(key, *task, value)
