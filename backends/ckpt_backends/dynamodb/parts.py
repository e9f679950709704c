"""The parts of a thread in the rows of DynamoDB."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

from ckpt_backends.changes.rows import Cell, Row
from ckpt_backends.codec.limits import MOST_BYTES
from ckpt_backends.dynamodb.layers import BODY, decompressed, split_payload
from ckpt_backends.model import CheckpointKey, TypedBytes
from ckpt_backends.transfer.errors import CannotHold
from ckpt_backends.transfer.parts import CheckpointPart, Part, WritePart

_CHECKPOINTS = "checkpoints"


def parts_of(layout: str, rows: Iterable[Row]) -> Iterator[Part]:  # noqa: ARG001 - one layout
    """The parts that the rows of one thread hold. Raises `CannotHold`."""
    for row in rows:
        cells = row.cells
        names = ("thread_id", "checkpoint_ns", "checkpoint_id")
        key = CheckpointKey(*(_text(cells[name]) for name in names))
        expires_at = cast("int | None", cells.get("expires_at"))
        if row.table == _CHECKPOINTS:
            where = f"checkpoint '{key.checkpoint_id}'"
            body, metadata = split_payload(_payload(row, where))
            if body.problem:
                raise CannotHold(f"{where} cannot be read: {body.problem}")
            parent = cast("str | None", cells.get("parent_checkpoint_id"))
            yield CheckpointPart(key, parent, body, metadata, expires_at)
        else:
            channel = _text(cells["channel"])
            where = f"the write to '{channel}' at checkpoint '{key.checkpoint_id}'"
            yield WritePart(
                key,
                _text(cells["task_id"]),
                _text(cells.get("task_path", "")),
                cast("int", cells["idx"]),
                channel,
                _payload(row, where),
                expires_at,
            )


def _payload(row: Row, where: str) -> TypedBytes:
    """The value in a row. Raises `CannotHold`."""
    cells = row.cells
    data = cells.get(BODY if row.table == _CHECKPOINTS else "value")
    if not isinstance(data, bytes):
        raise CannotHold(f"the payload of {where} is missing")
    if "more" in cells:
        raise CannotHold(f"{where} has attributes that its saver does not store")
    if "compression" not in cells:
        return TypedBytes(_text(cells["type"]), data)
    try:
        found = decompressed(data)
    except ValueError as error:
        raise CannotHold(f"the payload of {where} cannot be read: {error}") from None
    if found is None:
        raise CannotHold(f"the payload of {where} decompresses to more than {MOST_BYTES >> 20} MiB")
    return TypedBytes(_text(cells["type"]), found)


def _text(cell: Cell) -> str:
    return cast("str", cell)
