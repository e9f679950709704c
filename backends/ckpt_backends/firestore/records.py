"""What a document of `FirestoreSaver` holds, as a row and as a record.

    COLLECTION/THREAD_NAMESPACE/checkpoints/ID
        checkpoint, checkpoint_id, checkpoint_key, metadata, parent_checkpoint_id, run_id, type
    COLLECTION/THREAD_NAMESPACE/checkpoints/ID/writes/TASK_IDX
        channel, checkpoint_key, idx, task_id, task_path, type, value

Values are base64; `metadata` is a list of its type and value. The documents THREAD_NAMESPACE do not
exist themselves. Source: `firestoreSaver.py` of langgraph-checkpoint-firestore 0.4.0.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ckpt_backends.codec import decode
from ckpt_backends.model import CheckpointKey, Kind, Record, TypedBytes
from ckpt_backends.rows import Cell, Row
from ckpt_backends.transfer.form import CannotHold

CHECKPOINTS, WRITES = "checkpoints", "writes"
PLACE, PARENT, RUN = "checkpoint_key", "parent_checkpoint_id", "run_id"
KEY = ("thread_id", "checkpoint_ns", "checkpoint_id")
COLUMNS = {
    WRITES: (*KEY, "task_id", "idx", "task_path", "channel", "type", "value"),
    CHECKPOINTS: (*KEY, PARENT, "type", "checkpoint", "metadata_type", "metadata", RUN),
}
_BYTES = ("value", "checkpoint", "metadata")
_RESERVED = re.compile(r"\.\.?|__.*__", re.DOTALL)
_LONGEST, MOST = 1500, 1 << 20
"""Bytes of an id, and of a document."""


def is_id(text: str) -> bool:
    """Whether a document can have this id."""
    try:
        length = len(text.encode())
    except UnicodeEncodeError:
        return False
    return 0 < length <= _LONGEST and "/" not in text and not _RESERVED.fullmatch(text)


def key_of(path: str, named: object) -> CheckpointKey:
    """The checkpoint that the document at a path belongs to, of which `named` is the key.

    Thread ids and namespaces may contain the `_` between them, so that only the key tells.
    """
    _, partition, _, own, *_ = path.split("/")
    match str(named).split("/"):
        case [_, thread_id, ns, *_] if f"{thread_id}_{ns}" == partition:
            return CheckpointKey(thread_id, ns, own)
    thread_id, _, ns = partition.rpartition("_")
    return CheckpointKey(thread_id, ns, own)


def typed(tag: object, text: object) -> TypedBytes:
    """A stored type and value."""
    if isinstance(tag, str) and isinstance(text, str):
        try:
            return TypedBytes(tag, b64decode(text, validate=True))
        except ValueError:
            return TypedBytes("", text.encode(errors="replace"), problem="it is not base64")
    return TypedBytes("", b"", problem="no type and base64, as the saver stores them")


def metadata_of(fields: Mapping[str, Any]) -> TypedBytes:
    """The metadata of a checkpoint."""
    found = fields.get("metadata")
    return typed(*found) if isinstance(found, list) and len(found) == 2 else typed(None, None)


def row_of_document(path: str, fields: Mapping[str, Any]) -> Row:
    """A document as a row. Raises `CannotHold` if it has more or less than its saver stores."""
    key = key_of(path, fields.get(PLACE))._asdict()
    cells: dict[str, Cell]
    if path.endswith(f"/{key['checkpoint_id']}"):
        table, body, metadata = (
            CHECKPOINTS,
            typed(fields.get("type"), fields.get("checkpoint")),
            metadata_of(fields),
        )
        cells = {PARENT: fields.get(PARENT), "type": body.type, "checkpoint": body.data}
        cells |= {"metadata_type": metadata.type, "metadata": metadata.data}
        cells |= {RUN: fields[RUN]} if RUN in fields else {}
    else:
        table, value = WRITES, typed(fields.get("type"), fields.get("value"))
        cells = {name: fields.get(name) for name in ("task_id", "idx", "task_path", "channel")}
        cells |= {"type": value.type, "value": value.data}
    row = Row(table, {**key, **cells})
    if document_of(row) != fields or "/".join(path_of(row.cells)) != path.partition("/")[2]:
        raise CannotHold(f"'{path}' is not as its saver stores it")
    return row


def path_of(cells: Mapping[str, Cell]) -> Sequence[str]:
    """The path of the document of a row, below the collection. Raises `CannotHold`."""
    thread_id, ns, own = (cells[name] for name in KEY)
    path = [f"{thread_id!s}_{ns!s}", CHECKPOINTS, str(own)]
    if "task_id" in cells:
        path += [WRITES, f"{cells['task_id']!s}_{cells['idx']!s}"]
    for one in path:
        if not is_id(one):
            raise CannotHold(f"Firestore has no room for the id {one!r}; its saver refuses it")
    return path


def document_of(row: Row) -> dict[str, Any]:
    """The document of a row. Raises `CannotHold` for cells of another type."""
    cells = row.cells
    for name, cell in cells.items():
        kind = bytes if name in _BYTES else int if name == "idx" else str
        if type(cell) is not kind and name != RUN:
            raise CannotHold(f"a row of '{row.table}' has no {name} that its saver stores")
    values: dict[str, Any] = {
        name: b64encode(cell).decode() for name, cell in cells.items() if isinstance(cell, bytes)
    }
    key = [str(cells[name]) for name in KEY]
    if row.table == CHECKPOINTS:
        names = (PARENT, "type", "checkpoint_id", *((RUN,) if RUN in cells else ()))
        values["metadata"] = [cells.get("metadata_type"), values.get("metadata")]
        values[PLACE] = "/".join(["checkpoint", *key])
    else:
        names = ("task_id", "idx", "task_path", "channel", "type")
        values[PLACE] = "/".join(["writes", *key, str(cells["task_id"]), str(cells["idx"])])
    return {**values, **{name: cells.get(name) for name in names}}


def row_of(record: Record) -> Row:
    """The row of a record. Raises `CannotHold`."""
    if record.kind is Kind.VALUE:
        raise CannotHold("Firestore has no values outside of checkpoints")
    value, metadata = record.value, record.metadata
    if value.problem or value.part or metadata.part:
        raise CannotHold(f"a value cannot be written: {value.problem or 'encrypted'}")
    cells: dict[str, Cell] = {**record.key._asdict(), "type": value.type}
    if record.kind is Kind.WRITE:
        cells |= {"task_id": record.task_id, "idx": record.idx, "task_path": record.task_path}
        return Row(WRITES, {**cells, "channel": record.channel, "value": value.data})
    cells |= {PARENT: record.parent or "", "checkpoint": value.data}
    cells |= {"metadata_type": metadata.type, "metadata": metadata.data}
    fields = decode(metadata)
    run = fields.get(RUN) if isinstance(fields, dict) else None
    # The saver finds by it what a run stored.
    return Row(CHECKPOINTS, {**cells, **({RUN: run} if isinstance(run, str) else {})})


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
            task_id, idx, path, channel = (cells[name] for name in COLUMNS[WRITES][3:7])
            value = TypedBytes(cells["type"], cells["value"])
            yield Record.write(key, task_id, path, idx, channel, value)
