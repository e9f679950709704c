"""Replaces fields of documents that are as they were read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bson.raw_bson import RawBSONDocument
from pymongo.client_session import ClientSession

from ckpt_backends.changes.change import Change, moved
from ckpt_backends.changes.rows import Row
from ckpt_backends.erasing.stored import RowRewrite
from ckpt_backends.mongodb.engine.connect import MongoConnection
from ckpt_backends.mongodb.engine.receiving import Lock


def replace_documents(
    connection: MongoConnection,
    collections: Mapping[str, str],
    lock: Lock,
    thread_id: str,
    rewrites: Iterable[RowRewrite],
) -> None:
    """See `WritableStore.replace_rows`; one by one on a server without transactions.

    `collections` has the names by table. Raises `StoreChanged`, and `PyMongoError`.
    """
    if not connection.has_transactions:
        _replace(connection, collections, thread_id, rewrites, None)
        return
    with connection.transaction() as session:
        lock(thread_id, session)
        _replace(connection, collections, thread_id, rewrites, session)


def _replace(
    connection: MongoConnection,
    collections: Mapping[str, str],
    thread_id: str,
    rewrites: Iterable[RowRewrite],
    session: ClientSession | None,
) -> None:
    for one in rewrites:
        old, new = _document_of(one.stored), _document_of(one.new)
        changed = {name: new[name] for name in new if new[name] != old[name]}
        as_read = {name: old[name] for name in ("_id", *changed)}
        collection = connection.raw(collections[one.stored.table])
        done = collection.update_one(as_read, {"$set": changed}, session=session)
        if done.matched_count != 1:
            raise moved(Change(thread_id, {}))


def _document_of(row: Row) -> RawBSONDocument:
    stored = row.cells["bson"]
    return RawBSONDocument(stored if isinstance(stored, bytes) else b"")
