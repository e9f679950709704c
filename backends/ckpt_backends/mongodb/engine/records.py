"""Reads and changes the fields of an archived document. Needs no driver."""

from __future__ import annotations

from collections.abc import Collection

from ckpt_backends.codec.bson import binary, entries, plain, splice_bson, subdocument
from ckpt_backends.errors import Unreadable
from ckpt_backends.model import CheckpointKey, TypedBytes
from ckpt_backends.rows import ChangeValue, PlacedValue, Row, ValueKind
from ckpt_backends.transfer.form import CannotHold

_STRING, _DOCUMENT, _BINARY, _DATE, _NULL, _INT32, _INT64 = 2, 3, 5, 9, 10, 16, 18
_OLD_BINARY = 2
_INTEGERS = (_INT32, _INT64)


class MongoDocument:
    """The document of a row."""

    def __init__(self, row: Row) -> None:
        """Raises `Unreadable` for a row that is no document."""
        stored = row.cells.get("bson")
        self._row = row
        self._stored = stored if isinstance(stored, bytes) else b""
        try:
            self._fields = entries(self._stored)
        except ValueError as error:
            raise Unreadable(f"a row of '{row.table}' is not a MongoDB document: {error}") from None
        self._edits: dict[str, bytes | None] = {}

    def check_fields(self, known: Collection[str]) -> None:
        """Raise `CannotHold` for a field that no saver stores, because no target has a place."""
        if unknown := self._fields.keys() - known:
            raise CannotHold(
                f"a document of '{self._row.table}' has the field '{min(unknown)}', which ckpt does"
                " not know"
            )

    def __contains__(self, name: str) -> bool:
        return self._fields.get(name, bytes([_NULL]))[0] != _NULL

    def text(self, name: str) -> str:
        """A text; `''` if it is missing or null. Numbers are texts in decimal form."""
        if name not in self:
            return ""
        found = self._fields[name]
        if found[0] in _INTEGERS:
            return str(self.number(name))
        if found[0] == _STRING:
            try:
                return found[5:-1].decode()
            except UnicodeDecodeError:
                pass
        raise self._no(name, "text")

    def number(self, name: str) -> int:
        """An integer; 0 if it is missing or null."""
        if name not in self:
            return 0
        return self._integer(name, _INTEGERS, "integer")

    def milliseconds(self, name: str) -> int:
        """A time, in milliseconds since 1970; 0 if it is missing or null."""
        return self._integer(name, (_DATE,), "time") if name in self else 0

    def _integer(self, name: str, kinds: Collection[int], word: str) -> int:
        found = self._fields[name]
        if found[0] not in kinds:
            raise self._no(name, word)
        return int.from_bytes(found[1:], "little", signed=True)

    def binary(self, name: str) -> bytes:
        """The bytes of a binary."""
        found = self._fields.get(name, b"\0")
        if found[0] != _BINARY:
            raise self._no(name, "binary")
        return _bytes_in(found)

    def document(self, name: str) -> bytes | None:
        """A document inside this one; None if the field is of another kind."""
        found = self._fields.get(name, b"\0")
        return found[1:] if found[0] == _DOCUMENT else None

    def key(self) -> CheckpointKey:
        """The key of the checkpoint that the document belongs to."""
        return CheckpointKey(
            self.text("thread_id"), self.text("checkpoint_ns"), self.text("checkpoint_id")
        )

    def _no(self, name: str, word: str) -> CannotHold:
        return CannotHold(f"field '{name}' of a document of '{self._row.table}' is no {word}")

    def edit(
        self,
        name: str,
        kind: ValueKind,
        change: ChangeValue,
        *,
        tag: str = "",
        tag_field: str = "",
        document_tag: str = "bson",
    ) -> None:
        """Change a field: a binary with a value, or a document of the type `document_tag`.

        The type of the value is `tag`, or stands in the field `tag_field`.
        """
        found = self._fields.get(name, b"\0")
        channel = self.text("channel") if kind is ValueKind.WRITE else ""
        is_binary = found[0] == _BINARY
        if is_binary:
            stored = TypedBytes(tag or self.text(tag_field), _bytes_in(found))
        elif found[0] == _DOCUMENT:
            stored = TypedBytes(document_tag, found[1:])
        else:
            return
        place = f"{self._row.table}\0{self._fields.get('_id', b'').hex()}\0{name}"
        made = change(PlacedValue(kind, stored, place, channel))
        if made is not stored:
            self._edits[name] = binary(made.data) if is_binary else subdocument(made.data)
            if made.type != stored.type:
                self._edits[tag_field] = plain(made.type)

    def row(self) -> Row:
        """The row with the changed fields; the same row if none is changed."""
        if not self._edits:
            return self._row
        made = splice_bson(self._stored, self._edits)
        return Row(self._row.table, {**self._row.cells, "bson": made})


def _bytes_in(field: bytes) -> bytes:
    """The bytes of a binary; an old one (subtype 2) repeats its length."""
    return field[10:] if field[5] == _OLD_BINARY else field[6:]
