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
from collections.abc import Mapping, Sequence
from typing import Any

from ckpt_backends.codec import decode
from ckpt_backends.model import CheckpointKey, Record, TypedBytes
from ckpt_backends.objects import CHECKPOINTS, KEY, PARENT, WRITES
from ckpt_backends.objects import records as objects
from ckpt_backends.rows import Cell, Row
from ckpt_backends.transfer.form import CannotHold

PLACE, RUN = "checkpoint_key", "run_id"
COLUMNS = {
    WRITES: (*KEY, "task_id", "idx", "task_path", "channel", "type", "value"),
    CHECKPOINTS: (*KEY, PARENT, "type", "checkpoint", "metadata_type", "metadata", RUN),
}
_BYTES = ("value", "checkpoint", "metadata")
_RESERVED = re.compile(r"\.\.?|__.*__", re.DOTALL)
_LONGEST = 1500
"""Bytes of an id."""


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
    if path.count("/") == 3:
        body, metadata = typed(fields.get("type"), fields.get("checkpoint")), metadata_of(fields)
        table = CHECKPOINTS
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
    row = objects.row_of(record)
    if row.table == WRITES:
        return Row(WRITES, {**row.cells, "task_path": record.task_path})
    metadata = decode(record.metadata)
    run = metadata.get(RUN) if isinstance(metadata, dict) else None
    # The saver finds by it what a run stored.
    own: dict[str, Cell] = {RUN: run} if isinstance(run, str) else {}
    return Row(CHECKPOINTS, {**row.cells, PARENT: record.parent or "", **own})
