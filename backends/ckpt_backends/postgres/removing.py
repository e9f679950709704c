"""Removes rows of LangGraph's PostgreSQL layouts, inside a transaction.

A saver stores a checkpoint without checking that the values it names still exist. So no saver may
write between the check of a thread and its removal: the tables are locked against writers. They are
locked in the same order as in the saver's `put`, to avoid deadlocks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from ckpt_backends.changes.removal import GONE, MOVED, Inside, Removal, Removed
from ckpt_backends.checkpoint_ids import time_of
from ckpt_backends.postgres import sql_write as sql
from ckpt_backends.postgres.connect import PostgresConnection
from ckpt_backends.postgres.layout import storable
from ckpt_backends.sql.blob_tables import BLOBS, CHECKPOINTS, WRITES

_TABLES = {"writes": WRITES, "blobs": BLOBS, "checkpoints": CHECKPOINTS}


def remove_threads(
    connection: PostgresConnection, names: Mapping[str, str], removals: Sequence[Removal]
) -> list[Removed]:
    """Remove the planned rows of each thread that has not changed."""
    connection.change(sql.LOCK_TABLES.format(**names))
    skipped = _changed(connection, names, removals)
    planned = [one for one in removals if one.thread_id not in skipped]
    rows: dict[str, Counter[str]] = {one.thread_id: Counter() for one in planned}
    whole = [one.thread_id for one in planned if one.inside is None]
    inside = {one.thread_id: one.inside for one in planned if one.inside is not None}
    for name, table in _TABLES.items():
        found = connection.rows(sql.REMOVE_THREADS.format(table=names[name]), {"threads": whole})
        where = _values(inside) if name == "blobs" else _keys(inside)
        # Values of the shallow layout have no version, so plans never contain them.
        if where["threads"]:
            query = sql.REMOVE_VALUES if name == "blobs" else sql.REMOVE_KEYS
            own_id = names["own_id"] if name == "checkpoints" else "c.checkpoint_id"
            found += connection.rows(query.format(table=names[name], id=own_id), where)
        for thread_id, number in found:
            rows[thread_id][table] += number
    return [
        Removed(one.thread_id, skipped=skipped[one.thread_id])
        if one.thread_id in skipped
        else Removed(one.thread_id, rows[one.thread_id])
        for one in removals
    ]


def _changed(
    connection: PostgresConnection, names: Mapping[str, str], removals: Sequence[Removal]
) -> dict[str, str]:
    """By thread, the reason to skip it because it changed since the removal was planned."""
    ids = [one.thread_id for one in removals if storable(one.thread_id)]
    found = {
        thread_id: (time_of(newest or ""), checkpoints, writes)
        for thread_id, newest, checkpoints, writes in connection.rows(
            sql.STATE_OF_THREADS.format(**names), {"threads": ids}
        )
    }
    skipped = {}
    for one in removals:
        state = found.get(one.thread_id, (None, 0, 0))
        if one.checkpoints and not state[1]:
            skipped[one.thread_id] = GONE
        elif state != (one.last_at, one.checkpoints, one.writes):
            skipped[one.thread_id] = MOVED
    return skipped


def _keys(inside: Mapping[str, Inside]) -> dict[str, list[str]]:
    """The keys of the checkpoints to remove, as one list for each column."""
    return _columns(
        ("threads", "ns", "ids"),
        (
            (thread_id, ns, checkpoint_id)
            for thread_id, one in inside.items()
            for ns, ids in one.checkpoints.items()
            for checkpoint_id in ids
        ),
    )


def _values(inside: Mapping[str, Inside]) -> dict[str, list[str]]:
    """The keys of the values to remove, as one list for each column."""
    return _columns(
        ("threads", "ns", "channels", "versions"),
        (
            (thread_id, blob.checkpoint_ns, blob.channel, blob.version)
            for thread_id, one in inside.items()
            for blob in one.blobs
        ),
    )


def _columns(names: Sequence[str], rows: Iterator[tuple[str, ...]]) -> dict[str, list[str]]:
    kept = [row for row in rows if all(map(storable, row))]
    return {name: [row[place] for row in kept] for place, name in enumerate(names)}
