"""Finds the threads whose documents may contradict each other, in two sorted reads.

The index of the saver has the order of both. Of writes it has all that is needed; of checkpoints,
the server also reads the documents, but sends only their ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from ckpt_backends.mongodb.engine.connect import MongoConnection
from ckpt_backends.mongodb.engine.fields import text
from ckpt_backends.mongodb.engine.layout import MongoLayout
from ckpt_backends.mongodb.engine.pipelines import Stage
from ckpt_backends.mongodb.engine.sizes import IS_NEAR
from ckpt_backends.mongodb.engine.staging import is_staged
from ckpt_backends.mongodb.faults import is_expiring

_ORDER = {"thread_id": 1, "checkpoint_ns": 1, "checkpoint_id": -1}
_Order = tuple[int, Any]
"""The place of a thread id in MongoDB's order: numbers before texts, and texts by their bytes."""
_Thread = tuple[_Order, list[Any]]


def suspects(connection: MongoConnection, layout: MongoLayout) -> Iterator[str]:
    """The ids of these threads, as `Store.suspect_threads` promises. Keeps one thread in memory."""
    fields: Stage = {"_id": 0, **dict.fromkeys(_ORDER, 1)}
    if is_expiring(layout):
        fields["expires"] = {"$eq": [{"$type": f"${layout.saver.time_field}"}, "date"]}
    stages: list[Stage] = [{"$sort": _ORDER}, {"$project": fields}]
    of_checkpoints: Stage = {**fields, "parent_checkpoint_id": 1, "near": IS_NEAR}
    checkpoints = connection.aggregate(
        layout.checkpoints, [{"$sort": _ORDER}, {"$project": of_checkpoints}]
    )
    writes = iter(()) if layout.writes is None else connection.aggregate(layout.writes, stages)
    known: set[str] = set()
    for own, written in _merged(_by_thread(checkpoints), _by_thread(writes)):
        thread_id = text((own or written)[0].get("thread_id"))
        if thread_id not in known and _is_suspect(own, written):
            known.add(thread_id)
            yield thread_id


def _by_thread(rows: Iterable[Any]) -> Iterator[_Thread]:
    known = (row for row in rows if not is_staged(row.get("thread_id")))
    for order, some in groupby(known, key=lambda row: _order(row.get("thread_id"))):
        yield order, list(some)


def _order(thread_id: object) -> _Order:
    if isinstance(thread_id, int | float) and not isinstance(thread_id, bool):
        return 0, thread_id
    return 1, text(thread_id).encode(errors="surrogateescape")


def _merged(
    left: Iterator[_Thread], right: Iterator[_Thread]
) -> Iterator[tuple[list[Any], list[Any]]]:
    """The rows of each thread from both sides; one of them may be empty."""
    mine, other = next(left, None), next(right, None)
    while mine is not None or other is not None:
        takes_mine = mine is not None and (other is None or mine[0] <= other[0])
        takes_other = other is not None and (mine is None or other[0] <= mine[0])
        yield (mine[1] if takes_mine and mine else []), (other[1] if takes_other and other else [])
        mine = next(left, None) if takes_mine else mine
        other = next(right, None) if takes_other else other


def _is_suspect(checkpoints: Sequence[Any], writes: Sequence[Any]) -> bool:
    there = {(row.get("checkpoint_ns"), row.get("checkpoint_id")) for row in checkpoints}
    for row in checkpoints:
        parent, own = row.get("parent_checkpoint_id"), text(row.get("checkpoint_id"))
        if row["near"]:
            return True
        if parent and ((row.get("checkpoint_ns"), parent) not in there or text(parent) >= own):
            return True
    if len({row.get("expires") for rows in (checkpoints, writes) for row in rows}) > 1:
        return True
    return any((row.get("checkpoint_ns"), row.get("checkpoint_id")) not in there for row in writes)
