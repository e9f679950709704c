"""Writes documents as `langgraph-checkpoint-mongodb` and LangGraph.js store them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

from bson import ObjectId
from bson.raw_bson import RawBSONDocument

from ckpt_backends import shell
from ckpt_backends.changes import Removal, Removed
from ckpt_backends.codec.bson import JSON_TEXT, leaf_tags
from ckpt_backends.errors import Refused, SeveralLayouts, UnknownLayout, Unsupported
from ckpt_backends.model import CheckpointKey, Kind, Record, TypedBytes, time_of
from ckpt_backends.mongodb.declaration import BACKEND
from ckpt_backends.mongodb.engine.catalog import examine, find_layout
from ckpt_backends.mongodb.engine.connect import MongoConnection, connect, explained_change
from ckpt_backends.mongodb.engine.layout import CHECKPOINTS, MEMORY, WRITES
from ckpt_backends.mongodb.engine.store import remove_staged
from ckpt_backends.mongodb.engine.write import Document, MongoChanges, Receiver, metadata_document
from ckpt_backends.mongodb.memory import find_collection
from ckpt_backends.mongodb.store import INDEX_NAMES, JAVASCRIPT, OF_JAVASCRIPT, OF_PYTHON
from ckpt_backends.servers import opening
from ckpt_backends.transfer.form import CannotHold, Language
from ckpt_backends.transfer.parts import Arrival, part_key
from ckpt_backends.url import StoreUrl

# Makes documents of parts, as the newest releases of LangGraph's savers store them.
#
# What a part does not hold is derived from its key, so that the same part always becomes the same
# document.


_INT32 = 1 << 31


def _object_id(part: Record) -> ObjectId:
    """An id with the time of the checkpoint, and a digest in place of a random number."""
    made_at = time_of(part.key.checkpoint_id)
    seconds = 0 if made_at is None else int(made_at.timestamp())
    digest = blake2b(digest_size=8)
    for text in (part.key.thread_id, *part_key(part)):
        word = text.encode("utf-8", "surrogatepass")
        digest.update(len(word).to_bytes(4, "big") + word)
    return ObjectId((seconds & 0xFFFFFFFF).to_bytes(4, "big") + digest.digest())


def _for_search(metadata: TypedBytes) -> Any:
    """Metadata as the document that MongoDB's JavaScript driver stores. Raises ValueError."""
    return json.loads(metadata.data, parse_int=_integer, parse_float=_float)


def _integer(text: str) -> int | float:
    """An integer as MongoDB's JavaScript driver stores it: large ones become floats."""
    number = int(text)
    return number if -_INT32 <= number < _INT32 else float(text)


def _float(text: str) -> int | float:
    """A float as this driver stores it: small whole ones become integers."""
    number = float(text)
    return int(number) if number.is_integer() and -_INT32 <= number < _INT32 else number


