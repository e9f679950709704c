"""Changes the layouts on MongoDB, with one transaction for each change.

To prevent two changes of the same thread at the same time, each transaction inserts and deletes a
document with an `_id` made from the thread id. Two such transactions conflict, and nothing stays in
the database. Savers do not do that, so at the end, the heads are read again outside of the
transaction (inside, only its snapshot is visible). A standalone server has no transactions: there,
only changes of one document are possible.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from hashlib import sha256
from itertools import chain
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar

from bson import ObjectId, encode
from bson.errors import BSONError
from bson.raw_bson import RawBSONDocument
from pymongo import UpdateOne
from pymongo.client_session import ClientSession
from pymongo.errors import OperationFailure, PyMongoError

from ckpt_backends import shell
from ckpt_backends.base import OnConnection
from ckpt_backends.changes import (
    BACKUPS,
    FREED_BLOCKS,
    Change,
    Remaining,
    Remains,
    Removal,
    Removed,
    moved,
)
from ckpt_backends.codec import bson as documents
from ckpt_backends.codec import decode
from ckpt_backends.codec.edits import Put, set_keys
from ckpt_backends.errors import StoreUnavailable, UnknownLayout, Unreadable, Unsupported
from ckpt_backends.memory import is_unicode
from ckpt_backends.model import (
    Kind,
    Progress,
    Record,
    TypedBytes,
    first_of,
    in_batches,
    in_chunks,
    silent,
)
from ckpt_backends.mongodb.engine import layout as pipelines
from ckpt_backends.mongodb.engine.connect import (
    BY_BYTES,
    RAW,
    MongoConnection,
    explained,
    explained_change,
)
from ckpt_backends.mongodb.engine.layout import (
    MongoLayout,
    Stage,
    form_of,
    number_of,
    of_threads,
    storable_of,
    stored_forms,
)
from ckpt_backends.mongodb.engine.records import CHECKPOINTS, KEY, WRITES, MongoDocument
from ckpt_backends.mongodb.engine.store import SharedWrites, no_place, remove_staged, staged_id
from ckpt_backends.records import (
    CopyTarget,
    Heads,
    NamespaceState,
    RecordStore,
    Rows,
    ThreadState,
    Where,
    removed_threads,
)
from ckpt_backends.rows import Restored, Row, RowEdit, conflict
from ckpt_backends.transfer.copying import Arrival
from ckpt_backends.transfer.form import CannotHold
from ckpt_backends.url import StoreUrl

# Removes documents of threads.
#
# On a replica set or a sharded cluster, several threads are removed in one transaction.
#
# * If two runs remove the same documents, the server rejects the later transaction. It is tried
#   again and then finds nothing to remove. So no lock document is needed.
# * An insert of a saver does not conflict with the transaction. So just before the end, the threads
#   are read again outside of the transaction. If a saver has added something, the transaction is
#   aborted and tried again without that thread.
# * A checkpoint that is added between that check and the commit is not removed. It stays usable,
#   because a checkpoint document contains all its values.
#
# A standalone server has no transactions. There, each thread is removed separately, its head
# last, so the next run can complete an interrupted one. Documents that were added after the check
# are kept.


_DOCUMENTS = 20_000
"""Maximum documents of one transaction. A server aborts a transaction after 60 seconds."""
_IDS_PER_COMMAND = 20_000
"""Ids in one command. They take about 1 MB; MongoDB's limit for a command is 16 MB."""
_SECONDS, _PAUSE = 5.0, 0.05
"""How long to try again after conflicts with other commands, and the pause between attempts."""
_TRANSIENT = "TransientTransactionError"
_CONFLICT = 112
"""WriteConflict."""
_LOCKED = {_CONFLICT, 24}
"""WriteConflict, LockTimeout."""
_ENDED = {251, 290}
"""NoSuchTransaction, TransactionExceededLifetimeLimitSeconds."""
_PER_COMMAND, DOCUMENTS_AT_ONCE = 4 << 20, 100
"""Bytes and number of the documents of one command."""
_COPIED_AT_ONCE = 50
"""Documents that are copied with one command."""
_T = TypeVar("_T")
Match = Mapping[str, Any]
Document = dict[str, Any]
Stored = tuple[str, RawBSONDocument]
"""A document with its table."""


