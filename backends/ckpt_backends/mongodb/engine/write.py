"""Changes the layouts on MongoDB, with one transaction for each change.

To prevent two changes of the same thread at the same time, each transaction inserts and deletes a
document with an `_id` made from the thread id. Two such transactions conflict, and nothing stays in
the database. Savers do not do that, so at the end, the heads are read again outside of the
transaction (inside, only its snapshot is visible). A standalone server has no transactions: there,
only changes of one document are possible.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from bson.raw_bson import RawBSONDocument
from pymongo.client_session import ClientSession

from ckpt_backends import shell
from ckpt_backends.base import BaseWritableStore, OnConnection
from ckpt_backends.changes.change import Change, CopyOfCheckpoint, gone, moved
from ckpt_backends.changes.progress import Progress, silent
from ckpt_backends.changes.remains import Remains
from ckpt_backends.changes.removal import Removal, Removed
from ckpt_backends.changes.rows import Restored, Row
from ckpt_backends.codec import decode
from ckpt_backends.codec.bson import documents
from ckpt_backends.codec.edits import Put
from ckpt_backends.codec.set_keys import set_keys
from ckpt_backends.erasing.stored import RowRewrite
from ckpt_backends.errors import UnknownLayout, Unsupported
from ckpt_backends.model import Checkpoint, CheckpointKey, TypedBytes
from ckpt_backends.mongodb.engine.connect import MongoConnection
from ckpt_backends.mongodb.engine.driver_errors import explained_change
from ckpt_backends.mongodb.engine.fields import number_of, storable
from ckpt_backends.mongodb.engine.layout import MongoLayout
from ckpt_backends.mongodb.engine.removing import remove_threads
from ckpt_backends.mongodb.engine.restoring import restore_rows
from ckpt_backends.mongodb.engine.row_replacing import replace_documents
from ckpt_backends.url import StoreUrl

Document = dict[str, Any]


class MongoChanges(OnConnection[MongoConnection], BaseWritableStore):
    """Checkpoints on MongoDB, opened for changing; each layout has a subclass."""

    def __init__(self, connection: MongoConnection, url: StoreUrl, layout: MongoLayout) -> None:
        super().__init__(connection, url)
        self._layout = layout
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
            if not self._connection.has_transactions:
                self._check_heads(change, None)
                self._carry_out(change, None)
                return
            with self._connection.transaction() as session:
                self._lock(change.thread_id, session)
                self._check_heads(change, session)
                self._carry_out(change, session)
                self._check_heads(change, None)

    def remove(self, removals: Sequence[Removal]) -> list[Removed]:
        # Without the writes collection, the writes of a removed thread would stay unnoticed.
        self._need_writes()
        with explained_change(self._url):
            return remove_threads(self._connection, self._layout, removals)

    def restore(self, rows: Iterable[Row]) -> Restored:
        with explained_change(self._url):
            layout = self._layout
            return restore_rows(self._connection, layout.collections, layout.keys, rows)

    def erase_remains(self, *, rewrite: bool = False, progress: Progress = silent) -> Remains:
        from ckpt_backends.mongodb.engine.erasing import erase_remains

        names = self._layout.collections.values()
        return erase_remains(self._connection, self._url, names, rewrite=rewrite, progress=progress)

    def replace_rows(self, thread_id: str, rewrites: Iterable[RowRewrite]) -> None:
        with explained_change(self._url):
            names = self._layout.collections
            replace_documents(self._connection, names, self._lock, thread_id, rewrites)

    def vacuum(self) -> None:
        raise Unsupported(
            f"'{self._url}' cannot be vacuumed: MongoDB reuses the space for new documents",
            hint="an administrator can run `compact` on each member of the replica set in turn",
        )

    def _check(self, change: Change) -> None:
        if not self._layout.saver.has_writes and (change.writes or change.copies_of_writes):
            raise Unsupported(
                f"layout '{self._layout.name}' stores no writes, so none can be added",
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
            if number is None or self._checkpoints.find_one({"thread_id": name}, {"_id": 1}):
                continue
            if self._checkpoints.find_one({"thread_id": number}, {"_id": 1}):
                raise Unsupported(
                    f"thread '{name}' is stored under a number, so no checkpoint can be added",
                    hint="savers since 0.4 find only strings: change `thread_id` in the documents"
                    " to a string, then run the command again",
                )

    def _need_writes(self) -> None:
        if self._layout.saver.has_writes and self._layout.writes is None:
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
            newest = self._newest(one.key.thread_id, session) or {}
            self._checkpoints.insert_one(self._document(one, newest), session=session)

    def _copy(self, change: Change, session: ClientSession | None) -> None:
        """Copy checkpoints of another thread, each with its writes."""
        for one in change.copies:
            at = self._at(one.source)
            stored = self._checkpoints.find_one(at, {"_id": 0}, session=session)
            if stored is None:
                raise gone(one.source)
            self._checkpoints.insert_one(self._changed(stored, one, change), session=session)
            target = one.source._replace(thread_id=change.thread_id)
            found = self._writes_of(one.source, one.writes, session)
            self._insert_writes([{**write, **self._at(target)} for write in found], session)

    def _changed(
        self, stored: Mapping[str, Any], copy: CopyOfCheckpoint, change: Change
    ) -> Document:
        made = {**stored, "thread_id": change.thread_id}
        if copy.metadata is not None:
            made |= self._metadata_fields(copy.metadata, made)
        if copy.body is not None:
            made[self._layout.saver.body] = copy.body.data
        return made

    @abstractmethod
    def _document(self, one: Checkpoint, newest: Document) -> Document:
        """The document of a new checkpoint, in the form of `newest`, the thread's newest one."""

    def _metadata_fields(self, given: TypedBytes, like: Document) -> Document:
        """The fields for metadata, in the same form as in the document `like`."""
        return {"metadata": self._metadata(given, like.get("metadata"))}

    @abstractmethod
    def _metadata(self, given: TypedBytes, like: object) -> Any:
        """Metadata as a document, in the form of `like`, the metadata of another checkpoint."""

    def _insert_writes(self, added: list[Document], session: ClientSession | None) -> None:
        if added and self._writes is not None:
            self._writes.insert_many(added, session=session)

    def _writes_of(
        self,
        key: CheckpointKey,
        tasks: Iterable[tuple[str, int]] | None,
        session: ClientSession | None,
    ) -> list[Document]:
        """The writes of a checkpoint with these task ids and idx; all of them if None.

        Raises `StoreChanged` if one is missing.
        """
        found: list[Document] = []
        if self._writes is not None:
            stored = self._writes.find(self._at(key), {"_id": 0}, session=session)
            found = [dict(one) for one in stored]
        if tasks is None:
            return found
        wanted = set(tasks)
        found = [one for one in found if (one.get("task_id"), one.get("idx")) in wanted]
        if len(found) != len(wanted):
            raise gone(key)
        return found

    def _newest(self, thread_id: str, session: ClientSession | None) -> Document | None:
        saver = self._layout.saver
        order = list(saver.newest_first.items())
        found = self._checkpoints.find_one(
            {"thread_id": thread_id}, {"_id": 0, saver.body: 0}, sort=order, session=session
        )
        return None if found is None else dict(found)

    def _check_heads(self, change: Change, session: ClientSession | None) -> None:
        if self._heads(change.thread_id, session) != dict(change.heads):
            raise moved(change)

    def _heads(self, thread_id: str, session: ClientSession | None) -> dict[str, str]:
        """By namespace, the id of the newest checkpoint."""
        stages = [
            {"$match": {"thread_id": thread_id}},
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

    def _at(self, key: CheckpointKey) -> Mapping[str, Any]:
        return {name: getattr(key, name) for name in self._layout.saver.key}

    @property
    def _checkpoints(self) -> Any:
        return self._connection.raw(self._layout.checkpoints)

    @property
    def _writes(self) -> Any:
        return None if self._layout.writes is None else self._connection.raw(self._layout.writes)


def _documents(change: Change) -> int:
    """The number of documents that a change adds and removes; a copy counts as two or more."""
    removed = sum(1 + writes for writes in (change.removed or {}).values())
    copied = sum(len(one.tasks) for one in change.copies_of_writes)
    added = len(change.checkpoints) + len(change.writes) + 2 * len(change.copies)
    return removed + copied + added


def metadata_document(given: TypedBytes, form: str) -> RawBSONDocument:
    """Metadata with all leaves in one form: `msgpack`, `json`, or `''` for plain BSON."""
    entries = decode(given)
    if not isinstance(entries, dict):
        raise Unsupported("cannot encode the new metadata: it is not readable")
    if form == "msgpack":
        like = documents.document_of({"0": documents.typed(TypedBytes("msgpack", b"\0"))})
    elif form == "json":
        like = documents.document_of({"0": documents.binary(b"0")})
    else:
        like = documents.EMPTY
    edits = {str(name): Put(value) for name, value in entries.items()}
    return RawBSONDocument(set_keys(TypedBytes("bson", like), {"0": None, **edits}).data)
