"""Adds threads that come from another store.

What fits into one transaction is added in one. Anything larger, and all on a server without
transactions, is stored first where no saver finds it (see `staging`). Then only the `thread_id` of
its documents is changed: in one transaction if that can be, or else writes first and the root
graph's checkpoints last, newest first. A server needs seconds for that if a thread has 100,000
documents.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, TypeAlias

from bson import ObjectId, encode
from bson.errors import BSONError
from bson.raw_bson import RawBSONDocument
from pymongo.client_session import ClientSession
from pymongo.errors import OperationFailure, PyMongoError

from ckpt_backends.changes.change import Change, moved
from ckpt_backends.changes.rows import conflict
from ckpt_backends.mongodb.engine.connect import BY_BYTES, RAW, MongoConnection
from ckpt_backends.mongodb.engine.fields import number_of, storable
from ckpt_backends.mongodb.engine.layout import CHECKPOINTS, KEY, WRITES, MongoLayout
from ckpt_backends.mongodb.engine.pipelines import Stage, of_threads
from ckpt_backends.mongodb.engine.staging import remove_staged, staged_id
from ckpt_backends.transfer.errors import CannotHold
from ckpt_backends.transfer.parts import Arrival, Part

_AT_ONCE = 16 << 20
"""Bytes of one transaction. MongoDB before 4.2 writes a transaction as one document of its log."""
_PER_COMMAND = 4 << 20
_MOST = 16 << 20
"""MongoDB's limit for a document, in bytes."""
_ABOUT = 400
"""Bytes of a document besides its values, about."""
_MOST_TURNED, _MOST_BYTES_TURNED = 2000, 64 << 20
"""Documents, and their bytes, that may be turned in one transaction. The server keeps all that a
transaction changes in memory, and aborts it after 60 seconds."""
_PATIENCE, _PAUSE = 75.0, 0.25
"""Seconds for trying again after conflicts, and the pause between two attempts."""
_CONFLICT = 112
"""WriteConflict."""
_TRANSIENT = "TransientTransactionError"
_TOO_LARGE = {257, 388}
"""TransactionTooLarge, TransactionTooLargeForCache. Other errors of a transaction that is too large
are transient."""

Document = dict[str, Any]
MakeDocument: TypeAlias = Callable[[Part], tuple[str, Document]]
"""Maps a part to its table and its document. May raise `CannotHold`."""
Lock: TypeAlias = Callable[[str, ClientSession], None]