class MongoRows(Rows):
    """The documents of threads; with a session, inside its transaction."""

    def __init__(
        self,
        connection: MongoConnection,
        layout: MongoLayout,
        make: MongoChanges,
        session: ClientSession | None,
    ) -> None:
        self._connection = connection
        self._layout = layout
        self._saver = layout.saver
        self._make = make
        self._session = session
        self._shared = SharedWrites(connection, layout)
        kinds = ((Kind.WRITE, WRITES), (Kind.CHECKPOINT, CHECKPOINTS))
        self.tables = {kind: table for kind, table in kinds if table in layout.collections}
        self._forms: dict[str, object] = {}
        """By id, threads as they are stored: old savers stored numeric ids as numbers."""

    def heads(self, thread_ids: Sequence[str]) -> Heads:
        if "checkpoint_ns" not in self._saver.key:
            newest = ((one, self._newest({"thread_id": one})) for one in thread_ids)
            return {one: {"": NamespaceState(at["checkpoint_id"], 0)} for one, at in newest if at}
        return heads_of(self._collection(CHECKPOINTS), thread_ids, self._session)

    def _newest(self, match: Match, order: Mapping[str, int] = MappingProxyType({})) -> Document:
        """The newest checkpoint without its body, the first one in `order`; empty if none is."""
        found = self._collection(CHECKPOINTS).find_one(
            match,
            {self._saver.body: 0},
            sort=list({**order, **self._saver.newest_first}.items()),
            session=self._session,
            collation=BY_BYTES,
        )
        return dict(found or {})

    def states(self, thread_ids: Sequence[str]) -> Mapping[str, ThreadState]:
        forms = [value for one in thread_ids for value in stored_forms(one)]
        match = of_threads(forms)
        listed = self._aggregate(CHECKPOINTS, self._saver.threads(match, None))
        checkpoints = {row["_id"]: self._saver.thread_of(row) for row in listed}
        own = self._own(WRITES, match, forms)
        counted = self._aggregate(WRITES, pipelines.totals(own, "$thread_id"))
        writes = {row["_id"]: row["number"] for row in counted}
        found = {}
        for one in thread_ids:
            form = self._forms[one] = form_of(one, checkpoints, writes)
            thread = checkpoints.get(form)
            last_at, number = (thread.last_at, thread.checkpoints) if thread else (None, 0)
            found[one] = ThreadState(
                last_at, {Kind.WRITE: writes.get(form, 0), Kind.CHECKPOINT: number}
            )
        return found

    def count(self, kind: Kind, where: Where) -> int:
        collection = self._collection(self.tables[kind])
        return sum(
            collection.count_documents(match, session=self._session)
            for match in self._matches(kind, where)
        )

    def add(self, records: Iterable[Record]) -> None:
        for record in records:
            like = self._newest({"thread_id": record.key.thread_id})
            table, document = self._make.document_of(record, like)
            self._collection(table).insert_one(document, session=self._session)

    def copy(self, kind: Kind, where: Where, target: CopyTarget) -> int:
        number = 0
        for match in self._matches(kind, where) if kind in self.tables else ():
            collection = self._collection(self.tables[kind])
            found = collection.find(match, {"_id": 0}, session=self._session, collation=BY_BYTES)
            for some in in_chunks(found, _COPIED_AT_ONCE):
                number += len(some)
                copies = [self._copied(dict(one), target) for one in some]
                collection.insert_many(copies, session=self._session)
        return number

    def _copied(self, made: Document, target: CopyTarget) -> Document:
        made["thread_id"] = target.thread_id
        if target.checkpoint_id is not None:
            made["checkpoint_id"] = target.checkpoint_id
        if target.metadata is not None:
            made |= self._make.metadata_fields(target.metadata, made)
        if target.body is not None:
            made[self._saver.body] = target.body.data
        return made

    def remove(self, kind: Kind, where: Where) -> int:
        if kind not in self.tables:
            return 0
        if self._session is None and where == Where(where.thread_ids):
            # With the checkpoints, the writes go, too, in an order of their own.
            is_last = kind is Kind.CHECKPOINT
            return sum(map(self._remove_stepwise, where.thread_ids)) if is_last else 0
        table = self.tables[kind]
        return sum(self._delete(table, match) for match in self._matches(kind, where))

    def replace(self, thread_id: str, edits: Iterable[RowEdit]) -> None:
        """Replace fields of documents. Raises `StoreChanged` if one is not as it was read."""
        tables = ((one.new.table, one) for one in edits)
        for table, some in _batches(tables, lambda one: one.stored.size + one.new.size):
            updates = list(map(_update, some))
            done = self._collection(table).bulk_write(updates, session=self._session)
            if done.matched_count != len(some):
                raise moved(thread_id)

    def confirm(
        self,
        before: Heads,
        added: Mapping[tuple[str, str], int],  # noqa: ARG002
    ) -> None:
        # The transaction sees its snapshot only.
        if self._session is not None:
            now = MongoRows(self._connection, self._layout, self._make, None).heads(list(before))
            for thread_id, heads in before.items():
                if now.get(thread_id, {}) != heads:
                    raise moved(thread_id)

    def _remove_stepwise(self, thread_id: str) -> int:
        """Remove a whole thread; the writes of its head and the head itself come last.

        If the writes of the head were removed first, an interrupted removal would leave a waiting
        thread that looks like a running one, and the next run would keep it. What is added
        meanwhile stays.
        """
        threads = [self._forms.get(thread_id, thread_id)]
        thread: Match = of_threads(threads)
        order = self._saver.newest_first
        newest = self._newest(thread)
        # The root's namespace sorts first.
        spaces = {name: 1 for name in self._saver.key if name == "checkpoint_ns"}
        head = self._newest(thread, spaces)
        steps: list[tuple[str, Match]] = [(WRITES, self._own(WRITES, thread, threads))]
        if newest:
            stored_at = next(iter(order))
            known = {**thread, stored_at: {"$not": {"$gt": newest.get(stored_at)}}}
            at_head = {name: head.get(name) for name in ("checkpoint_ns", "checkpoint_id")}
            before = {"$and": [known, {"$nor": [at_head]}]}
            steps = [
                (WRITES, self._own(WRITES, before, threads)),
                (CHECKPOINTS, {**known, "_id": {"$ne": head["_id"]}}),
                (WRITES, {**thread, **at_head}),
                (CHECKPOINTS, {"_id": head["_id"]}),
            ]
        there = self._layout.collections
        return sum(self._delete(table, match) for table, match in steps if table in there)

    def _matches(self, kind: Kind, where: Where) -> Iterator[Match]:
        """The conditions for rows, short enough for one command each."""
        threads = [self._forms.get(one, one) for one in where.thread_ids if is_unicode(one)]
        match: Document = {**of_threads(threads)}
        if where.checkpoint_ns is not None and "checkpoint_ns" in self._saver.key:
            match["checkpoint_ns"] = where.checkpoint_ns
        if where.checkpoint_ids is None:
            yield self._own(self.tables[kind], match, threads)
            return
        if where.tasks is not None:
            match["$or"] = [{"task_id": task_id, "idx": idx} for task_id, idx in where.tasks]
        for some in in_chunks(storable_of(where.checkpoint_ids), _IDS_PER_COMMAND):
            yield {**match, "checkpoint_id": {"$in": some}}

    def _own(self, table: str, match: Match, threads: Sequence[object]) -> Match:
        """The condition without writes of other savers that share the collection."""
        if table != WRITES:
            return match
        others = self._shared.left_out(
            threads,
            lambda name, stages: self._connection.raw(name).aggregate(
                stages, self._session, collation=BY_BYTES
            ),
        )
        return {"$and": [match, others]} if others else match

    def _delete(self, table: str, match: Match) -> int:
        # In the collation of the collection, ids of other threads might be equal.
        done = self._collection(table).delete_many(match, collation=BY_BYTES, session=self._session)
        return int(done.deleted_count)

    def _aggregate(self, table: str, stages: Sequence[Stage]) -> Iterator[Any]:
        if table in self._layout.collections:
            yield from self._collection(table).aggregate(
                stages, self._session, collation=BY_BYTES, allowDiskUse=True
            )

    def _collection(self, table: str) -> Any:
        return self._connection.raw(self._layout.collections[table])


