"""Changes documents of LangGraph's savers and of its MongoDBStore, and makes empty stores."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

from bson import ObjectId
from bson.raw_bson import RawBSONDocument
from pymongo.client_session import ClientSession

from ckpt_backends import shell
from ckpt_backends.base import OnConnection
from ckpt_backends.changes import Remains
from ckpt_backends.codec.bson import JSON_TEXT, leaf_tags
from ckpt_backends.errors import (
    PartlyDone,
    Refused,
    SeveralLayouts,
    StoreChanged,
    UnknownLayout,
    Unsupported,
)
from ckpt_backends.memory import Item, WritableMemoryStore, check_unchanged
from ckpt_backends.model import Kind, Progress, Record, TypedBytes, in_batches, silent, time_of
from ckpt_backends.mongodb.declaration import BACKEND
from ckpt_backends.mongodb.engine.connect import MongoConnection, connect, explained_change
from ckpt_backends.mongodb.engine.layout import examine, find_layout
from ckpt_backends.mongodb.engine.records import CHECKPOINTS, MEMORY, WRITES
from ckpt_backends.mongodb.engine.write import (
    DOCUMENTS_AT_ONCE,
    Document,
    MongoChanges,
    Receiver,
    archived,
    erase_remains,
    metadata_document,
    missing,
)
from ckpt_backends.mongodb.memory import MongoMemory, StoredItem, find_collection
from ckpt_backends.mongodb.store import INDEXES, JAVASCRIPT
from ckpt_backends.rows import Restored, Row, reread
from ckpt_backends.servers import opening, understanding
from ckpt_backends.transfer.copying import Arrival, record_key
from ckpt_backends.transfer.form import CannotHold, Language
from ckpt_backends.url import StoreUrl

# Makes documents of records, as the newest releases of LangGraph's savers store them.
#
# What a record does not hold is derived from its key, so that the same record always becomes the
# same document.


_INT32 = 1 << 31
_NEWEST: Document = {"metadata": b"", "metadata_search": None}
"""Metadata of LangGraph.js since 1.3.4: JSON, and a document for searching."""


def _made_id(at: datetime | None, words: Iterable[str]) -> ObjectId:
    """An id with a time, and a digest of what names the document in place of a random number."""
    seconds = 0 if at is None else int(at.timestamp())
    digest = blake2b(digest_size=8)
    for text in words:
        word = text.encode("utf-8", "surrogatepass")
        digest.update(len(word).to_bytes(4, "big") + word)
    return ObjectId((seconds & 0xFFFFFFFF).to_bytes(4, "big") + digest.digest())


def _for_search(metadata: TypedBytes) -> Any:
    """Metadata as the document that MongoDB's JavaScript driver stores. Raises `CannotHold`."""
    try:
        return json.loads(metadata.data, parse_int=_number, parse_float=_number)
    except ValueError:
        raise CannotHold("the metadata of a checkpoint is no JSON text") from None


def _number(text: str) -> int | float:
    """A number as this driver stores it: small whole ones are integers, all others floats."""
    number = float(text)
    return int(number) if number.is_integer() and -_INT32 <= number < _INT32 else number


