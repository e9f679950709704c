"""Changes MongoDB's layouts, with one transaction for each change.

To prevent two changes of the same thread at the same time, each transaction inserts and deletes a
document with an `_id` made from the thread id. Two such transactions conflict, and nothing stays in
the database. Savers do not do that, so at the end, the heads are read again outside of the
transaction (inside, only its snapshot is visible). A standalone server has no transactions: there,
only changes of one document are possible.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from bson.raw_bson import RawBSONDocument
from pymongo.client_session import ClientSession
from pymongo.errors import DuplicateKeyError, OperationFailure, PyMongoError

from ckpt_backends import shell
from ckpt_backends.apps.kaflow.read import NEWEST_FIRST
from ckpt_backends.base import BaseWritableStore
from ckpt_backends.changes.change import Change, CopyOfCheckpoint, gone, moved
from ckpt_backends.changes.removal import Removal, Removed
from ckpt_backends.changes.rows import Restored, Row
from ckpt_backends.codec import decode
from ckpt_backends.codec.bson import documents
from ckpt_backends.codec.msgpack.splice import Put, splice
from ckpt_backends.errors import StoreChanged, StoreUnavailable, UnknownLayout, Unsupported
from ckpt_backends.model import Checkpoint, CheckpointKey, TypedBytes, Write
from ckpt_backends.mongodb.engine.connect import MongoConnection, unavailable
from ckpt_backends.mongodb.layout import KAFLOW, MongoLayout
from ckpt_backends.mongodb.read import number_of, storable
from ckpt_backends.mongodb.removing import remove_threads
from ckpt_backends.mongodb.restoring import keys_of, restore_rows
from ckpt_backends.url import StoreUrl

Document = dict[str, Any]
_CONFLICT = 112
_UNAUTHORIZED = 13
_NEXT = timedelta(milliseconds=2)
"""A new checkpoint of KaFlow gets a time at least this much after the newest one.