def heads_of(
    checkpoints: Any, thread_ids: Sequence[str], session: ClientSession | None
) -> dict[str, dict[str, NamespaceState]]:
    """By thread and namespace, the greatest id of a checkpoint."""
    stages: list[Stage] = [
        {"$match": of_threads(thread_ids)},
        {"$group": {"_id": [f"${name}" for name in KEY[:2]], "head": {"$max": f"${KEY[2]}"}}},
    ]
    found: dict[str, dict[str, NamespaceState]] = {}
    for row in checkpoints.aggregate(stages, session, collation=BY_BYTES, allowDiskUse=True):
        thread_id, ns = row["_id"]
        found.setdefault(thread_id, {})[ns or ""] = NamespaceState(row["head"], 0)
    return found


def _update(edit: RowEdit) -> UpdateOne:
    old, new = (RawBSONDocument(MongoDocument(row).raw) for row in edit)
    changed = {name: new[name] for name in new if new[name] != old[name]}
    as_read = {name: old[name] for name in ("_id", *changed)}
    return UpdateOne(as_read, {"$set": changed}, collation=BY_BYTES)


def _batches(
    items: Iterable[tuple[str, _T]], size_of: Callable[[_T], int]
) -> Iterator[tuple[str, list[_T]]]:
    """What is given with its table, in batches for one command each."""
    sized = in_batches(items, lambda one: size_of(one[1]), _PER_COMMAND, DOCUMENTS_AT_ONCE)
    for some in sized:
        for table in dict(some):
            yield table, [one for name, one in some if name == table]


