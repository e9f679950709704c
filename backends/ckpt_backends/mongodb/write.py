"""Writes documents as `langgraph-checkpoint-mongodb` and LangGraph.js store them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

from bson import ObjectId
from bson.raw_bson import RawBSONDocument
from pymongo.client_session import ClientSession

from ckpt_backends.changes import Change, Removal, Removed
from ckpt_backends.codec.bson import JSON_TEXT, leaf_tags
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import Checkpoint, CheckpointKey, TypedBytes, Write, time_of
from ckpt_backends.mongodb.engine.connect import explained_change
from ckpt_backends.mongodb.engine.layout import CHECKPOINTS, WRITES, MongoLayout
from ckpt_backends.mongodb.engine.store import remove_staged
from ckpt_backends.mongodb.engine.write import Document, MongoChanges, Receiver, metadata_document
from ckpt_backends.mongodb.store import JAVASCRIPT
from ckpt_backends.transfer.form import CannotHold
from ckpt_backends.transfer.parts import (
    Arrival,
    CheckpointPart,
    Part,
    ValuePart,
    WritePart,
    part_key,
)

# Makes documents of parts, as the newest releases of LangGraph's savers store them.
#
# What a part does not hold is derived from its key, so that the same part always becomes the same
# document.


_INT32 = 1 << 31


class PartDocuments:
    """Makes the documents of one layout."""

    def __init__(self, layout: MongoLayout, stamped: Collection[str]) -> None:
        """`stamped` are the tables whose documents have the time of storing."""
        self._layout = layout
        self._is_javascript = layout.name == JAVASCRIPT
        self._stamped = stamped

    def of_part(self, part: Part) -> tuple[str, Document]:
        """The table and the document of a part. Raises `CannotHold` and `Unsupported`."""
        if isinstance(part, ValuePart):
            raise Unsupported("MongoDB stores values in bodies")
        if isinstance(part, CheckpointPart):
            table = CHECKPOINTS
            fields: Document = {
                "parent_checkpoint_id": part.parent,
                "type": part.body.type,
                "checkpoint": part.body.data,
                **self._metadata(part.metadata, part.key),
            }
        else:
            table = WRITES
            fields = {
                "task_id": part.task_id,
                **({} if self._is_javascript else {"task_path": part.task_path}),
                "idx": part.idx,
                "channel": part.channel,
                "type": part.value.type,
                "value": part.value.data,
            }
        if table in self._stamped:
            made_at = time_of(part.key.checkpoint_id) or datetime.now(UTC)
            fields[self._layout.saver.time_field] = made_at
        return table, {"_id": _object_id(part), **_place(part.key), **fields}

    def _metadata(self, given: TypedBytes, key: CheckpointKey) -> Document:
        if not self._is_javascript:
            if given.type != "bson":
                raise Unsupported(f"MongoDB cannot store metadata of the type '{given.type}'")
            return {"metadata": RawBSONDocument(given.data)}
        try:
            found = json.loads(given.data, parse_int=_integer, parse_float=_float)
        except ValueError:
            raise CannotHold(
                f"the metadata of checkpoint '{key.checkpoint_id}' is no JSON text"
            ) from None
        return {"metadata": given.data, "metadata_search": found}


def _place(key: CheckpointKey) -> Document:
    return {
        "thread_id": key.thread_id,
        "checkpoint_ns": key.checkpoint_ns,
        "checkpoint_id": key.checkpoint_id,
    }


def _object_id(part: CheckpointPart | WritePart) -> ObjectId:
    """An id with the time of the checkpoint, and a digest in place of a random number."""
    made_at = time_of(part.key.checkpoint_id)
    seconds = 0 if made_at is None else int(made_at.timestamp())
    digest = blake2b(digest_size=8)
    for text in (part.key.thread_id, *part_key(part)):
        word = text.encode("utf-8", "surrogatepass")
        digest.update(len(word).to_bytes(4, "big") + word)
    return ObjectId((seconds & 0xFFFFFFFF).to_bytes(4, "big") + digest.digest())


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

    def _carry_out(self, change: Change, session: ClientSession | None) -> None:
        super()._carry_out(change, session)
        added: list[Document] = []
        for write in change.writes:
            newest = self._newest(write.key.thread_id, session) or {}
            added.append(self._write(write, newest))
        for copy in change.copies_of_writes:
            found = self._writes_of(copy.source, copy.tasks, session)
            added += [{**one, **self._at(copy.target)} for one in found]
        self._insert_writes(added, session)

    def remove(self, removals: Sequence[Removal]) -> list[Removed]:
        done = super().remove(removals)
        # What a broken copy left of these threads has to go, too.
        self._remove_staged([one.thread_id for one in done if not one.skipped])
        return done

    def receive(self, arrivals: Iterable[Arrival]) -> None:
        self._need_writes()
        with explained_change(self._url):
            self._check_release()
            documents = PartDocuments(self._layout, self._stamped())
            receiver = Receiver(self._connection, self._layout, documents.of_part, self._lock)
            receiver.receive(arrivals)

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

    def _stamped(self) -> set[str]:
        """The tables whose documents have the time of storing, because they expire by it."""
        field = self._layout.saver.time_field
        found = set()
        for table, name in self._layout.collections.items():
            one = self._connection.raw(name).find_one({}, {field: 1}, sort=[("_id", -1)])
            if name in self._layout.lifetimes or field in (one or {}):
                found.add(table)
        return found

    def _document(self, one: Checkpoint, newest: Document) -> Document:
        assert one.body is not None  # noqa: S101
        assert one.metadata is not None  # noqa: S101
        return {
            **self._at(one.key),
            "parent_checkpoint_id": one.parent_checkpoint_id,
            "type": one.body.type,
            "checkpoint": one.body.data,
            **self._metadata_fields(one.metadata, newest),
            **_stamp(newest),
        }

    def _write(self, one: Write, newest: Document) -> Document:
        assert one.value is not None  # noqa: S101
        return {
            **self._at(one.key),
            "task_id": one.task_id,
            **({} if isinstance(newest.get("metadata"), bytes) else {"task_path": one.task_path}),
            "idx": one.idx,
            "channel": one.channel,
            "type": one.value.type,
            "value": one.value.data,
            **_stamp(newest),
        }

    def _metadata_fields(self, given: TypedBytes, like: Document) -> Document:
        """The fields for metadata, in the same form as in the document `like`.

        LangGraph.js stores metadata as JSON bytes and, since 1.3.4, also as a document for
        searching (`metadata_search`).
        """
        if not isinstance(like.get("metadata"), bytes):
            return super()._metadata_fields(given, like)
        found: Document = {"metadata": given.data}
        if "metadata_search" in like:
            found["metadata_search"] = json.loads(given.data, parse_int=_number)
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


def _number(text: str) -> int | float:
    """An integer as MongoDB's JavaScript driver stores it: large ones become floats."""
    number = int(text)
    return number if -(1 << 31) <= number < 1 << 31 else float(text)