KaFlow's head is the checkpoint with the newest time, and MongoDB stores milliseconds.
"""


@contextmanager
def explained_change(url: StoreUrl) -> Iterator[None]:
    """Turn the driver's errors into `StoreChanged` or `StoreUnavailable`.

    The messages say whether anything was written.
    """
    try:
        yield
    except PyMongoError as error:
        raise _refused(url, error) from None


def _refused(url: StoreUrl, error: PyMongoError) -> StoreChanged | StoreUnavailable:
    code = error.code if isinstance(error, OperationFailure) else None
    if isinstance(error, DuplicateKeyError) or code == _CONFLICT:
        return StoreChanged(
            f"'{url}' changed meanwhile, so nothing was written",
            hint="another command may be changing it; run the command again",
        )
    if code == _UNAUTHORIZED:
        return StoreUnavailable(
            f"cannot write to '{url}': permission denied",
            hint="a change needs the role `readWrite` on the database",
        )
    found = unavailable(url, error)
    if error.has_error_label("UnknownTransactionCommitResult"):
        found.message = f"{found.message}; it is unknown whether anything was written"
        found.hint = "check the thread, then run the command again"
    else:
        found.message = f"{found.message}; nothing was written"
    return found


class WritableMongoStore(BaseWritableStore):
    """A MongoDB database, opened for changing."""

    def __init__(self, connection: MongoConnection, url: StoreUrl, layout: MongoLayout) -> None:
        self._url = url
        self._layout = layout
        self._open: MongoConnection | None = connection
        self._is_kaflow = layout.name == KAFLOW
        if layout.unknown:
            raise UnknownLayout(
                f"'{url}' was written by a saver that ckpt does not know, so ckpt only reads it",
                hint=f"unknown fields: {', '.join(map(shell.word, layout.unknown))}",
            )

    def apply(self, change: Change) -> None:
        if not storable(change.thread_id):
            raise Unsupported(f"MongoDB cannot store the thread id '{change.thread_id}'")
        self._check(change)
        with explained_change(self._url):
            self._check_texts(change)
            if self._connection.has_transactions:
                with self._connection.transaction() as session:
                    self._lock(change.thread_id, session)
                    if self._heads(change.thread_id, session) != dict(change.heads):
                        raise moved(change)
                    self._carry_out(change, session)
                    if self._heads(change.thread_id, None) != dict(change.heads):
                        raise moved(change)
                return
            if self._heads(change.thread_id, None) != dict(change.heads):
                raise moved(change)
            self._carry_out(change, None)

    def remove(self, removals: Sequence[Removal]) -> list[Removed]:
        # Without the writes collection, the writes of a removed thread would stay unnoticed.
        self._need_writes()
        with explained_change(self._url):
            return remove_threads(self._connection, self._layout, removals)

    def restore(self, rows: Iterable[Row]) -> Restored:
        with explained_change(self._url):
            layout = self._layout
            return restore_rows(self._connection, layout.collections, keys_of(layout), rows)

    def vacuum(self) -> None:
        raise Unsupported(
            f"'{self._url}' cannot be vacuumed: MongoDB reuses the space for new documents",
            hint="an administrator can run `compact` on each member of the replica set in turn",
        )

    def _check(self, change: Change) -> None:
        if self._is_kaflow and (change.writes or change.copies_of_writes):
            raise Unsupported(
                "layout 'kaflow' stores no writes, so none can be added",
                hint="call update_state in the application instead",
            )
        if change.writes or change.copies_of_writes or change.removed or change.copies:
            self._need_writes()
        if not self._connection.has_transactions and _documents(change) != 1:
            raise Unsupported(
                f"'{self._url}' is a standalone server, which has no transactions",
                hint="a replica set of one server is enough: start mongod with --replSet",
            )

    def _check_texts(self, change: Change) -> None:
        """Raise `Unsupported` for a thread with an id that an old saver stored as a number."""
        names = {change.thread_id, *(one.source.thread_id for one in change.copies)}
        for name in names:
            number = number_of(name)
            if number is None or self._checkpoints.find_one(self._of(name), {"_id": 1}):
                continue
            if self._checkpoints.find_one({"thread_id": number}, {"_id": 1}):
                raise Unsupported(
                    f"thread '{name}' is stored under a number, so no checkpoint can be added",
                    hint="savers since 0.4 find only strings: change `thread_id` in the documents"
                    " to a string, then run the command again",
                )

    def _need_writes(self) -> None:
        if not self._is_kaflow and self._layout.writes is None:
            raise Unsupported(
                f"'{self._url}' has no collection of writes that ckpt recognises",
                hint="add ?writes_collection=NAME to the URL",
            )

    def _carry_out(self, change: Change, session: ClientSession | None) -> None:
        for key, writes in (change.removed or {}).items():
            if self._writes is not None:
                done = self._writes.delete_many(self._at(key), session=session)
                if done.deleted_count != writes:
                    raise moved(change)
            if self._checkpoints.delete_many(self._at(key), session=session).deleted_count != 1:
                raise gone(key)
        if change.copies:
            self._copy(change, session)
        for one in change.checkpoints:
            self._checkpoints.insert_one(self._document(one, session), session=session)
        added: list[Document] = [self._write(one, session) for one in change.writes]
        for copy in change.copies_of_writes:
            found = self._some_writes(copy.source, copy.tasks, session)
            added += [_moved_to(one, copy.target) for one in found]
        self._insert_writes(added, session)

    def _copy(self, change: Change, session: ClientSession | None) -> None:
        """Copy checkpoints of another thread, each with its writes."""
        for one in change.copies:
            stored = self._stored(one.source, session)
            if stored is None:
                raise gone(one.source)
            self._checkpoints.insert_one(self._changed(stored, one, change), session=session)
            target = replace(one.source, thread_id=change.thread_id)
            if one.writes is None:
                found = self._all_writes(one.source, session)
            else:
                found = self._some_writes(one.source, one.writes, session)
            self._insert_writes([_moved_to(write, target) for write in found], session)

    def _changed(self, stored: Document, copy: CopyOfCheckpoint, change: Change) -> Document:
        made = {**stored, "thread_id": change.thread_id}
        if copy.metadata is not None:
            made |= self._metadata_fields(copy.metadata, stored)
        if copy.body is not None:
            made["checkpoint_data" if self._is_kaflow else "checkpoint"] = copy.body.data
        return made

    def _document(self, one: Checkpoint, session: ClientSession | None) -> Document:
        """The document of a new checkpoint, in the same form as the thread's newest checkpoint."""
        assert one.body is not None  # noqa: S101
        assert one.metadata is not None  # noqa: S101
        newest = self._newest(one.key.thread_id, session) or {}
        now = datetime.now(UTC)
        if self._is_kaflow:
            last = newest.get("created_at")
            at = max(now, last + _NEXT) if isinstance(last, datetime) else now
            return {
                "thread_id": newest.get("thread_id", one.key.thread_id),
                "checkpoint_id": one.key.checkpoint_id,
                "parent_checkpoint_id": one.parent_checkpoint_id,
                "checkpoint_data": one.body.data,
                "metadata": self._metadata(one.metadata, newest.get("metadata")),
                "username": newest.get("username"),
                "created_at": at,
                "updated_at": at,
            }
        return {
            "thread_id": newest.get("thread_id", one.key.thread_id),
            "checkpoint_ns": one.key.checkpoint_ns,
            "checkpoint_id": one.key.checkpoint_id,
            "parent_checkpoint_id": one.parent_checkpoint_id,
            "type": one.body.type,
            "checkpoint": one.body.data,
            **self._metadata_fields(one.metadata, newest),
            **_stamp(newest),
        }

    def _metadata_fields(self, given: TypedBytes, like: Document) -> Document:
        """The fields for metadata, in the same form as in the document `like`.

        LangGraph.js stores metadata as JSON bytes and, since 1.3.4, also as a document for
        searching (`metadata_search`).
        """
        stored = like.get("metadata")
        if not isinstance(stored, bytes):
            return {"metadata": self._metadata(given, stored)}
        found: Document = {"metadata": given.data}
        if "metadata_search" in like:
            found["metadata_search"] = json.loads(given.data, parse_int=_number)
        return found

    def _metadata(self, given: TypedBytes, like: object) -> Any:
        """Metadata as a document. If its leaves need encoding, they get the form of `like`."""
        tags = (
            documents.leaf_tags(bytes(like.raw))
            if isinstance(like, RawBSONDocument)
            else frozenset()
        )
        if given.type == "bson" and (self._is_kaflow or "" not in documents.leaf_tags(given.data)):
            return RawBSONDocument(given.data)
        if not self._is_kaflow and not tags & {"json", "msgpack"}:
            tags = frozenset({"msgpack"})
        entries = decode(given)
        if not isinstance(entries, dict):
            raise Unsupported("cannot encode the new metadata: it is not readable")
        return RawBSONDocument(_leaves(entries, "" if self._is_kaflow else _style(tags)))

    def _write(self, one: Write, session: ClientSession | None) -> Document:
        assert one.value is not None  # noqa: S101
        newest = self._newest(one.key.thread_id, session) or {}
        return {
            "thread_id": newest.get("thread_id", one.key.thread_id),
            "checkpoint_ns": one.key.checkpoint_ns,
            "checkpoint_id": one.key.checkpoint_id,
            "task_id": one.task_id,
            **({} if isinstance(newest.get("metadata"), bytes) else {"task_path": one.task_path}),
            "idx": one.idx,
            "channel": one.channel,
            "type": one.value.type,
            "value": one.value.data,
            **_stamp(newest),
        }

    def _insert_writes(self, added: list[Document], session: ClientSession | None) -> None:
        if added and self._writes is not None:
            self._writes.insert_many(added, session=session)

    def _all_writes(self, key: CheckpointKey, session: ClientSession | None) -> list[Document]:
        if self._writes is None:
            return []
        found = self._writes.find(self._at(key), {"_id": 0}, session=session)
        return [dict(one) for one in found]

    def _some_writes(
        self,
        key: CheckpointKey,
        tasks: Iterable[tuple[str, int]],
        session: ClientSession | None,
    ) -> list[Document]:
        """The writes of a checkpoint with these task ids and idx. Raises `StoreChanged`."""
        wanted = set(tasks)
        found = [
            one
            for one in self._all_writes(key, session)
            if (one.get("task_id"), one.get("idx")) in wanted
        ]
        if len(found) != len(wanted):
            raise gone(key)
        return found

    def _stored(self, key: CheckpointKey, session: ClientSession | None) -> Document | None:
        found = self._checkpoints.find_one(self._at(key), {"_id": 0}, session=session)
        return None if found is None else dict(found)

    def _newest(self, thread_id: str, session: ClientSession | None) -> Document | None:
        fields = {"_id": 0, "checkpoint": 0, "checkpoint_data": 0}
        order = NEWEST_FIRST if self._is_kaflow else {"checkpoint_id": -1}
        found = self._checkpoints.find_one(
            self._of(thread_id), fields, sort=list(order.items()), session=session
        )
        return None if found is None else dict(found)

    def _heads(self, thread_id: str, session: ClientSession | None) -> dict[str, str]:
        """By namespace, the id of the newest checkpoint."""
        if self._is_kaflow:
            newest = self._newest(thread_id, session)
            return {} if newest is None else {"": newest["checkpoint_id"]}
        stages = [
            {"$match": self._of(thread_id)},
            {"$group": {"_id": "$checkpoint_ns", "head": {"$max": "$checkpoint_id"}}},
        ]
        return {
            one["_id"]: one["head"] for one in self._checkpoints.aggregate(stages, session=session)
        }

    def _lock(self, thread_id: str, session: ClientSession) -> None:
        digest = sha256(b"ckpt\0" + thread_id.encode()).hexdigest()
        name = f"ckpt-{digest[:24]}"
        mark = {"_id": name, "thread_id": name}
        self._checkpoints.insert_one(dict(mark), session=session)
        self._checkpoints.delete_one(mark, session=session)

    def _of(self, thread_id: str) -> Mapping[str, Any]:
        return {"thread_id": thread_id}

    def _at(self, key: CheckpointKey) -> Mapping[str, Any]:
        ns = {} if self._is_kaflow else {"checkpoint_ns": key.checkpoint_ns}
        return {**self._of(key.thread_id), **ns, "checkpoint_id": key.checkpoint_id}

    @property
    def _checkpoints(self) -> Any:
        return self._connection.raw(self._layout.checkpoints)

    @property
    def _writes(self) -> Any:
        return None if self._layout.writes is None else self._connection.raw(self._layout.writes)

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    @property
    def _connection(self) -> MongoConnection:
        if self._open is None:
            raise StoreUnavailable(f"'{self._url}' is closed")
        return self._open


