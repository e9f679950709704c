"""What stored and archived documents hold. Needs no driver.

`MongoDocument` reads and changes the fields of any document; `records_of` and `edited_row` are for
those of LangGraph's savers, in both languages.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from ckpt_backends.codec.bson import binary, entries, plain, splice_bson, subdocument, typed_leaves
from ckpt_backends.errors import Unreadable, Unsupported
from ckpt_backends.model import CheckpointKey, Record, TypedBytes
from ckpt_backends.rows import ChangeValue, PlacedValue, Row, ValueKind
from ckpt_backends.transfer.form import CannotHold

WRITES, CHECKPOINTS, MEMORY = "checkpoint_writes", "checkpoints", "store"
"""The table names in archives and reports, whatever the names of the collections are."""
KEY = ("thread_id", "checkpoint_ns", "checkpoint_id")
_STRING, _DOCUMENT, _BINARY, _DATE, _NULL, _INT32, _INT64 = 2, 3, 5, 9, 10, 16, 18
_OLD_BINARY = 2
_INTEGERS = (_INT32, _INT64)


class MongoDocument:
    """The document of a row."""

    def __init__(self, row: Row) -> None:
        """Raises `Unreadable` for a row that is no document, or has a field twice.

        The server and a saver might each read another one of the two.
        """
        stored = row.cells.get("bson")
        self._row = row
        self.raw = stored if isinstance(stored, bytes) else b""
        try:
            self._fields = entries(self.raw)
        except ValueError as error:
            raise Unreadable(
                f"a row of '{row.table}' is not a MongoDB document: {error}",
                hint="use another copy of the archive",
            ) from None
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

    def stored(self, names: Iterable[str]) -> tuple[bytes | None, ...]:
        """Fields as they are stored; None for one that is missing."""
        return tuple(map(self._fields.get, names))

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
        made = splice_bson(self.raw, self._edits)
        return Row(self._row.table, {**self._row.cells, "bson": made})


def _bytes_in(field: bytes) -> bytes:
    """The bytes of a binary; an old one (subtype 2) repeats its length."""
    return field[10:] if field[5] == _OLD_BINARY else field[6:]


# The records of a thread in the documents of LangGraph's savers.


_MADE_ANEW = frozenset({"_id", "created_at", "upserted_at", "metadata_search"})
"""Fields with nothing of their own: a saver makes them from the others, or from the clock."""
_OF_CHECKPOINT = {*KEY, "parent_checkpoint_id", "type", "checkpoint", "metadata", *_MADE_ANEW}
_OF_WRITE = {*KEY, "task_id", "task_path", "idx", "channel", "type", "value", *_MADE_ANEW}


def records_of(layout: str, rows: Iterable[Row]) -> Iterator[Record]:  # noqa: ARG001
    """The records that the documents of one thread hold. Raises `Unsupported` and `Unreadable`."""
    for row in rows:
        found = MongoDocument(row)
        if row.table == WRITES:
            found.check_fields(_OF_WRITE)
            yield _write(found)
        elif row.table == CHECKPOINTS:
            found.check_fields(_OF_CHECKPOINT)
            yield _checkpoint(found)
        else:
            raise Unsupported(f"a row of the unknown table '{row.table}'")


def _checkpoint(fields: MongoDocument) -> Record:
    return Record.checkpoint(
        fields.key(),
        fields.text("parent_checkpoint_id") or None,
        TypedBytes(fields.text("type"), fields.binary("checkpoint")),
        _metadata(fields),
    )


def _metadata(fields: MongoDocument) -> TypedBytes:
    stored = fields.document("metadata")
    if stored is None:
        return TypedBytes("json", fields.binary("metadata"))
    # Before 0.2.2, a leaf is only the bytes of a JSON text. Newer releases read such a leaf only
    # with its type.
    return TypedBytes("bson", typed_leaves(stored))


def _write(fields: MongoDocument) -> Record:
    return Record.write(
        fields.key(),
        fields.text("task_id"),
        fields.text("task_path"),
        fields.number("idx"),
        fields.text("channel"),
        TypedBytes(fields.text("type"), fields.binary("value")),
    )


def edited_row(layout: str, row: Row, change: ChangeValue) -> Row:  # noqa: ARG001
    """The row with the values that `change` returns; the same row if they are equal.

    Raises `Unreadable` for a row that is no document.
    """
    found = MongoDocument(row)
    if row.table == CHECKPOINTS:
        found.edit("checkpoint", ValueKind.BODY, change, tag_field="type")
        found.edit("metadata", ValueKind.METADATA, change, tag="json")
        # LangGraph.js stores the metadata a second time, to search in them.
        found.edit("metadata_search", ValueKind.METADATA, change, document_tag="bson-plain")
    elif row.table == WRITES:
        found.edit("value", ValueKind.WRITE, change, tag_field="type")
    return found.row()
