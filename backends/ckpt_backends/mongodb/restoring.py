"""Restores documents in MongoDB's layouts, exactly as they were stored.

An existing document is found by its `_id`, or by its key if it was stored again with a new `_id`.
The key must be checked here, because releases before 0.1.4 do not create a unique index.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import Any

from bson import DatetimeConversion, decode
from bson.codec_options import CodecOptions
from bson.errors import BSONError
from bson.raw_bson import RawBSONDocument
from pymongo.client_session import ClientSession

from ckpt_backends.changes.rows import Restored, Row, conflict, no_table
from ckpt_backends.errors import Refused, Unreadable, Unsupported
from ckpt_backends.memory.protocol import ItemKey
from ckpt_backends.mongodb.engine.connect import BY_BYTES, RAW, MongoConnection
from ckpt_backends.mongodb.layout import CHECKPOINTS, KAFLOW, MEMORY, WRITES, MongoLayout

_DOCUMENTS_AT_ONCE, _BYTES_AT_ONCE = 100, 8 << 20
_CHECKPOINT = ("thread_id", "checkpoint_ns", "checkpoint_id")
_WRITE = (*_CHECKPOINT, "task_id", "idx")
Documents = list[RawBSONDocument]


def keys_of(layout: MongoLayout) -> dict[str, Sequence[str]]:
    """By table, the fields that identify a document."""
    checkpoint = [name for name in _CHECKPOINT if name != "checkpoint_ns" or layout.name != KAFLOW]
    return {WRITES: _WRITE, CHECKPOINTS: checkpoint}


def key_of(layout: MongoLayout, row: Row) -> Hashable:
    """The unique key of an archived document. Raises `Unsupported` and `Unreadable`."""
    keys = keys_of(layout)
    if row.table not in layout.collections:
        raise _no_place(row.table)
    document = _document_of(row)
    return row.table, *(str(document.get(name)) for name in keys[row.table])


def document_of(layout: MongoLayout, row: Row) -> Mapping[str, Any]:
    """An archived document. Raises `Refused` and `Unsupported`."""
    if row.table not in {WRITES, CHECKPOINTS}:
        raise no_table(row.table)
    if row.table not in layout.collections:
        raise _no_place(row.table)
    return unique(row)


def unique(row: Row) -> Mapping[str, Any]:
    """An archived document without a field that appears twice.

    The server and a saver might each read another one of the two. Raises `Refused`.
    """
    try:
        return decode(_document_of(row).raw, _UNIQUE)
    except (BSONError, ValueError, Unreadable):
        raise Refused(f"a row of '{row.table}' is not a MongoDB document") from None


def item_key(row: Row) -> ItemKey:
    """The key of an archived item of long-term memory. Raises `Refused`."""
    if row.table != MEMORY:
        raise no_table(row.table)
    match unique(row):
        case {"namespace": list(labels), "key": str(key), "value": _, **rest} if all(
            isinstance(one, str) for one in labels
        ) and _agrees(labels, rest):
            return ItemKey(tuple(labels), key)
    raise Refused(f"a document of '{row.table}' is not an item")


def _agrees(labels: Sequence[str], rest: Mapping[str, Any]) -> bool:
    """Whether other fields of a document, by which the library finds it, name its namespace.

    The separator is an argument of the library.
    """
    whole = rest.get("namespace_str")
    if whole is not None:
        if not labels or not isinstance(whole, str):
            return False
        length = len(whole) - sum(map(len, labels))
        first = len(labels[0])
        separator = whole[first : first + length // max(1, len(labels) - 1)]
        if separator.join(labels) != whole:
            return False
    prefixes = rest.get("namespace_prefix") or []
    return isinstance(prefixes, list) and all(
        isinstance(one, str) and (whole or "").startswith(one) for one in prefixes
    )


class _Unique(dict[str, Any]):
    def __setitem__(self, name: str, value: object) -> None:
        if name in self:
            raise ValueError(name)
        super().__setitem__(name, value)


_UNIQUE = CodecOptions[Any](
    document_class=_Unique, datetime_conversion=DatetimeConversion.DATETIME_MS
)


def restore_rows(
    connection: MongoConnection,
    collections: Mapping[str, str],
    keys: Mapping[str, Sequence[str]],
    rows: Iterable[Row],
) -> Restored:
    """Add the documents that do not exist yet, all of them or none.

    `collections` maps each table to its collection, `keys` to the fields that identify its
    documents. Raises `StoreChanged` if a document exists with different contents, `Unsupported`,
    `Unreadable` and `PyMongoError`.
    """
    restorer = _Restorer(connection, collections, keys)
    if connection.has_transactions:
        with connection.transaction() as session:
            return restorer.restore(rows, session, adds=True)
    # Without a transaction, compare all documents before adding the first one.
    with _twice(rows) as again:
        restorer.restore(again(), None, adds=False)
        return restorer.restore(again(), None, adds=True)


class _Restorer:
    def __init__(
        self,
        connection: MongoConnection,
        collections: Mapping[str, str],
        keys: Mapping[str, Sequence[str]],
    ) -> None:
        self._collections = {table: connection.raw(name) for table, name in collections.items()}
        self._keys = keys

    def restore(
        self, rows: Iterable[Row], session: ClientSession | None, *, adds: bool
    ) -> Restored:
        added = there = 0
        for table, documents in self._batches(rows):
            missing = self._missing(table, documents, session)
            if missing and adds:
                self._collections[table].insert_many(missing, session=session)
            added += len(missing)
            there += len(documents) - len(missing)
        return Restored(added, there)

    def _batches(self, rows: Iterable[Row]) -> Iterator[tuple[str, Documents]]:
        """The documents in batches; all documents of a batch are of the same collection."""
        batch: Documents = []
        table, size = "", 0
        for row in rows:
            document = self._document(row)
            full = len(batch) >= _DOCUMENTS_AT_ONCE or size >= _BYTES_AT_ONCE
            if batch and (full or row.table != table):
                yield table, batch
                batch, size = [], 0
            table = row.table
            batch.append(document)
            size += len(document.raw)
        if batch:
            yield table, batch

    def _document(self, row: Row) -> RawBSONDocument:
        if row.table not in self._collections:
            raise _no_place(row.table)
        return _document_of(row)

    def _missing(
        self, table: str, documents: Sequence[RawBSONDocument], session: ClientSession | None
    ) -> Documents:
        """The documents that do not exist yet.

        Raises `StoreChanged` if one exists with different contents.
        """
        keys = [self._key(table, one) for one in documents]
        same = [{"_id": {"$in": [one["_id"] for one in documents]}}, *keys]
        left = {bytes(one.raw): one for one in documents}
        found = self._collections[table].find({"$or": same}, session=session, collation=BY_BYTES)
        for one in found:
            if left.pop(bytes(one.raw), None) is None:
                raise conflict(table)
        return list(left.values())

    def _key(self, table: str, document: RawBSONDocument) -> Mapping[str, Any]:
        return {name: {"$eq": document.get(name)} for name in self._keys[table]}


def _no_place(table: str) -> Unsupported:
    return Unsupported(
        f"this store has no collection for '{table}'",
        hint="name it in the URL: ?writes_collection=NAME",
    )


def _document_of(row: Row) -> RawBSONDocument:
    stored = row.cells.get("bson")
    try:
        if isinstance(stored, bytes):
            document = RawBSONDocument(stored, RAW)
            if "_id" in document:
                return document
    except BSONError:
        pass
    raise Unreadable(
        f"a row of '{row.table}' is not a MongoDB document, so nothing was restored",
        hint="use another copy of the archive",
    )


@contextmanager
def _twice(rows: Iterable[Row]) -> Iterator[Any]:
    """Make rows readable several times by storing them in a temporary file.

    Yields a function that returns an iterator over all rows.
    """
    with TemporaryFile() as file:
        for row in rows:
            stored = row.cells.get("bson")
            table, document = row.table.encode(), stored if isinstance(stored, bytes) else b""
            file.write(b"%d %d\n" % (len(table), len(document)) + table + document)

        def again() -> Iterator[Row]:
            file.seek(0)
            while sizes := file.readline().split():
                name, document = (file.read(int(size)) for size in sizes)
                yield Row(name.decode(), {"bson": document})

        yield again