def _patiently(act: Callable[[], _T], seconds: float, pause: float) -> _T:
    """Try again after conflicts with other commands, for some seconds."""
    until = time.monotonic() + seconds
    while True:
        try:
            return act()
        except PyMongoError as error:
            is_conflict = isinstance(error, OperationFailure) and error.code == _CONFLICT
            if not (is_conflict or error.has_error_label(_TRANSIENT)):
                raise
            if time.monotonic() > until:
                raise
        time.sleep(pause)


# Names where removed documents may still be in MongoDB, and compacts the collections.
#
# WiredTiger frees the blocks of removed documents without overwriting them. `compact` moves
# documents to the front of a file and cuts its end off, on the connected server only.


_UNAUTHORIZED, _UNKNOWN = 13, 59
_NOT_PERMITTED = "compact is not permitted: it needs the role `dbAdmin`"
_NO_COMPACT = "the server has no command to compact it"
_NEVER = (_NOT_PERMITTED, _NO_COMPACT)
"""Refusals that a later run gets, too."""
_FREE_SPACE = "free blocks in the files of the collections"
_NOT_OVERWRITTEN = "the server does not overwrite the space of removed documents until it reuses it"
_JOURNAL = Remaining(
    "journal and older versions of documents",
    "the server keeps both for a while, for recovery and for reads of the past",
)
_OPLOG = Remaining(
    "oplog", "it holds documents as they were inserted, until their entries are overwritten"
)


def erase_remains(
    connection: MongoConnection,
    url: StoreUrl,
    collections: Collection[str],
    *,
    rewrite: bool,
    progress: Progress,
) -> Remains:
    """With `rewrite`, compact the collections. Raises `StoreUnavailable`."""
    connection.restart()
    hello = connection.command("hello")
    done, places = [], []
    for name in sorted(collections) if rewrite else ():
        statement = f"compact {name}"
        progress(statement)
        why = _refusal(connection, url, name, force="setName" in hello)
        if why:
            places.append(Remaining(f"collection {name}", why, is_reachable=why not in _NEVER))
        else:
            done.append(statement)
    places.append(Remaining(_FREE_SPACE, _NOT_OVERWRITTEN, needs_rewrite=not rewrite))
    places += _elsewhere(hello)
    return Remains(tuple(done), (*places, FREED_BLOCKS, BACKUPS))


def _refusal(connection: MongoConnection, url: StoreUrl, name: str, *, force: bool) -> str:
    """Compact a collection. Returns why the server refused it, or `''`."""
    # A primary compacts only if it is forced to.
    command = {"compact": name, **({"force": True} if force else {})}
    with explained(url):
        try:
            connection.database.command(command)
        except OperationFailure as error:
            if error.code == _UNAUTHORIZED:
                return _NOT_PERMITTED
            if error.code == _UNKNOWN:
                return _NO_COMPACT
            # The text of a server's error may quote stored data.
            return f"compact failed: {(error.details or {}).get('codeName') or error.code}"
    return ""


