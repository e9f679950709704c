"""Removes documents of threads.

On a replica set or a sharded cluster, several threads are removed in one transaction.

* If two runs remove the same documents, the server rejects the later transaction. It is tried
  again and then finds nothing to remove. So no lock document is needed.
* An insert of a saver does not conflict with the transaction. So just before the end, the threads
  are read again outside of the transaction. If a saver has added something, the transaction is
  aborted and tried again without that thread.
* A checkpoint that is added between that check and the commit is not removed. It stays usable,
  because a checkpoint document contains all its values.

A standalone server has no transactions. There, each thread is removed separately, its head last, so
the next run can complete an interrupted one. Documents that were added after the check are kept.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pymongo.client_session import ClientSession
from pymongo.errors import OperationFailure, PyMongoError

from ckpt_backends.changes.removal import Inside, Removal, Removed
from ckpt_backends.errors import StoreUnavailable
from ckpt_backends.mongodb.engine import pipelines
from ckpt_backends.mongodb.engine.connect import BY_BYTES, MongoConnection
from ckpt_backends.mongodb.engine.fields import form_of, storable_of, stored_forms
from ckpt_backends.mongodb.engine.layout import CHECKPOINTS, WRITES, MongoLayout
from ckpt_backends.mongodb.engine.shared_writes import SharedWrites

_DOCUMENTS = 20_000
"""Maximum documents of one transaction. A server aborts a transaction after 60 seconds."""
_IDS_PER_COMMAND = 20_000
"""Ids in one command. They take about 1 MB; MongoDB's limit for a command is 16 MB."""
_SECONDS, _PAUSE = 5.0, 0.05
"""How long to try again after conflicts with other commands, and the pause between attempts."""
_TRANSIENT = "TransientTransactionError"
_CONFLICTS = {112, 24}
"""WriteConflict, LockTimeout."""
_ENDED = {251, 290}
"""NoSuchTransaction, TransactionExceededLifetimeLimitSeconds."""
Match = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _State:
    """The current state of a thread."""

    thread_id: object
    """As stored: old savers stored numeric ids as numbers."""
    last_at: datetime | None
    checkpoints: int
    writes: int


def remove_threads(
    connection: MongoConnection, layout: MongoLayout, removals: Sequence[Removal]
) -> list[Removed]:
    """Remove the planned documents of each thread that has not changed.

    Raises `StoreUnavailable` if other commands lock the documents, and `PyMongoError`.
    """
    remover = _Remover(connection, layout)
    if not connection.has_transactions:
        return [remover.alone(one) for one in removals]
    return [done for some in _portions(removals) for done in remover.together(some)]


def _portions(removals: Sequence[Removal]) -> Iterator[list[Removal]]:
    some: list[Removal] = []
    documents = 0
    for one in removals:
        size = one.checkpoints + one.writes
        if some and documents + size > _DOCUMENTS:
            yield some
            some, documents = [], 0
        some.append(one)
        documents += size
    if some:
        yield some