class Receiver:
    """Adds threads to the collections of one layout."""

    def __init__(
        self, connection: MongoConnection, layout: MongoLayout, make: MakeDocument, lock: Lock
    ) -> None:
        """`lock` makes transactions fail that change the same thread at the same time."""
        self._connection = connection
        self._layout = layout
        self._make = make
        self._lock = lock
        self._run = ObjectId()
        self._staged: Counter[tuple[str, str]] = Counter()
        """By table and thread, the number of documents on their way."""
        self._bytes = 0
        """The bytes of all documents that were inserted."""
        self._known: set[str] = set()
        """The threads of which the store has something."""

    def receive(self, arrivals: Iterable[Arrival]) -> None:
        """Add threads, all or none; see `WritableStore.receive`. Raises `PyMongoError`, too."""
        listed = list(arrivals)
        ids = [one.thread_id for one in listed]
        self._check_ids(ids)
        self._patiently(lambda: remove_staged(self._connection, self._layout, ids))
        self._check_heads(listed, None)
        self._known = self._there(ids)
        documents = (self._make(part) for one in listed for part in one.parts)
        try:
            self._add(listed, documents)
        except BaseException:
            if self._staged:
                with suppress(PyMongoError):
                    remove_staged(self._connection, self._layout, ids)
            raise

    def _check_ids(self, thread_ids: Sequence[str]) -> None:
        if wrong := next((one for one in thread_ids if not storable(one)), None):
            raise CannotHold(f"MongoDB cannot store the thread id '{wrong}'")
        numbers = [one for one in map(number_of, thread_ids) if one is not None]
        for table in self._layout.collections if numbers else ():
            match = {"thread_id": {"$in": numbers}}
            if found := self._collection(table).find_one(match, {"thread_id": 1}):
                raise CannotHold(f"thread '{found['thread_id']}' is stored under a number there")

    def _add(self, listed: list[Arrival], documents: Iterator[tuple[str, Document]]) -> None:
        first: list[tuple[str, Document]] = []
        size = 0
        for table, one in documents:
            first.append((table, one))
            size += _size(one)
            if size > _AT_ONCE:
                break
        if size <= _AT_ONCE and self._connection.has_transactions:
            self._patiently(lambda: self._add_at_once(listed, first))
            return
        self._insert(chain(_taken(first), documents), None)
        self._publish(listed)

    def _add_at_once(
        self, listed: Sequence[Arrival], documents: Iterable[tuple[str, Document]]
    ) -> None:
        with self._connection.transaction() as session:
            self._begin(listed, session)
            self._insert(documents, session)
            self._check_heads(listed, None)

    def _patiently(self, act: Callable[[], None]) -> None:
        """Try again after conflicts: the server keeps the transaction of a killed run a minute."""
        until = time.monotonic() + _PATIENCE
        while True:
            try:
                return act()
            except PyMongoError as error:
                if not _is_conflict(error) or time.monotonic() > until:
                    raise
            time.sleep(_PAUSE)

    def _begin(self, listed: Sequence[Arrival], session: ClientSession) -> None:
        for one in listed:
            if one.heads:
                self._lock(one.thread_id, session)
        self._check_heads(listed, session)

    def _insert(
        self, documents: Iterable[tuple[str, Document]], session: ClientSession | None
    ) -> None:
        """Insert documents; without a session, as documents on their way."""
        batches: dict[str, list[RawBSONDocument]] = {}
        sizes: Counter[str] = Counter()
        for table, document in documents:
            thread_id = document["thread_id"]
            if thread_id in self._known:
                self._check_absent(table, document, session)
            if session is None:
                self._staged[table, thread_id] += 1
                document["thread_id"] = staged_id(self._run, thread_id)
            raw = _encoded(document)
            self._bytes += len(raw.raw)
            batches.setdefault(table, []).append(raw)
            sizes[table] += len(raw.raw)
            if sizes[table] > _PER_COMMAND:
                self._collection(table).insert_many(batches.pop(table), session=session)
                sizes[table] = 0
        for table, batch in batches.items():
            self._collection(table).insert_many(batch, session=session)

    def _check_absent(self, table: str, document: Document, session: ClientSession | None) -> None:
        """Raise `StoreChanged` if a document is there. Not every saver has unique indexes."""
        key = {name: document[name] for name in self._layout.keys[table]}
        if self._collection(table).find_one(key, {"_id": 1}, session=session, collation=BY_BYTES):
            raise conflict(table)

    def _publish(self, listed: Sequence[Arrival]) -> None:
        """Give all documents on their way their thread ids."""
        fits = self._staged.total() <= _MOST_TURNED and self._bytes <= _MOST_BYTES_TURNED
        if fits and self._connection.has_transactions:
            try:
                with self._connection.transaction() as session:
                    self._begin(listed, session)
                    self._turn(listed, session)
                    self._check_heads(listed, None)
                return
            except OperationFailure as error:
                if error.code not in _TOO_LARGE and not error.has_error_label(_TRANSIENT):
                    raise
        self._check_staged(listed)
        self._check_heads(listed, None)
        self._turn(listed, None)

    def _check_staged(self, listed: Sequence[Arrival]) -> None:
        """Raise `StoreChanged` if another run has removed what this one has stored."""
        for one in listed:
            match = {"thread_id": staged_id(self._run, one.thread_id)}
            for table in self._layout.collections:
                number = self._collection(table).count_documents(match)
                if number != self._staged[table, one.thread_id]:
                    raise moved(Change(one.thread_id, one.heads))

    def _turn(self, listed: Sequence[Arrival], session: ClientSession | None) -> None:
        subgraphs, root = {"checkpoint_ns": {"$ne": ""}}, {"checkpoint_ns": ""}
        order: list[tuple[str, Document]] = [(WRITES, {})]
        order += [(CHECKPOINTS, subgraphs), (CHECKPOINTS, root)]
        for one in listed:
            turned: Counter[str] = Counter()
            for table, some in order:
                if not self._staged[table, one.thread_id]:
                    continue
                match = {"thread_id": staged_id(self._run, one.thread_id), **some}
                change = {"$set": {"thread_id": one.thread_id}}
                done = self._collection(table).update_many(match, change, session=session)
                turned[table] += done.modified_count
            for table, number in turned.items():
                if number != self._staged[table, one.thread_id]:
                    raise moved(Change(one.thread_id, one.heads))

    def _check_heads(self, listed: Sequence[Arrival], session: ClientSession | None) -> None:
        """Raise `StoreChanged` if a thread has other heads than its arrival says."""
        stages: list[Stage] = [
            {"$match": of_threads([one.thread_id for one in listed])},
            {"$group": {"_id": [f"${name}" for name in KEY[:2]], "head": {"$max": f"${KEY[2]}"}}},
        ]
        found: dict[str, dict[str, str]] = {}
        checkpoints = self._collection(CHECKPOINTS)
        for row in checkpoints.aggregate(stages, session=session, collation=BY_BYTES):
            thread_id, ns = row["_id"]
            found.setdefault(thread_id, {})[ns or ""] = row["head"]
        for one in listed:
            if found.get(one.thread_id, {}) != dict(one.heads):
                raise moved(Change(one.thread_id, one.heads))

    def _there(self, thread_ids: Sequence[str]) -> set[str]:
        stages: list[Stage] = [
            {"$match": of_threads(thread_ids)},
            {"$group": {"_id": "$thread_id"}},
        ]
        return {
            row["_id"]
            for table in self._layout.collections
            for row in self._collection(table).aggregate(stages, collation=BY_BYTES)
        }

    def _collection(self, table: str) -> Any:
        return self._connection.raw(self._layout.collections[table])