def _elsewhere(hello: Mapping[str, Any]) -> Iterator[Remaining]:
    """The logs of the server, and its other members; `hello` is its answer to that command."""
    yield _JOURNAL
    is_sharded = hello.get("msg") == "isdbgrid"
    if "setName" in hello or is_sharded:
        yield _OPLOG
    others = sum(len(hello.get(kind, ())) for kind in ("hosts", "passives", "arbiters")) - 1
    if is_sharded:
        yield Remaining("shards", "each has files and an oplog of its own")
    elif others > 0:
        yield Remaining(
            "other members of the replica set",
            f"it has {others}; each has files and an oplog of its own, and was not compacted",
        )


# Adds threads that come from another store or from an archive.
#
# What fits into one transaction is added in one. Anything larger, and all on a server without
# transactions, is stored first where no saver finds it (see `staged_id`). Then only the `thread_id`
# of its documents is changed: in one transaction if that can be, or else writes first and the
# root graph's checkpoints last, newest first. A server needs seconds for that if a thread has
# 100,000 documents.


_AT_ONCE = 16 << 20
"""Bytes of one transaction. MongoDB before 4.2 writes a transaction as one document of its log."""
_MOST = 16 << 20
"""MongoDB's limit for a document, in bytes."""
_MOST_TURNED, _MOST_BYTES_TURNED = 2000, 64 << 20
"""Documents, and their bytes, that may be turned in one transaction. The server keeps all that a
transaction changes in memory, and aborts it after 60 seconds."""
_PATIENCE, _RETRY_PAUSE = 75.0, 0.25
"""Seconds for trying again after conflicts, and the pause between two attempts."""
_TOO_LARGE = {257, 388}
"""TransactionTooLarge, TransactionTooLargeForCache. Other errors of a transaction that is too large
are transient."""

Lock: TypeAlias = Callable[[str, ClientSession | None], None]


