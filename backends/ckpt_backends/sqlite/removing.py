"""Removes rows from LangGraph's SQLite layout, inside a write transaction."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice

from ckpt_backends.changes.removal import GONE, MOVED, Removal, Removed
from ckpt_backends.checkpoint_ids import time_of
from ckpt_backends.sqlite.binding import TEXT, bind, text

_TABLES = ("writes", "checkpoints")
"""In the order of removal: checkpoints last."""
_AT_ONCE = 500
"""Threads in one query. Old SQLite releases allow at most 999 parameters."""


def remove_threads(connection: sqlite3.Connection, removals: Sequence[Removal]) -> list[Removed]:
    """Remove the planned rows of each thread that has not changed."""
    found: list[Removed] = []
    remaining = iter(removals)
    while some := list(islice(remaining, _AT_ONCE)):
        found += _remove(connection, some)
    return found


def _remove(connection: sqlite3.Connection, removals: Sequence[Removal]) -> Iterator[Removed]:
    states = _states(connection, [one.thread_id for one in removals])
    whole: list[bytes] = []
    for one in removals:
        state = states.get(one.thread_id, (None, 0, 0))
        if one.checkpoints and not state[1]:
            yield Removed(one.thread_id, skipped=GONE)
        elif state != (one.last_at, one.checkpoints, one.writes):
            yield Removed(one.thread_id, skipped=MOVED)
        elif one.inside is None:
            whole.append(bind(one.thread_id))
            yield Removed(one.thread_id, {"checkpoints": state[1], "writes": state[2]})
        else:
            yield Removed(one.thread_id, _remove_inside(connection, one))
    marks = ", ".join([TEXT] * len(whole))
    for table in _TABLES:
        connection.execute(f"DELETE FROM {table} WHERE thread_id IN ({marks})", whole)


def _remove_inside(connection: sqlite3.Connection, removal: Removal) -> Counter[str]:
    rows: Counter[str] = Counter()
    assert removal.inside is not None  # noqa: S101
    for ns, ids in removal.inside.checkpoints.items():
        for checkpoint_id in ids:
            for table in _TABLES:
                done = connection.execute(
                    f"DELETE FROM {table} WHERE thread_id = {TEXT} AND checkpoint_ns = {TEXT}"
                    f" AND checkpoint_id = {TEXT}",
                    [bind(removal.thread_id), bind(ns), bind(checkpoint_id)],
                )
                rows[table] += done.rowcount
    return rows


def _states(
    connection: sqlite3.Connection, thread_ids: Sequence[str]
) -> dict[str, tuple[datetime | None, int, int]]:
    """By thread: time of the newest checkpoint, number of checkpoints and of writes.

    Threads without rows are left out.
    """
    marks = ", ".join([TEXT] * len(thread_ids))
    where = f"WHERE thread_id IN ({marks}) GROUP BY thread_id"
    bound = list(map(bind, thread_ids))
    writes = {
        text(thread): number
        for thread, number in connection.execute(
            f"SELECT thread_id, count(*) FROM writes {where}", bound
        )
    }
    found: dict[str, tuple[datetime | None, int, int]] = {
        thread: (None, 0, number) for thread, number in writes.items()
    }
    for thread, newest, number in connection.execute(
        f"SELECT thread_id, max(checkpoint_id), count(*) FROM checkpoints {where}", bound
    ):
        name = text(thread)
        found[name] = (time_of(text(newest)), number, writes.get(name, 0))
    return found
