"""Changes the values in the texts of ValkeySaver."""

from __future__ import annotations

from typing import Any

from ckpt_backends.changes.rows import Row
from ckpt_backends.erasing.stored import EraseStored, PlacedValue, ValueKind
from ckpt_backends.redis.engine.keyspace import CHECKPOINT
from ckpt_backends.redis.valkey.stored_values import (
    checkpoint_text,
    stored_checkpoint,
    stored_writes,
    value_fields,
    writes_text,
)
from ckpt_backends.transfer.errors import CannotHold

_WRITES = "writes"


def edited_row(layout: str, row: Row, erase: EraseStored) -> Row:  # noqa: ARG001
    """The row with the values that `erase` returns; the same row if they are equal.

    Raises `CannotHold` for a text that cannot be read.
    """
    if row.table not in (CHECKPOINT, _WRITES):
        return row
    stored = row.cells["value"]
    text = stored if isinstance(stored, bytes) else str(stored).encode()
    name = str(row.cells["key"])
    made = _checkpoint(name, text, erase) if row.table == CHECKPOINT else _writes(name, text, erase)
    return row if made is None else Row(row.table, {**row.cells, "value": made})


def _checkpoint(name: str, text: bytes, erase: EraseStored) -> bytes | None:
    found = stored_checkpoint(text)
    _check(name, found.body.problem or found.metadata.problem)
    body = erase(PlacedValue(ValueKind.BODY, found.body, f"{name}\0body"))
    metadata = erase(PlacedValue(ValueKind.METADATA, found.metadata, f"{name}\0metadata"))
    if body is found.body and metadata is found.metadata:
        return None
    return checkpoint_text(
        found.fields,
        None if body is found.body else body,
        None if metadata is found.metadata else metadata,
    )


def _writes(name: str, text: bytes, erase: EraseStored) -> bytes | None:
    made: list[Any] = []
    is_changed = False
    for one in stored_writes(text):
        _check(name, one.value.problem)
        place = f"{name}\0{one.task_id}\0{one.idx}"
        value = erase(PlacedValue(ValueKind.WRITE, one.value, place, one.channel))
        is_same = value is one.value
        is_changed |= not is_same
        made.append(one.fields if is_same else {**one.fields, **value_fields(value)})
    return writes_text(made) if is_changed else None


def _check(name: str, problem: str) -> None:
    if problem:
        raise CannotHold(f"the key '{name}' cannot be read: {problem}")