def _is_conflict(error: PyMongoError) -> bool:
    is_conflict = isinstance(error, OperationFailure) and error.code == _CONFLICT
    return is_conflict or error.has_error_label(_TRANSIENT)


def _taken(listed: list[Any]) -> Iterator[Any]:
    """The items of a list, which is emptied so that each can be freed."""
    listed.reverse()
    while listed:
        yield listed.pop()


def _size(document: Document) -> int:
    """The size of a document, about."""
    values = (one for one in document.values() if isinstance(one, bytes))
    metadata = document.get("metadata")
    inner = len(metadata.raw) if isinstance(metadata, RawBSONDocument) else 0
    return _ABOUT + inner + sum(map(len, values))


def _encoded(document: Document) -> RawBSONDocument:
    where = _words(document)
    try:
        raw = encode(document)
    except (BSONError, UnicodeEncodeError, OverflowError, RecursionError) as error:
        raise CannotHold(f"MongoDB cannot store {where}: {type(error).__name__}") from None
    if len(raw) > _MOST:
        raise CannotHold(
            f"{where} takes {len(raw) / (1 << 20):.1f} MiB, and MongoDB stores at most"
            f" {_MOST >> 20} MiB in a document"
        )
    return RawBSONDocument(raw, RAW)


def _words(document: Document) -> str:
    where = f"checkpoint '{document['checkpoint_id']}'"
    if "channel" in document:
        return f"the write to '{document['channel']}' at {where}"
    return where