class WritableMongoStore(MongoChanges):
    """A database of LangGraph's Python or JavaScript saver, opened for changing."""

    _stamped: Collection[str] = ()
    """The tables whose new documents get the time of storing, while threads are received."""

    def receive(self, arrivals: Iterable[Arrival]) -> None:
        self._need_writes()
        with explained_change(self._url):
            self._check_release()
            self._stamped = list(self._tables_with_times())
            listed = list(arrivals)
            made = (self.document_of(record, None) for one in listed for record in one.records)
            Receiver(self._connection, self._layout, self._lock).receive(listed, made)

    def _check_release(self) -> None:
        """Raise `Unsupported` if the saver of this store cannot read what new releases store."""
        for order in (1, -1):
            found = self._checkpoints.find_one({}, {"metadata": 1}, sort=[("_id", order)])
            metadata = (found or {}).get("metadata")
            if isinstance(metadata, RawBSONDocument) and JSON_TEXT in leaf_tags(
                bytes(metadata.raw)
            ):
                raise Unsupported(
                    f"'{self._url}' was written by langgraph-checkpoint-mongodb before 0.2.2, which"
                    " cannot read what newer releases store",
                    hint="copy into a new database with --create, from both stores",
                )

    def _tables_with_times(self) -> Iterator[str]:
        """The tables whose documents have the time of storing, because they expire by it."""
        field = self._layout.saver.time_field
        for table, name in self._layout.collections.items():
            one = self._connection.raw(name).find_one({}, {field: 1}, sort=[("_id", -1)])
            if name in self._layout.lifetimes or field in (one or {}):
                yield table

    def document_of(self, record: Record, like: Document | None) -> tuple[str, Document]:
        if record.kind is Kind.VALUE:
            raise Unsupported("MongoDB stores values in bodies")
        if record.kind is Kind.CHECKPOINT:
            table = CHECKPOINTS
            fields: Document = {
                "parent_checkpoint_id": record.parent,
                "type": record.value.type,
                "checkpoint": record.value.data,
            }
            is_javascript = self._layout.name == JAVASCRIPT
            if like is None and not is_javascript:
                fields["metadata"] = RawBSONDocument(record.metadata.data)
            else:
                # A thread that is made again may be the first one of the store.
                newest = _NEWEST if is_javascript else {}
                fields |= self.metadata_fields(record.metadata, like or newest)
        else:
            table = WRITES
            fields = {
                "task_id": record.task_id,
                **({} if self._layout.name == JAVASCRIPT else {"task_path": record.task_path}),
                "idx": record.idx,
                "channel": record.channel,
                "type": record.value.type,
                "value": record.value.data,
            }
        made = {**record.key._asdict(), **fields}
        if like is not None:
            # If documents expire by this field, one without it would never expire.
            stamps = {name for name in ("created_at", "upserted_at") if name in like}
            return table, {**made, **dict.fromkeys(stamps, datetime.now(UTC))}
        at = time_of(record.key.checkpoint_id)
        if table in self._stamped:
            made[self._layout.saver.time_field] = at or datetime.now(UTC)
        return table, {"_id": _made_id(at, (record.key.thread_id, *record_key(record))), **made}

    def metadata_fields(self, given: TypedBytes, like: Document) -> Document:
        stored = like.get("metadata")
        if isinstance(stored, bytes):
            search = {"metadata_search": _for_search(given)} if "metadata_search" in like else {}
            return {"metadata": given.data, **search}
        if given.type == "bson" and "" not in leaf_tags(given.data):
            return {"metadata": RawBSONDocument(given.data)}
        tags = leaf_tags(bytes(stored.raw)) if isinstance(stored, RawBSONDocument) else frozenset()
        # New releases encode leaves as msgpack, old ones as JSON.
        is_json = JSON_TEXT in tags and "msgpack" not in tags
        return {"metadata": metadata_document(given, "json" if is_json else "msgpack")}


# Makes the collections and indexes of LangGraph's newest savers in an empty database.
#
# Source: `_create_saver_indexes` in `langgraph/checkpoint/mongodb/saver.py` 0.5.1, and `setup` in
# `checkpoint.js` of @langchain/langgraph-checkpoint-mongodb 1.4.1. Both make an index that removes
# old documents only if the application asks for it.


_PARAMS = {CHECKPOINTS: "collection", WRITES: "writes_collection"}
"""By usual name of a collection, the URL parameter that names another one."""


def create(url: StoreUrl, language: Language) -> None:
    """Make an empty store. See `Backend.create`."""
    with opening(connect(url), url) as connection:
        if not _is_there(connection, url, language):
            with explained_change(url):
                for table, (key, options) in INDEXES[BACKEND.creates[language]].items():
                    collection = connection.database[url.params.get(_PARAMS[table], table)]
                    collection.create_index(list(key.items()), **options)
        connection.close()


def _is_there(connection: MongoConnection, url: StoreUrl, language: Language) -> bool:
    """Whether the store is there. Raises `Refused` if anything else is, besides memory."""
    names = connection.collections()
    if all(one.kind.table == MEMORY for one in examine(connection, names)):
        return False
    try:
        layout = find_layout(connection, url).name
    except (UnknownLayout, SeveralLayouts):
        layout = ""
    if layout == BACKEND.creates[language]:
        return True
    held = f"the layout '{layout}'" if layout else f"collections such as '{names[0]}'"
    raise Refused(
        f"cannot make a store in '{url}': the database holds {held}",
        hint="name another database in the URL",
    )


# Makes the collection of MongoDBStore (langgraph-store-mongodb 0.4.0), without vectors.


_NAME = "persistent-store"
"""The default name of `MongoDBStore.from_conn_string`."""


