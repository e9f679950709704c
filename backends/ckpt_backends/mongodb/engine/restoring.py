"""Restores documents of threads or items exactly as they were stored.

An existing document is found by its `_id`, or by its key if it was stored again with a new `_id`.
The key must be checked here, because releases before 0.1.4 do not create a unique index.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bson import DatetimeConversion, decode
from bson.codec_options import CodecOptions
from bson.errors import BSONError
from bson.raw_bson import RawBSONDocument
from pymongo.client_session import ClientSession

from ckpt_backends.errors import Refused, Unreadable, Unsupported
from ckpt_backends.mongodb.engine.connect import BY_BYTES, RAW, MongoConnection
from ckpt_backends.mongodb.engine.layout import CHECKPOINTS, WRITES, MongoLayout
from ckpt_backends.rows import Restored, Row, conflict, no_table, reread

DOCUMENTS_AT_ONCE, _BYTES_AT_ONCE = 100, 8 << 20
Documents = list[RawBSONDocument]


def key_of(layout: MongoLayout, row: Row) -> Hashable:
    """The unique key of an archived document. Raises `Unsupported` and `Unreadable`."""
    document = document_for(layout.collections, row)
    return row.table, *(str(document.get(name)) for name in layout.keys[row.table])


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
    restorer = _Restorer({table: connection.raw(name) for table, name in collections.items()}, keys)
    if connection.has_transactions:
        with connection.transaction() as session:
            return restorer.restore(rows, session, adds=True)
    # Without a transaction, compare all documents before adding the first one.
    with reread(rows) as again:
        restorer.restore(again(), None, adds=False)
        return restorer.restore(again(), None, adds=True)


@dataclass(frozen=True, slots=True)
class _Restorer:
    collections: Mapping[str, Any]
    keys: Mapping[str, Sequence[str]]

    def restore(
        self, rows: Iterable[Row], session: ClientSession | None, *, adds: bool
    ) -> Restored:
        added = there = 0
        for table, documents in self._batches(rows):
            found = self.collections[table]
            new = missing(found, self.keys[table], documents, session, table)
            if new and adds:
                found.insert_many(new, session=session)
            added += len(new)
            there += len(documents) - len(new)
        return Restored(added, there)

    def _batches(self, rows: Iterable[Row]) -> Iterator[tuple[str, Documents]]:
        """The documents in batches; all documents of a batch are of the same collection."""
        batch: Documents = []
        table, size = "", 0
        for row in rows:
            document = document_for(self.collections, row)
            full = len(batch) >= DOCUMENTS_AT_ONCE or size >= _BYTES_AT_ONCE
            if batch and (full or row.table != table):
                yield table, batch
                batch, size = [], 0
            table = row.table
            batch.append(document)
            size += len(document.raw)
        if batch:
            yield table, batch


def missing(
    collection: Any,
    names: Sequence[str],
    documents: Sequence[RawBSONDocument],
    session: ClientSession | None,
    table: str,
) -> Documents:
    """The documents that a collection does not have yet; `names` are the fields of their key.

    Raises `StoreChanged` if one exists with different contents.
    """
    keys = [{name: {"$eq": one.get(name)} for name in names} for one in documents]
    same = [{"_id": {"$in": [one["_id"] for one in documents]}}, *keys]
    left = {bytes(one.raw): one for one in documents}
    for one in collection.find({"$or": same}, session=session, collation=BY_BYTES):
        if left.pop(bytes(one.raw), None) is None:
            raise conflict(table)
    return list(left.values())


def _no_place(table: str) -> Unsupported:
    return Unsupported(
        f"this store has no collection for '{table}'",
        hint="name it in the URL: ?writes_collection=NAME",
    )


def document_for(tables: Container[str], row: Row) -> RawBSONDocument:
    """The document of an archived row. Raises `Unsupported` and `Unreadable`."""
    if row.table not in tables:
        raise _no_place(row.table)
    return _document_of(row)


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
