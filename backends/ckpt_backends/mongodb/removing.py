"""Removing documents of MongoDB's layouts.

On a replica set or a sharded cluster some threads go in one transaction. Two runs that remove the
same documents collide in it: the later one is turned away by the server and tries again, when
there is nothing left for it. So nothing has to be put into someone's database to keep them apart.
A saver's insert collides with nothing: what one added since the transaction began is looked for
outside of it, right before its end; then nothing goes, and the next attempt leaves that thread out.
What is added between that look and the end stays: a checkpoint holds all of its values.

A standalone server has no transactions. There each thread goes by itself, its head at the very
end, so that what a broken run leaves is found by the next one; what is newer than the look at the
thread is spared.
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

from ckpt_backends.errors import StoreUnavailable
from ckpt_backends.mongodb import kaflow, pipelines
from ckpt_backends.mongodb.connect import BY_BYTES, Connection
from ckpt_backends.mongodb.layout import CHECKPOINTS, KAFLOW, WRITES, MongoLayout
from ckpt_backends.mongodb.read import form_of, storable_of, stored_forms, thread_of
from ckpt_backends.removal import GONE, MOVED, Inside, Removal, Removed

_DOCUMENTS = 20_000
"""Seconds after which a transaction takes no further thread: a server aborts it after 60."""
_IDS_PER_COMMAND = 20_000
"""Ids in one command. These take about a megabyte, and a command may have sixteen."""
_SECONDS, _PAUSE = 5.0, 0.05
"""How long others that hold the same documents are waited for, and between two attempts."""
_TRANSIENT = "TransientTransactionError"
_CONFLICTS = {112, 24}
"""WriteConflict, LockTimeout."""
_ENDED = {251, 290}
"""NoSuchTransaction, TransactionExceededLifetimeLimitSeconds."""
Match = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _State:
    """What is there of a thread."""

    thread_id: object
    """As it is stored: old savers stored a number as one."""
    last_at: datetime | None
    checkpoints: int
    writes: int


def remove_threads(
    connection: Connection, layout: MongoLayout, removals: Sequence[Removal]
) -> list[Removed]:
    """Carry out the planned removal of each thread that has not changed.

    Raises `StoreUnavailable` where others hold documents of them, and the driver's errors.
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
    def __init__(self, connection: Connection, layout: MongoLayout) -> None:
        self._connection = connection
        self._is_kaflow = layout.name == KAFLOW
        self._collections = {
            table: connection.raw(name) for table, name in layout.collections.items()
        }

    def together(self, removals: Sequence[Removal]) -> list[Removed]:
        """Remove of some threads in one transaction."""
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
        """None where a thread changed meanwhile; nothing is removed then."""
        names = [one.thread_id for one in removals]
        with self._connection.transaction() as session:
            states = self._states(names, session)
            skipped = _skipped(removals, states)
            planned = [one for one in removals if one.thread_id not in skipped]
            whole = [states[one.thread_id].thread_id for one in planned if one.inside is None]
            rows: dict[str, Counter[str]] = {}
            for one in planned:
                state = states[one.thread_id]
                if one.inside is None:
                    rows[one.thread_id] = Counter(
                        {WRITES: state.writes, CHECKPOINTS: state.checkpoints}
                    )
                else:
                    rows[one.thread_id] = self._remove_inside(state, one.inside, session)
            for table in self._collections:
                if whole:
                    self._delete(table, pipelines.of_threads(whole), session)
            going = [one.thread_id for one in planned]
            if self._states(going, None) != {name: states[name] for name in going}:
                session.abort_transaction()
                return None
        return [
            Removed(one.thread_id, skipped=skipped[one.thread_id])
            if one.thread_id in skipped
            else Removed(one.thread_id, rows[one.thread_id])
            for one in removals
        ]

    def alone(self, removal: Removal) -> Removed:
        """Remove of one thread, without a transaction."""
        states = self._states([removal.thread_id], None)
        skipped = _skipped([removal], states)
        if skipped:
            return Removed(removal.thread_id, skipped=skipped[removal.thread_id])
        state = states[removal.thread_id]
        if removal.inside is None:
            return Removed(removal.thread_id, self._remove_stepwise(state))
        return Removed(removal.thread_id, self._remove_inside(state, removal.inside, None))

    def _remove_stepwise(self, state: _State) -> Counter[str]:
        """Remove a thread, the writes of its head and its head last.

        Were all writes to go first, what is left of a thread that waits would look like one that
        runs, which the next run would keep.
        """
        rows: Counter[str] = Counter()
        thread: Match = pipelines.of_threads([state.thread_id])
        time_of_storing = "created_at" if self._is_kaflow else "checkpoint_id"
        newest = self._first(thread, {time_of_storing: -1})
        last = kaflow.NEWEST_FIRST if self._is_kaflow else {"checkpoint_ns": 1, "checkpoint_id": -1}
        head = self._first(thread, last)
        if newest is None or head is None:
            rows[WRITES] += self._delete(WRITES, thread, None)
            return rows
        known = {**thread, time_of_storing: {"$not": {"$gt": newest.get(time_of_storing)}}}
        at_head = {name: head.get(name) for name in ("checkpoint_ns", "checkpoint_id")}
        if not self._is_kaflow:
            rows[WRITES] += self._delete(WRITES, {**known, "$nor": [at_head]}, None)
        rows[CHECKPOINTS] += self._delete(CHECKPOINTS, {**known, "_id": {"$ne": head["_id"]}}, None)
        if not self._is_kaflow:
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
            space = {} if self._is_kaflow else {"checkpoint_ns": ns}
            for start in range(0, len(names), _IDS_PER_COMMAND):
                some = {"checkpoint_id": {"$in": names[start : start + _IDS_PER_COMMAND]}}
                for table in self._collections:
                    match = {**pipelines.of_threads([state.thread_id]), **space, **some}
                    rows[table] += self._delete(table, match, session)
        return rows

    def _delete(self, table: str, match: Match, session: ClientSession | None) -> int:
        # Under a collation of the collection's own, other threads might compare equal.
        done = self._collections[table].delete_many(match, collation=BY_BYTES, session=session)
        return int(done.deleted_count)

    def _states(
        self, thread_ids: Sequence[str], session: ClientSession | None
    ) -> dict[str, _State]:
        """What is there of threads; of the present moment where there is no session."""
        forms = [value for one in thread_ids for value in stored_forms(one)]
        listing, told = (
            (kaflow.threads, kaflow.thread_of)
            if self._is_kaflow
            else (pipelines.threads, thread_of)
        )
        stages = listing(pipelines.of_threads(forms), None)
        checkpoints = {row["_id"]: told(row) for row in self._rows(CHECKPOINTS, stages, session)}
        writes = {
            row["_id"]: row["number"]
            for row in self._rows(WRITES, pipelines.totals(forms), session)
        }
        found = {}
        for one in thread_ids:
            form = form_of(one, checkpoints, writes)
            thread = checkpoints.get(form)
            found[one] = _State(
                form,
                None if thread is None else thread.last_at,
                0 if thread is None else thread.checkpoints,
                writes.get(form, 0),
            )
        return found

    def _rows(
        self, table: str, stages: Sequence[pipelines.Stage], session: ClientSession | None
    ) -> Iterator[Any]:
        if table in self._collections:
            yield from self._collections[table].aggregate(
                stages, session, collation=BY_BYTES, allowDiskUse=True
            )


def _given_up(error: PyMongoError) -> Exception:
    """What a person is told when the last attempt failed too."""
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


def _skipped(removals: Sequence[Removal], states: Mapping[str, _State]) -> dict[str, str]:
    """Threads that are not as their removal says, and why."""
    skipped = {}
    for one in removals:
        state = states[one.thread_id]
        if one.checkpoints and not state.checkpoints:
            skipped[one.thread_id] = GONE
        elif (state.last_at, state.checkpoints, state.writes) != (
            one.last_at,
            one.checkpoints,
            one.writes,
        ):
            skipped[one.thread_id] = MOVED
    return skipped