def _documents(change: Change) -> int:
    """The number of documents that a change adds and removes; a copy counts as two or more."""
    removed = sum(1 + writes for writes in (change.removed or {}).values())
    copied = sum(len(one.tasks) for one in change.copies_of_writes)
    added = len(change.checkpoints) + len(change.writes) + 2 * len(change.copies)
    return removed + copied + added


def _moved_to(write: Document, target: CheckpointKey) -> Document:
    return {
        **write,
        "thread_id": target.thread_id,
        "checkpoint_ns": target.checkpoint_ns,
        "checkpoint_id": target.checkpoint_id,
    }


def _stamp(like: Document) -> Document:
    """The fields with the time of storing, with the names that the document `like` has.

    If documents expire by this field, a document without it would never expire.
    """
    return {name: datetime.now(UTC) for name in ("created_at", "upserted_at") if name in like}


def _number(text: str) -> int | float:
    """An integer as MongoDB's JavaScript driver stores it: large ones become floats."""
    number = int(text)
    return number if -(1 << 31) <= number < 1 << 31 else float(text)


def _style(tags: Iterable[str]) -> str:
    """The form for new leaves, next to leaves with these tags."""
    return "msgpack" if "msgpack" in tags else "json"


def _leaves(entries: Mapping[Any, Any], style: str) -> bytes:
    """A document of these entries, with all leaves in one form (`msgpack`, `json` or `''`)."""
    if style == "msgpack":
        like = documents.document_of({"0": documents.typed(TypedBytes("msgpack", b"\0"))})
    elif style == "json":
        like = documents.document_of({"0": documents.binary(b"0")})
    else:
        like = documents.EMPTY
    edits = {str(name): Put(value) for name, value in entries.items()}
    made = splice(TypedBytes("bson", like), {"0": None, **edits})
    return made.data
