"""The names of the keys of hashes, and the records in them. Imports no driver."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from ckpt_backends.model import CheckpointKey, Record, TypedBytes
from ckpt_backends.redis.engine.keyspace import ABOUT, CALL, CHECKPOINT, MEMBER, raw, text
from ckpt_backends.rows import Cell, ChangeValue, PlacedValue, Row, ValueKind
from ckpt_backends.transfer.form import CannotHold

DOLLAR, COLON = "$", ":"
WRITES = "writes"
"""The kind of the keys of writes, and their beginning."""
_CALLS = re.compile(rf"(.*?):({CALL})", re.DOTALL)
"""Thread, colon, and the namespace of a subgraph's call. Such a namespace contains colons."""
_IDX = re.compile(r"-?\d+")


def parsed_checkpoint(name: bytes, separator: str) -> CheckpointKey | None:
    """Parse the key of a checkpoint. A thread id may contain the separator, an id never."""
    return _place(text(name)[len(CHECKPOINT + separator) :], separator)


def parsed_write(name: bytes, separator: str) -> tuple[CheckpointKey, str, int] | None:
    """The checkpoint, task id and idx in the key of a write."""
    parts = text(name)[len(WRITES + separator) :].rsplit(separator, 2)
    if len(parts) != 3 or not _IDX.fullmatch(parts[2]):
        return None
    key = _place(parts[0], separator)
    return None if key is None else (key, parts[1], int(parts[2]))


def _place(rest: str, separator: str) -> CheckpointKey | None:
    place, mark, checkpoint_id = rest.rpartition(separator)
    if not mark:
        return None
    if separator == COLON and (found := _CALLS.fullmatch(place)):
        return CheckpointKey(found[1], found[2], checkpoint_id)
    thread_id, mark, ns = place.rpartition(separator)
    return CheckpointKey(thread_id, ns, checkpoint_id) if mark else None


def body_and_metadata(fields: Mapping[str, bytes | None]) -> tuple[TypedBytes, TypedBytes]:
    """The body and the metadata of a checkpoint, from the fields of its hash."""
    tag, kind = (text(fields.get(one) or b"") for one in ("type", "metadata_type"))
    metadata = TypedBytes(kind or "json", fields.get("metadata") or b"{}")
    return TypedBytes(tag, fields.get("checkpoint") or b""), metadata


_OF_CHECKPOINT = frozenset(
    {"type", "checkpoint", "metadata", "metadata_type", "parent_checkpoint_id", "checkpoint_id"}
)
_OF_WRITE = frozenset({"channel", "type", "value"})


def records_of(layout: str, rows: Iterable[Row]) -> Iterator[Record]:
    """The records that the rows of one thread hold. Raises `CannotHold`.

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
            key = parsed_checkpoint(raw(name), separator)
            if key is not None and "type" in fields:
                parent = text(fields.get("parent_checkpoint_id", b"")) or None
                yield Record.checkpoint(key, parent, *body_and_metadata(fields), expires_at)
            continue
        parsed = parsed_write(raw(name), separator)
        if parsed is not None and {"channel", "type"} <= fields.keys():
            key, task_id, idx = parsed
            value = TypedBytes(text(fields["type"]), fields.get("value", b""))
            channel = text(fields["channel"])
            yield Record.write(key, task_id, "", idx, channel, value, expires_at)


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