class Receiver:
    """Adds threads to the collections of one layout."""

    def __init__(self, connection: MongoConnection, layout: MongoLayout, lock: Lock) -> None:
        """`lock` makes transactions fail that change the same thread at the same time."""
        self._connection = connection
        self._layout = layout
        self._lock = lock
        self._run = ObjectId()
        self._checked: Sequence[Arrival] = ()
        """Those whose heads must stay as they are."""
        self._keeps_equal = False
        """Whether a document may be there that is equal to one that comes."""
        self._staged: Counter[tuple[str, str]] = Counter()
        """By table and thread, the number of documents on their way."""
        self._bytes = 0
        """The bytes of all documents that were inserted."""
        self._known: set[str] = set()
        """The threads of which the store has something."""
        self._added = self._there = 0

    def receive(self, listed: Sequence[Arrival], documents: Iterator[tuple[str, Document]]) -> None:
        """Add threads, all or none; see `WritableStore.receive`. Raises `PyMongoError`, too."""
        ids = [one.thread_id for one in listed]
        self._check_ids(ids)
        self._checked = listed
        self._take(ids, ((table, _encoded(one)) for table, one in documents))

    def restore(self, rows: Iterable[Row]) -> Restored:
        """Add documents of one thread; see `WritableStore.restore`. Raises `PyMongoError`, too."""
        collections = self._layout.collections
        documents = ((row.table, archived(collections, row)) for row in rows)
        first = next(documents, None)
        if first is None:
            return Restored(0, 0)
        thread_id = first[1].get("thread_id")
        self._keeps_equal = True
        # Old savers stored numeric ids as numbers: these documents are not staged.
        ids = [thread_id] if isinstance(thread_id, str) else []
        self._take(ids, chain([first], documents))
        return Restored(self._added, self._there)

    def _take(self, ids: Sequence[str], documents: Iterator[Stored]) -> None:
        """Add the documents of these threads, all or none."""
        # The server keeps the transaction of a killed run for a minute.
        clean = partial(remove_staged, self._connection, self._layout, ids)
        _patiently(clean, _PATIENCE, _RETRY_PAUSE)
        self._known = self._there_are(ids)
        try:
            self._add(ids, documents)
        except BaseException:
            if self._staged:
                with suppress(PyMongoError):
                    remove_staged(self._connection, self._layout, ids)
            raise

    def _check_ids(self, thread_ids: Sequence[str]) -> None:
        if wrong := next((one for one in thread_ids if not is_unicode(one)), None):
            raise CannotHold(f"MongoDB cannot store the thread id '{wrong}'")
        numbers = [one for one in map(number_of, thread_ids) if one is not None]
        for table in self._layout.collections if numbers else ():
            match = {"thread_id": {"$in": numbers}}
            if found := self._collection(table).find_one(match, {"thread_id": 1}):
                raise CannotHold(f"thread '{found['thread_id']}' is stored under a number there")

    def _add(self, ids: Sequence[str], documents: Iterator[Stored]) -> None:
        if not ids and self._connection.has_transactions:
            self._add_at_once(documents)
            return
        first, are_all = first_of(documents, lambda one: len(one[1].raw), _AT_ONCE)
        if are_all and self._connection.has_transactions:
            _patiently(lambda: self._add_at_once(first), _PATIENCE, _RETRY_PAUSE)
            return
        self._insert(chain(_taken(first), documents), None)
        self._publish(ids)

    def _add_at_once(self, documents: Iterable[Stored]) -> None:
        self._added = self._there = 0
        with self._transaction() as session:
            self._insert(documents, session)

    @contextmanager
    def _transaction(self) -> Iterator[ClientSession | None]:
        """A transaction in which no thread has other heads than its arrival says."""
        with self._connection.transaction() as session:
            for one in self._checked:
                if one.heads:
                    self._lock(one.thread_id, session)
            yield session
            self._check_heads()

    def _insert(self, documents: Iterable[Stored], session: ClientSession | None) -> None:
        """Insert documents; without a session, as documents on their way."""
        for table, some in _batches(documents, lambda one: len(one.raw)):
            new = self._new(table, some, session)
            self._added += len(new)
            self._there += len(some) - len(new)
            self._bytes += sum(len(one.raw) for one in new)
            if session is None:
                new = [self._as_staged(table, one) for one in new]
            if new:
                self._collection(table).insert_many(new, session=session)

    def _new(
        self, table: str, some: list[RawBSONDocument], session: ClientSession | None
    ) -> list[RawBSONDocument]:
        """The documents that are not there. Raises `StoreChanged` if one has other contents.

        Not every saver has unique indexes.
        """
        if not self._keeps_equal and self._known.isdisjoint(one["thread_id"] for one in some):
            return some
        names = self._layout.keys[table]
        return missing(self._collection(table), names, some, session, table)

    def _as_staged(self, table: str, document: RawBSONDocument) -> RawBSONDocument:
        thread_id = document["thread_id"]
        if not isinstance(thread_id, str):
            return document
        self._staged[table, thread_id] += 1
        staged = documents.subdocument(encode(staged_id(self._run, thread_id)))
        made = documents.splice_bson(bytes(document.raw), {"thread_id": staged})
        return RawBSONDocument(made, RAW)

    def _publish(self, ids: Sequence[str]) -> None:
        """Give all documents on their way their thread ids."""
        fits = self._staged.total() <= _MOST_TURNED and self._bytes <= _MOST_BYTES_TURNED
        if fits and self._connection.has_transactions:
            try:
                with self._transaction() as session:
                    self._turn(ids, session)
                return
            except OperationFailure as error:
                if error.code not in _TOO_LARGE and not error.has_error_label(_TRANSIENT):
                    raise
        self._check_staged(ids)
        self._check_heads()
        self._turn(ids, None)

    def _check_staged(self, ids: Sequence[str]) -> None:
        """Raise `StoreChanged` if another run has removed what this one has stored."""
        for one in ids:
            match = {"thread_id": staged_id(self._run, one)}
            for table in self._layout.collections:
                if self._collection(table).count_documents(match) != self._staged[table, one]:
                    raise moved(one)

    def _turn(self, ids: Sequence[str], session: ClientSession | None) -> None:
        subgraphs, root = {"checkpoint_ns": {"$ne": ""}}, {"checkpoint_ns": ""}
        order: list[tuple[str, Document]] = [(WRITES, {})]
        order += [(CHECKPOINTS, subgraphs), (CHECKPOINTS, root)]
        for one in ids:
            turned: Counter[str] = Counter()
            for table, some in order:
                if not self._staged[table, one]:
                    continue
                match = {"thread_id": staged_id(self._run, one), **some}
                change = {"$set": {"thread_id": one}}
                done = self._collection(table).update_many(match, change, session=session)
                turned[table] += done.modified_count
            for table, number in turned.items():
                if number != self._staged[table, one]:
                    raise moved(one)

    def _check_heads(self) -> None:
        """Raise `StoreChanged` if a thread has other heads than its arrival says."""
        ids = [one.thread_id for one in self._checked]
        found = heads_of(self._collection(CHECKPOINTS), ids, None) if ids else {}
        for one in self._checked:
            now = {ns: state.head for ns, state in found.get(one.thread_id, {}).items()}
            if now != dict(one.heads):
                raise moved(one.thread_id)

    def _there_are(self, thread_ids: Sequence[str]) -> set[str]:
        match, found = of_threads(thread_ids), set[str]()
        for table in self._layout.collections:
            found.update(self._collection(table).distinct("thread_id", match, collation=BY_BYTES))
        return found

    def _collection(self, table: str) -> Any:
        return self._connection.raw(self._layout.collections[table])