def create_memory(url: StoreUrl) -> None:
    """Make the collection in a database with nothing or threads, unless it is there.

    Raises `Refused` if there is anything else, and `StoreUnavailable`.
    """
    with closing(connect(url)) as connection:
        try:
            name = find_collection(connection, url)
        except UnknownLayout:
            name = url.params.get("store_collection", _NAME)
        found = {one.name: one for one in examine(connection, connection.collections())}
        if name in found and found[name].kind.table == MEMORY:
            return
        others = [
            one for one in found.values() if one.fields and (one.name == name or not one.kind.table)
        ]
        if others:
            listed = ", ".join(shell.word(one.name) for one in others[:10])
            raise Refused(
                f"cannot make a store in '{url}': it is not empty",
                hint=f"found {listed}; name an empty database",
            )
        with explained_change(url):
            if name not in found:
                connection.database.create_collection(name)
            connection.database[name].create_index(["namespace_str", "key"], unique=True)


# Changes the items of a MongoDBStore.


_BYTES_AT_ONCE = 8 << 20


def document_of(item: Item, separator: str) -> dict[str, Any]:
    """The document of an item that was fitted. Its `_id` is always the same."""
    namespace = list(item.key.namespace)
    return {
        "_id": _made_id(item.created_at, (*namespace, item.key.key)),
        "key": item.key.key,
        "namespace_str": separator.join(namespace),
        "created_at": item.created_at,
        "namespace": namespace,
        "updated_at": item.updated_at,
        "value": RawBSONDocument(item.value.data if item.value is not None else b""),
    }


class WritableMongoMemory(OnConnection[MongoConnection], WritableMemoryStore):
    """A MongoDBStore's collection, opened for changing."""

    def __init__(self, connection: MongoConnection, url: StoreUrl) -> None:
        super().__init__(connection, url)
        self._memory = MongoMemory(connection, url)

    def remove(self, items: Sequence[Item]) -> int:
        """Remove items, all or none, as `WritableMemoryStore.remove` says.

        A standalone server has no transactions, so there the items are removed one by one. Raises
        `PartlyDone` there if an item changes after other items were removed.
        """
        self._connection.restart()
        found = {
            (one.item.key, one.item.updated_at): one
            for one in self._memory.named([item.key for item in items])
        }
        for one in items:
            place = found.get((one.key, one.updated_at))
            check_unchanged(one, None if place is None else place.item)
        places = [found[one.key, one.updated_at] for one in items]
        with explained_change(self._url), self._connection.transaction() as session:
            return self._remove(places, session)

    def _remove(self, places: Sequence[StoredItem], session: ClientSession | None) -> int:
        collection = self._connection.raw(self._memory.name)
        for done, one in enumerate(places):
            # The comparison is exact: times are stored and read in milliseconds.
            match = {"_id": one.identity, "updated_at": one.item.updated_at}
            if collection.delete_one(match, session=session).deleted_count:
                continue
            if done and session is None:
                raise PartlyDone(f"{done} items are removed, another changed meanwhile")
            raise StoreChanged(
                f"an item of '{self._url}' changed meanwhile, so nothing was removed",
                hint="an agent may be using the store; run the command again",
            )
        return len(places)

    def receive(self, items: Sequence[Item]) -> None:
        documents = [document_of(one, self._memory.separator) for one in items]
        collection = self._connection.raw(self._memory.name)
        with explained_change(self._url), self._connection.transaction() as session:
            collection.insert_many(documents, session=session)

    def restore(self, rows: Iterable[Row]) -> Restored:
        with explained_change(self._url):
            if self._connection.has_transactions:
                with self._connection.transaction() as session:
                    return self._put_back(rows, session)
            # Without a transaction, compare all items before adding the first one.
            with reread(rows) as again:
                self._put_back(again(), None, adds=False)
                return self._put_back(again(), None)

    def _put_back(
        self, rows: Iterable[Row], session: ClientSession | None, *, adds: bool = True
    ) -> Restored:
        collection = self._connection.raw(self._memory.name)
        added = there = 0
        documents = (archived({MEMORY}, row) for row in rows)
        for some in in_batches(
            documents, lambda one: len(one.raw), _BYTES_AT_ONCE, DOCUMENTS_AT_ONCE
        ):
            new = missing(collection, ("namespace", "key"), some, session, MEMORY)
            if new and adds:
                collection.insert_many(new, session=session)
            added += len(new)
            there += len(some) - len(new)
        return Restored(added, there)

    def erase_remains(self, *, rewrite: bool = False, progress: Progress = silent) -> Remains:
        names = [self._memory.name]
        return erase_remains(self._connection, self._url, names, rewrite=rewrite, progress=progress)


def open_writable_memory(url: StoreUrl) -> WritableMemoryStore:
    """Open it for changing. Raises the errors of `open_memory`."""
    with opening(connect(url), url) as connection:
        return understanding(WritableMongoMemory(connection, url), url)
