"""Removes rows of LangGraph's layouts on MySQL and MariaDB, inside a transaction.

A saver stores a checkpoint without checking that the values it names still exist. So no saver may
write to a thread between the check of the thread and its removal. The rows of the thread are read
with FOR UPDATE, which locks them and the gaps for new rows. The tables are locked in the same order
as in the saver's `put`, to avoid deadlocks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ckpt_backends.changes.removal import GONE, MOVED, Inside, Removal, Removed
from ckpt_backends.checkpoint_ids import time_of
from ckpt_backends.mysql import sql_write as sql
from ckpt_backends.mysql.connect import MySQLConnection
from ckpt_backends.mysql.layout import MySQLLayout, MySQLTable, bound, storable
from ckpt_backends.mysql.sql import SHALLOW_ID, exact
from ckpt_backends.sql.blob_tables import BLOBS, CHECKPOINTS, WRITES
from ckpt_backends.sql.store import chunks

_IDS_AT_ONCE = 500


def remove_threads(
    connection: MySQLConnection, layout: MySQLLayout, removals: Sequence[Removal]
) -> list[Removed]:
    """Remove the planned rows of each thread that has not changed."""
    asked = sorted({one.thread_id for one in removals if storable(one.thread_id)})
    blobs = _state(connection, layout.blobs, asked)
    newest = f"MAX({SHALLOW_ID if layout.shallow else 'c.checkpoint_id'})"
    checkpoints = _state(connection, layout.checkpoints, asked, newest)
    writes = _state(connection, layout.writes, asked)
    none = (0, None)
    done = []
    for one in removals:
        rows, newest_id = checkpoints.get(one.thread_id, none)
        state = (time_of(newest_id or ""), rows, writes.get(one.thread_id, none)[0])
        if one.checkpoints and not rows:
            done.append(Removed(one.thread_id, skipped=GONE))
        elif state != (one.last_at, one.checkpoints, one.writes):
            done.append(Removed(one.thread_id, skipped=MOVED))
        elif one.inside is not None:
            done.append(Removed(one.thread_id, _remove_inside(connection, layout, one)))
        else:
            counts = {
                WRITES: writes.get(one.thread_id, none)[0],
                BLOBS: blobs.get(one.thread_id, none)[0],
                CHECKPOINTS: rows,
            }
            for table, number in zip(
                (layout.writes, layout.blobs, layout.checkpoints), counts.values(), strict=True
            ):
                if number:
                    condition, values = _thread(table, one.thread_id)
                    query = sql.REMOVE_THREAD.format(table=table.sql, thread=condition)
                    connection.change(query, values)
            done.append(Removed(one.thread_id, {k: v for k, v in counts.items() if v}))
    return done


def _state(
    connection: MySQLConnection, table: MySQLTable, threads: Sequence[str], newest: str = "NULL"
) -> dict[str, tuple[int, str | None]]:
    """By thread, its number of rows and newest checkpoint.

    The rows are locked until the end of the transaction.
    """
    found: dict[str, tuple[int, str | None]] = {}
    for chunk in chunks(threads, _IDS_AT_ONCE):
        marks = {f"t{n}": one for n, one in enumerate(chunk)}
        columns = [bound(f"%({mark})s", table.columns["thread_id"]) for mark in marks]
        query = sql.STATE.format(table=table.sql, newest=newest, threads=", ".join(columns))
        for thread, number, last in connection.rows(query, marks):
            found[thread.decode()] = (number, last)
    return found


def _remove_inside(
    connection: MySQLConnection, layout: MySQLLayout, removal: Removal
) -> Mapping[str, int]:
    """Remove some checkpoints of a thread with their writes, and some values."""
    assert removal.inside is not None  # noqa: S101
    rows: Counter[str] = Counter()
    own_id = SHALLOW_ID if layout.shallow else "c.checkpoint_id"
    for table, column, places in (
        (layout.writes, "c.checkpoint_id", _checkpoints(removal.inside)),
        (layout.blobs, "c.version", _versions(removal.inside)),
        (layout.checkpoints, own_id, _checkpoints(removal.inside)),
    ):
        condition, values = _thread(table, removal.thread_id)
        for ns, channel, wanted in places:
            where = condition if channel is None else f"{condition} AND c.channel = %(channel)s"
            query = sql.REMOVE_SOME.format(
                table=table.sql, thread=where, ns=layout.ns, column=column
            )
            for chunk in chunks(filter(storable, wanted), _IDS_AT_ONCE):
                place = {"ns_key": layout.ns_key(ns), "channel": channel, "values": tuple(chunk)}
                rows[table.name] += connection.change(query, {**values, **place})
    return {name: number for name, number in rows.items() if number}


def _checkpoints(inside: Inside) -> Iterator[tuple[str, None, Sequence[str]]]:
    for ns, ids in inside.checkpoints.items():
        if storable(ns):
            yield ns, None, ids


def _versions(inside: Inside) -> Iterator[tuple[str, str, Sequence[str]]]:
    found: dict[tuple[str, str], list[str]] = {}
    for blob in inside.blobs:
        found.setdefault((blob.checkpoint_ns, blob.channel), []).append(blob.version)
    for (ns, channel), versions in found.items():
        if storable(ns + channel):
            yield ns, channel, versions


def _thread(table: MySQLTable, thread_id: str) -> tuple[str, dict[str, Any]]:
    """The condition for rows of exactly this thread, and its parameters."""
    mark = bound("%(thread)s", table.columns["thread_id"])
    condition = f"c.thread_id = {mark} AND {exact('c.thread_id')} = %(exact)s"
    return condition, {"thread": thread_id, "exact": thread_id.encode()}