def _taken(listed: list[Any]) -> Iterator[Any]:
    """The items of a list, which is emptied so that each can be freed."""
    listed.reverse()
    while listed:
        yield listed.pop()


def archived(tables: Container[str], row: Row) -> RawBSONDocument:
    """The document of an archived row. Raises `Unsupported` and `Unreadable`."""
    if row.table not in tables:
        raise no_place(row.table)
    found = MongoDocument(row)
    if "_id" not in found:
        raise Unreadable(f"a row of '{row.table}' is not a MongoDB document: it has no _id")
    return RawBSONDocument(found.raw, RAW)


def missing(
    collection: Any,
    names: Sequence[str],
    documents: Sequence[RawBSONDocument],
    session: ClientSession | None,
    table: str,
) -> list[RawBSONDocument]:
    """The documents that a collection does not have yet; `names` are the fields of their key.

    One is found by its `_id`, or by its key if it was stored again with a new `_id`. Releases
    before 0.1.4 create no unique index. Raises `StoreChanged` for one with other contents.
    """
    keys = [{name: {"$eq": one.get(name)} for name in names} for one in documents]
    same = [{"_id": {"$in": [one["_id"] for one in documents]}}, *keys]
    left = {bytes(one.raw): one for one in documents}
    for one in collection.find({"$or": same}, session=session, collation=BY_BYTES):
        if left.pop(bytes(one.raw), None) is None:
            raise conflict(table)
    return list(left.values())


def _encoded(document: Document) -> RawBSONDocument:
    where = f"checkpoint '{document['checkpoint_id']}'"
    if "channel" in document:
        where = f"the write to '{document['channel']}' at {where}"
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


