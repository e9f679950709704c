"""Writes documents as `langgraph-checkpoint-mongodb` and LangGraph.js store them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from bson.raw_bson import RawBSONDocument
from pymongo.client_session import ClientSession

from ckpt_backends.changes.change import Change
from ckpt_backends.changes.removal import Removal, Removed
from ckpt_backends.codec.bson.documents import JSON_TEXT, leaf_tags
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import Checkpoint, TypedBytes, Write
from ckpt_backends.mongodb.engine.driver_errors import explained_change
from ckpt_backends.mongodb.engine.receiving import Receiver
from ckpt_backends.mongodb.engine.staging import remove_staged
from ckpt_backends.mongodb.engine.write import Document, MongoChanges, metadata_document
from ckpt_backends.mongodb.part_documents import PartDocuments
from ckpt_backends.mongodb.rewriting import Rewriter
from ckpt_backends.transfer.parts import Arrival, PartRewrite


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

    def rewrite(self, thread_id: str, rewrites: Iterable[PartRewrite]) -> None:
        self._need_writes()
        with explained_change(self._url):
            Rewriter(self._connection, self._layout, self._lock).rewrite(thread_id, rewrites)

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
