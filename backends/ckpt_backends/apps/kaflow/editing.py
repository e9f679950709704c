"""Changes the values in documents of KaFlow. Needs no driver."""

from __future__ import annotations

from ckpt_backends.changes.rows import Row
from ckpt_backends.codec.bson.documents import binary, entries, splice_bson, subdocument
from ckpt_backends.erasing.stored import EraseStored, PlacedValue, ValueKind
from ckpt_backends.model import TypedBytes
from ckpt_backends.transfer.errors import CannotHold

_BODY, _METADATA = "checkpoint_data", "metadata"
_BINARY, _DOCUMENT, _BINARY_HEAD = 5, 3, 6


def edited_row(layout: str, row: Row, erase: EraseStored) -> Row:  # noqa: ARG001
    """The row with the values that `erase` returns; the same row if they are equal.

    Raises `CannotHold` for a document that cannot be read.
    """
    stored = row.cells.get("bson")
    try:
        fields = entries(stored if isinstance(stored, bytes) else b"")
    except ValueError as error:
        raise CannotHold(f"a document of '{row.table}' cannot be read: {error}") from None
    place = fields.get("_id", b"").hex()
    edits: dict[str, bytes | None] = {}
    body, metadata = fields.get(_BODY, b"\0"), fields.get(_METADATA, b"\0")
    if body[0] == _BINARY:
        found = TypedBytes("pickle", body[_BINARY_HEAD:])
        made = erase(PlacedValue(ValueKind.BODY, found, f"{place}\0{_BODY}"))
        if made is not found:
            edits[_BODY] = binary(made.data)
    if metadata[0] == _DOCUMENT:
        found = TypedBytes("bson-plain", metadata[1:])
        made = erase(PlacedValue(ValueKind.METADATA, found, f"{place}\0{_METADATA}"))
        if made is not found:
            edits[_METADATA] = subdocument(made.data)
    if not edits or not isinstance(stored, bytes):
        return row
    return Row(row.table, {**row.cells, "bson": splice_bson(stored, edits)})