class _Remover:
    def __init__(self, connection: MongoConnection, layout: MongoLayout) -> None:
        self._connection = connection
        self._saver = layout.saver
        self._shared = SharedWrites(connection, layout)
        self._collections = {
            table: connection.raw(name) for table, name in layout.collections.items()
        }

    def together(self, removals: Sequence[Removal]) -> list[Removed]:
        """Remove several threads, or parts of them, in one transaction."""
        until = time.monotonic() + _SECONDS
        while True:
            try:
                done = self._attempt(removals)
            except PyMongoError as error:
                if not error.has_error_label(_TRANSIENT):
                    raise
                if time.monotonic() > until:
                    raise _given_up(error) from None
                time.sleep(_PAUSE)
                continue
            if done is not None:
                return done

    def _attempt(self, removals: Sequence[Removal]) -> list[Removed] | None:
        """Try to remove. Returns None if a thread changed meanwhile; nothing is removed then."""
        with self._connection.transaction() as session:
            states = self._states([one.thread_id for one in removals], session)
            done: list[Removed] = []
            whole: list[object] = []
            for one in removals:
                state = states[one.thread_id]
                if reason := _reason_to_skip(one, state):
                    done.append(Removed(one.thread_id, skipped=reason))
                elif one.inside is None:
                    whole.append(state.thread_id)
                    rows = Counter({WRITES: state.writes, CHECKPOINTS: state.checkpoints})
                    done.append(Removed(one.thread_id, rows))
                else:
                    rows = self._remove_inside(state, one.inside, session)
                    done.append(Removed(one.thread_id, rows))
            for table in self._collections if whole else ():
                match = self._own(table, pipelines.of_threads(whole), whole, session)
                self._delete(table, match, session)
            going = [one.thread_id for one in done if not one.skipped]
            if self._states(going, None) != {name: states[name] for name in going}:
                session.abort_transaction()
                return None
        return done

    def alone(self, removal: Removal) -> Removed:
        """Remove one thread, or parts of it, without a transaction."""
        state = self._states([removal.thread_id], None)[removal.thread_id]
        if reason := _reason_to_skip(removal, state):
            return Removed(removal.thread_id, skipped=reason)
        if removal.inside is None:
            return Removed(removal.thread_id, self._remove_stepwise(state))
        return Removed(removal.thread_id, self._remove_inside(state, removal.inside, None))

    def _remove_stepwise(self, state: _State) -> Counter[str]:
        """Remove a whole thread; the writes of its head and the head itself come last.

        If the writes of the head were removed first, an interrupted removal would leave a waiting
        thread that looks like a running one, and the next run would keep it.
        """
        rows: Counter[str] = Counter()
        thread: Match = pipelines.of_threads([state.thread_id])
        order = self._saver.newest_first
        stored_at = next(iter(order))
        newest = self._first(thread, order)
        # The root's namespace sorts first.
        spaces = {name: 1 for name in self._saver.key if name == "checkpoint_ns"}
        head = self._first(thread, {**spaces, **order})
        threads = [state.thread_id]
        if newest is None or head is None:
            own = self._own(WRITES, thread, threads, None)
            rows[WRITES] += self._delete(WRITES, own, None)
            return rows
        known = {**thread, stored_at: {"$not": {"$gt": newest.get(stored_at)}}}
        at_head = {name: head.get(name) for name in ("checkpoint_ns", "checkpoint_id")}
        if self._saver.has_writes:
            match = {"$and": [known, {"$nor": [at_head]}]}
            own = self._own(WRITES, match, threads, None)
            rows[WRITES] += self._delete(WRITES, own, None)
        rows[CHECKPOINTS] += self._delete(CHECKPOINTS, {**known, "_id": {"$ne": head["_id"]}}, None)
        if self._saver.has_writes:
            rows[WRITES] += self._delete(WRITES, {**thread, **at_head}, None)
        rows[CHECKPOINTS] += self._delete(CHECKPOINTS, {"_id": head["_id"]}, None)
        return rows

    def _first(self, match: Match, order: Mapping[str, int]) -> Any:
        fields = dict.fromkeys(("checkpoint_ns", "checkpoint_id", "created_at"), 1)
        found = self._collections[CHECKPOINTS].find(match, fields, collation=BY_BYTES)
        return next(found.sort(list(order.items())).limit(1), None)

    def _remove_inside(
        self, state: _State, inside: Inside, session: ClientSession | None
    ) -> Counter[str]:
        rows: Counter[str] = Counter()
        for ns, ids in inside.checkpoints.items():
            names = storable_of(ids)
            space = {"checkpoint_ns": ns} if "checkpoint_ns" in self._saver.key else {}
            for start in range(0, len(names), _IDS_PER_COMMAND):
                some = {"checkpoint_id": {"$in": names[start : start + _IDS_PER_COMMAND]}}
                for table in self._collections:
                    match = {**pipelines.of_threads([state.thread_id]), **space, **some}
                    rows[table] += self._delete(table, match, session)
        return rows

    def _own(
        self, table: str, match: Match, threads: Sequence[object], session: ClientSession | None
    ) -> Match:
        """The condition without writes of other savers that share the collection."""
        if table != WRITES:
            return match
        others = self._shared.left_out(
            threads,
            lambda name, stages: self._connection.raw(name).aggregate(
                stages, session, collation=BY_BYTES
            ),
        )
        return {"$and": [match, others]} if others else match

    def _delete(self, table: str, match: Match, session: ClientSession | None) -> int:
        # In the collation of the collection, ids of other threads might be equal.
        done = self._collections[table].delete_many(match, collation=BY_BYTES, session=session)
        return int(done.deleted_count)

    def _states(
        self, thread_ids: Sequence[str], session: ClientSession | None
    ) -> dict[str, _State]:
        """The current states of threads; with a session, as its transaction sees them."""
        forms = [value for one in thread_ids for value in stored_forms(one)]
        match = pipelines.of_threads(forms)
        listed = self._rows(CHECKPOINTS, self._saver.threads(match, None), session)
        checkpoints = {row["_id"]: self._saver.thread_of(row) for row in listed}
        own = self._own(WRITES, match, forms, session)
        counted = self._rows(WRITES, pipelines.totals(own, "$thread_id"), session)
        writes = {row["_id"]: row["number"] for row in counted}
        found = {}
        for one in thread_ids:
            form = form_of(one, checkpoints, writes)
            thread = checkpoints.get(form)
            last_at, number = (thread.last_at, thread.checkpoints) if thread else (None, 0)
            found[one] = _State(form, last_at, number, writes.get(form, 0))
        return found

    def _rows(
        self, table: str, stages: Sequence[pipelines.Stage], session: ClientSession | None
    ) -> Iterator[Any]:
        if table in self._collections:
            yield from self._collections[table].aggregate(
                stages, session, collation=BY_BYTES, allowDiskUse=True
            )


def _given_up(error: PyMongoError) -> Exception:
    """The error to raise after the last attempt failed."""
    code = error.code if isinstance(error, OperationFailure) else None
    if code in _CONFLICTS:
        return StoreUnavailable(
            "documents of these threads are locked, so the threads were kept",
            hint="run the command again when the other command has finished",
        )
    if code in _ENDED:
        return StoreUnavailable(
            "the server aborted the transaction, so these threads were kept",
            hint="use a smaller --batch, or raise transactionLifetimeLimitSeconds",
        )
    return error


def _reason_to_skip(removal: Removal, state: _State) -> str:
    return removal.reason_to_skip(state.last_at, state.checkpoints, state.writes)
