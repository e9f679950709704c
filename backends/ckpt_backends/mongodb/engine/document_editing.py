"""Changes the values in archived documents. Needs no driver."""

from __future__ import annotations

from ckpt_backends.changes.rows import Row
from ckpt_backends.codec.bson.documents import binary, entries, splice_bson, subdocument
from ckpt_backends.erasing.stored import EraseStored, PlacedValue, ValueKind
from ckpt_backends.model import TypedBytes
from ckpt_backends.transfer.errors import CannotHold

_STRING, _DOCUMENT, _BINARY = 2, 3, 5
_OLD_BINARY = 2


class EditedDocument:
    """The document of a row, whose fields are changed one by one."""

    def __init__(self, row: Row, erase: EraseStored) -> None:
        """Raises `CannotHold` for a row that is no document."""
        stored = row.cells.get("bson")
        self._row = row
        self._erase = erase
        self._stored = stored if isinstance(stored, bytes) else b""
        try:
            self._fields = entries(self._stored)
        except ValueError as error:
            raise CannotHold(f"a document of '{row.table}' cannot be read: {error}") from None
        self._place = f"{row.table}\0{self._fields.get('_id', b'').hex()}"
        self._edits: dict[str, bytes | None] = {}

    def text(self, name: str) -> str:
        """A text; `''` if there is none."""
        found = self._fields.get(name, b"\0")
        return found[5:-1].decode("utf-8", "replace") if found[0] == _STRING else ""

    def edit(self, name: str, tag: str, kind: ValueKind, *, document_tag: str = "bson") -> None:
        """Change a field: a binary with a value of type `tag`, or a document."""
        found = self._fields.get(name, b"\0")
        channel = self.text("channel") if kind is ValueKind.WRITE else ""
        if found[0] == _BINARY:
            # An old binary (subtype 2) repeats its length.
            stored = TypedBytes(tag, found[10:] if found[5] == _OLD_BINARY else found[6:])
        elif found[0] == _DOCUMENT:
            stored = TypedBytes(document_tag, found[1:])
        else:
            return
        made = self._erase(PlacedValue(kind, stored, f"{self._place}\0{name}", channel))
        if made is not stored:
            is_binary = found[0] == _BINARY
            self._edits[name] = binary(made.data) if is_binary else subdocument(made.data)

    def row(self) -> Row:
        """The row with the changed fields; the same row if none is changed."""
        if not self._edits:
            return self._row
        made = splice_bson(self._stored, self._edits)
        return Row(self._row.table, {**self._row.cells, "bson": made})