class WritableMongoStore(MongoChanges):
    """A database of LangGraph's Python or JavaScript saver, opened for changing."""

    _stamped: Collection[str] = ()
    """The tables whose new documents get the time of storing, while threads are received."""

    def remove(self, removals: Sequence[Removal]) -> list[Removed]:
        done = super().remove(removals)
        # What a broken copy left of these threads has to go, too.
        self._remove_staged([one.thread_id for one in done if not one.skipped])
        return done

    def receive(self, arrivals: Iterable[Arrival]) -> None:
        self._need_writes()
        with explained_change(self._url):
            self._check_release()
            self._stamped = self._tables_with_times()
            listed = list(arrivals)
            made = (self.document_of(part, None) for one in listed for part in one.parts)
            Receiver(self._connection, self._layout, self._lock).receive(listed, made)

    def _remove_staged(self, thread_ids: Sequence[str]) -> None:
        with explained_change(self._url):
            remove_staged(self._connection, self._layout, thread_ids)

    def _check_release(self) -> None:
        """Raise `Unsupported` if the saver of this store cannot read what new releases store."""
        for order in (1, -1):
            found = self._checkpoints.find_one({}, {"metadata": 1}, sort=[("_id", order)])
            metadata = (found or {}).get("metadata")
            if isinstance(metadata, RawBSONDocument) and _is_old(metadata):
                raise Unsupported(
                    f"'{self._url}' was written by langgraph-checkpoint-mongodb before 0.2.2, which"
                    " cannot read what newer releases store",
                    hint="copy into a new database with --create, from both stores",
                )

    def _tables_with_times(self) -> set[str]:
        """The tables whose documents have the time of storing, because they expire by it."""
        field = self._layout.saver.time_field
        found = set()
        for table, name in self._layout.collections.items():
            one = self._connection.raw(name).find_one({}, {field: 1}, sort=[("_id", -1)])
            if name in self._layout.lifetimes or field in (one or {}):
                found.add(table)
        return found

    def document_of(self, part: Record, like: Document | None) -> tuple[str, Document]:
        if part.kind is Kind.VALUE:
            raise Unsupported("MongoDB stores values in bodies")
        if part.kind is Kind.CHECKPOINT:
            table = CHECKPOINTS
            fields: Document = {
                "parent_checkpoint_id": part.parent,
                "type": part.value.type,
                "checkpoint": part.value.data,
            }
            if like is None:
                fields |= self._new_metadata(part.metadata, part.key)
            else:
                fields |= self.metadata_fields(part.metadata, like)
        else:
            table = WRITES
            fields = {
                "task_id": part.task_id,
                **({} if self._layout.name == JAVASCRIPT else {"task_path": part.task_path}),
                "idx": part.idx,
                "channel": part.channel,
                "type": part.value.type,
                "value": part.value.data,
            }
        made = {**part.key._asdict(), **fields}
        if like is not None:
            return table, {**made, **_stamp(like)}
        if table in self._stamped:
            made_at = time_of(part.key.checkpoint_id) or datetime.now(UTC)
            made[self._layout.saver.time_field] = made_at
        return table, {"_id": _object_id(part), **made}

    def _new_metadata(self, given: TypedBytes, key: CheckpointKey) -> Document:
        """The fields for metadata as new releases store them."""
        if self._layout.name != JAVASCRIPT:
            if given.type != "bson":
                raise Unsupported(f"MongoDB cannot store metadata of the type '{given.type}'")
            return {"metadata": RawBSONDocument(given.data)}
        try:
            return {"metadata": given.data, "metadata_search": _for_search(given)}
        except ValueError:
            raise CannotHold(
                f"the metadata of checkpoint '{key.checkpoint_id}' is no JSON text"
            ) from None

    def metadata_fields(self, given: TypedBytes, like: Document) -> Document:
        """LangGraph.js stores metadata as JSON bytes and, since 1.3.4, also as a document for
        searching (`metadata_search`).
        """
        if not isinstance(like.get("metadata"), bytes):
            return super().metadata_fields(given, like)
        found: Document = {"metadata": given.data}
        if "metadata_search" in like:
            found["metadata_search"] = _for_search(given)
        return found

    def _metadata(self, given: TypedBytes, like: object) -> Any:
        tags = leaf_tags(bytes(like.raw)) if isinstance(like, RawBSONDocument) else frozenset()
        if given.type == "bson" and "" not in leaf_tags(given.data):
            return RawBSONDocument(given.data)
        # New releases encode leaves as msgpack, old ones as JSON.
        is_json = JSON_TEXT in tags and "msgpack" not in tags
        return metadata_document(given, "json" if is_json else "msgpack")


def _is_old(metadata: RawBSONDocument) -> bool:
    return JSON_TEXT in leaf_tags(bytes(metadata.raw))


def _stamp(like: Document) -> Document:
    """The fields with the time of storing, with the names that the document `like` has.

    If documents expire by this field, a document without it would never expire.
    """
    return {name: datetime.now(UTC) for name in ("created_at", "upserted_at") if name in like}


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
            _make(connection, url, language)
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


def _make(connection: MongoConnection, url: StoreUrl, language: Language) -> None:
    is_python = language is Language.PYTHON
    with explained_change(url):
        for table, param in _PARAMS.items():
            collection = connection.database[url.params.get(param, table)]
            if is_python:
                collection.create_index(list(OF_PYTHON[table].items()), unique=True)
            else:
                key = list(OF_JAVASCRIPT[table].items())
                collection.create_index(key, name=INDEX_NAMES[table])


# Makes the collection of MongoDBStore (langgraph-store-mongodb 0.4.0), without vectors.


_NAME = "persistent-store"
"""The default name of `MongoDBStore.from_conn_string`."""


def create_memory(url: StoreUrl) -> None:
    """Make the collection in a database with nothing or threads, unless it is there.

    Raises `Refused` if there is anything else, and `StoreUnavailable`.
    """
    connection = connect(url)
    try:
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
    finally:
        connection.close()
