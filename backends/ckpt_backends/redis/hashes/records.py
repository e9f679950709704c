"""The parts of a thread in hashes. Needs no server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ckpt_backends.model import TypedBytes
from ckpt_backends.redis.engine.keyspace import ABOUT, CHECKPOINT, MEMBER, raw, text
from ckpt_backends.redis.hashes.layout import COLON, DOLLAR, parsed_checkpoint, parsed_write
from ckpt_backends.rows import Cell, ChangeValue, PlacedValue, Row, ValueKind
from ckpt_backends.transfer.form import CannotHold
from ckpt_backends.transfer.parts import CheckpointPart, Part, WritePart

_OF_CHECKPOINT = frozenset(
    {"type", "checkpoint", "metadata", "metadata_type", "parent_checkpoint_id", "checkpoint_id"}
)
_OF_WRITE = frozenset({"channel", "type", "value"})


def parts_of(layout: str, rows: Iterable[Row]) -> Iterator[Part]:
    """The parts that the rows of one thread hold. Raises `CannotHold`.

    Leaves out hashes that the saver did not complete, as its reader does.
    """
    separator = DOLLAR if layout == "redis-hash" else COLON
    for row in rows:
        fields = {
            name.removeprefix(MEMBER): cell if isinstance(cell, bytes) else b""
            for name, cell in row.cells.items()
            if name not in ABOUT
        }
        name, at = str(row.cells["key"]), row.cells.get("expires_at")
        expires_at = at if isinstance(at, int) else None
        is_checkpoint = row.table == CHECKPOINT
        for field in fields:
            if field not in (_OF_CHECKPOINT if is_checkpoint else _OF_WRITE):
                raise CannotHold(f"the hash '{name}' has an unknown field '{field}'")
        if is_checkpoint:
            found = _checkpoint(name, separator, fields, expires_at)
        else:
            found = _write(name, separator, fields, expires_at)
        if found is not None:
            yield found


def _checkpoint(
    name: str, separator: str, fields: dict[str, bytes], expires_at: int | None
) -> Part | None:
    key = parsed_checkpoint(raw(name), separator)
    if key is None or "type" not in fields:
        return None
    metadata_type = text(fields.get("metadata_type", b"json"))
    return CheckpointPart(
        key,
        text(fields.get("parent_checkpoint_id", b"")) or None,
        TypedBytes(text(fields["type"]), fields.get("checkpoint", b"")),
        TypedBytes(metadata_type, fields.get("metadata", b"{}")),
        expires_at,
    )


def _write(
    name: str, separator: str, fields: dict[str, bytes], expires_at: int | None
) -> Part | None:
    parsed = parsed_write(raw(name), separator)
    if parsed is None or not {"channel", "type"} <= fields.keys():
        return None
    key, task_id, idx = parsed
    value = TypedBytes(text(fields["type"]), fields.get("value", b""))
    return WritePart(key, task_id, "", idx, text(fields["channel"]), value, expires_at)


# Changes the values in hashes.


def edited_row(layout: str, row: Row, change: ChangeValue) -> Row:  # noqa: ARG001
    """The row with the values that `change` returns; the same row if they are equal."""
    cells = dict(row.cells)
    if row.table == CHECKPOINT:
        _edit(cells, "checkpoint", "type", ValueKind.BODY, change)
        _edit(cells, "metadata", "metadata_type", ValueKind.METADATA, change)
    else:
        _edit(cells, "value", "type", ValueKind.WRITE, change)
    return row if cells == row.cells else Row(row.table, cells)


def _edit(
    cells: dict[str, Cell], field: str, tag: str, kind: ValueKind, change: ChangeValue
) -> None:
    """Change the value of a field, and its type, which is in the field `tag`."""
    data = cells.get(MEMBER + field)
    if isinstance(data, bytes):
        default = "json" if kind is ValueKind.METADATA else ""
        stored = TypedBytes(_text(cells, tag) or default, data)
        channel = _text(cells, "channel")
        made = change(PlacedValue(kind, stored, f"{cells['key']!s}\0{field}", channel))
        cells[MEMBER + field] = made.data
        if made.type != stored.type:
            cells[MEMBER + tag] = raw(made.type)


def _text(cells: dict[str, Cell], field: str) -> str:
    cell = cells.get(MEMBER + field)
    return text(cell) if isinstance(cell, bytes) else ""