class MongoChanges(OnConnection[MongoConnection], RecordStore):
    """Checkpoints on MongoDB, opened for changing; each layout has a subclass."""

    def __init__(self, connection: MongoConnection, url: StoreUrl, layout: MongoLayout) -> None:
        super().__init__(connection, url)
        self._layout = layout
        if layout.unknown:
            raise UnknownLayout(
                f"'{url}' was written by a saver that ckpt does not know, so ckpt only reads it",
                hint=f"unknown fields: {', '.join(map(shell.word, layout.unknown))}",
            )

    @abstractmethod
    def document_of(self, record: Record, like: Document | None) -> tuple[str, Document]:
        """The table and the document of a record. Raises `CannotHold` and `Unsupported`.

        It has the form of `like`, the thread's newest checkpoint, or of the newest releases.
        """

    @abstractmethod
    def metadata_fields(self, given: TypedBytes, like: Document) -> Document:
        """The fields for metadata, in the same form as in the document `like`."""

    @contextmanager
    def _transaction(
        self,
        thread_ids: Sequence[str],
        *,
        exclusive: bool = False,  # noqa: ARG002 - `remove` does without
    ) -> Iterator[MongoRows]:
        with explained_change(self._url), self._connection.transaction() as session:
            for thread_id in thread_ids if session is not None else ():
                self._lock(thread_id, session)
            yield self._rows(session)

    def _rows(self, session: ClientSession | None) -> MongoRows:
        return MongoRows(self._connection, self._layout, self, session)

    @property
    def applies_together(self) -> bool:
        return self._connection.has_transactions

    def remove(self, removals: Sequence[Removal]) -> list[Removed]:
        # Without the writes collection, the writes of a removed thread would stay unnoticed.
        self._need_writes()
        with explained_change(self._url):
            at_once = len(removals) if self._connection.has_transactions else 1
            portions = in_batches(removals, _size_of, _DOCUMENTS, at_once)
            found = list(chain.from_iterable(map(self._removed, portions)))
            # What a broken copy left of these threads has to go, too.
            gone = [one.thread_id for one in found if not one.skipped]
            remove_staged(self._connection, self._layout, gone)
        return found

    def _removed(self, removals: Sequence[Removal]) -> list[Removed]:
        """Remove several threads, or parts of them, in one transaction.

        Raises `StoreUnavailable` if other commands lock the documents.
        """
        done = None
        try:
            while done is None:
                done = _patiently(lambda: self._try_to_remove(removals), _SECONDS, _PAUSE)
        except OperationFailure as error:
            if error.code in _LOCKED:
                raise StoreUnavailable(
                    "documents of these threads are locked, so the threads were kept",
                    hint="run the command again when the other command has finished",
                ) from None
            if error.code in _ENDED:
                raise StoreUnavailable(
                    "the server aborted the transaction, so these threads were kept",
                    hint="use a smaller --batch, or raise transactionLifetimeLimitSeconds",
                ) from None
            raise
        return done

    def _try_to_remove(self, removals: Sequence[Removal]) -> list[Removed] | None:
        """Returns None if a thread changed meanwhile; nothing is removed then."""
        with self._connection.transaction() as session:
            rows = self._rows(session)
            states = rows.states([one.thread_id for one in removals])
            done = list(removed_threads(rows, removals, states))
            going = [one.thread_id for one in done if not one.skipped]
            if session is None:
                return done
            if self._rows(None).states(going) != {name: states[name] for name in going}:
                session.abort_transaction()
                return None
        return done

    def restore(self, rows: Iterable[Row]) -> Restored:
        with explained_change(self._url):
            return Receiver(self._connection, self._layout, self._lock).restore(rows)

    def erase_remains(self, *, rewrite: bool = False, progress: Progress = silent) -> Remains:
        names = self._layout.collections.values()
        return erase_remains(self._connection, self._url, names, rewrite=rewrite, progress=progress)

    def replace(self, thread_id: str, edits: Iterable[RowEdit]) -> None:
        left = iter(edits)
        first, are_all = first_of(left, lambda one: one.new.size, _AT_ONCE)
        # A thread that does not fit into one transaction is replaced document by document.
        one_step = self._transaction([thread_id]) if are_all else nullcontext(self._rows(None))
        with explained_change(self._url), one_step as rows:
            rows.replace(thread_id, chain(first, left))

    def vacuum(self) -> None:
        raise Unsupported(
            f"'{self._url}' cannot be vacuumed: MongoDB reuses the space for new documents",
            hint="an administrator can run `compact` on each member of the replica set in turn",
        )

    def _check(self, change: Change) -> None:
        if not is_unicode(change.thread_id):
            raise Unsupported(f"MongoDB cannot store the thread id '{change.thread_id}'")
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
        with explained_change(self._url):
            self._check_texts(change)

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

    def _lock(self, thread_id: str, session: ClientSession | None) -> None:
        digest = sha256(b"ckpt\0" + thread_id.encode()).hexdigest()
        name = f"ckpt-{digest[:24]}"
        mark = {"_id": name, "thread_id": name}
        self._checkpoints.insert_one(dict(mark), session=session)
        self._checkpoints.delete_one(mark, session=session)

    @property
    def _checkpoints(self) -> Any:
        return self._connection.raw(self._layout.checkpoints)


def _size_of(removal: Removal) -> int:
    return removal.checkpoints + removal.writes


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
