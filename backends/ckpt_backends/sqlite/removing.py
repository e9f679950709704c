"""Removing rows of LangGraph's SQLite layout, inside a write transaction."""

from __future__ import annotations

import sqlite3
from collections import Counter

from ckpt_backends.ids import time_of
from ckpt_backends.removal import GONE, MOVED, Removal, Removed
from ckpt_backends.sqlite.binding import TEXT, bind, text

_THREAD = f"thread_id = {TEXT}"
_TABLES = ("writes", "checkpoints")
"""The head goes last."""


def remove_thread(connection: sqlite3.Connection, removal: Removal) -> Removed:
    """Remove what is planned of a thread; nothing where it changed since."""
    thread = bind(removal.thread_id)
    why = _changed(connection, thread, removal)
    if why:
        return Removed(removal.thread_id, skipped=why)
    rows: Counter[str] = Counter()
    if removal.inside is None:
        for table in _TABLES:
            done = connection.execute(f"DELETE FROM {table} WHERE {_THREAD}", [thread])
            rows[table] += done.rowcount
    else:
        for ns, ids in removal.inside.checkpoints.items():
            for checkpoint_id in ids:
                for table in _TABLES:
                    done = connection.execute(
                        f"DELETE FROM {table} WHERE {_THREAD} AND checkpoint_ns = {TEXT}"
                        f" AND checkpoint_id = {TEXT}",
                        [thread, bind(ns), bind(checkpoint_id)],
                    )
                    rows[table] += done.rowcount
    return Removed(removal.thread_id, rows)


def _changed(connection: sqlite3.Connection, thread: bytes, removal: Removal) -> str:
    """Why a thread is not as it was; `''` if it is."""
    ((newest, checkpoints),) = connection.execute(
        f"SELECT max(checkpoint_id), count(*) FROM checkpoints WHERE {_THREAD}", [thread]
    ).fetchall()
    if removal.checkpoints and not checkpoints:
        return GONE
    ((writes,),) = connection.execute(
        f"SELECT count(*) FROM writes WHERE {_THREAD}", [thread]
    ).fetchall()
    found = (time_of(text(newest)), checkpoints, writes)
    return "" if found == (removal.last_at, removal.checkpoints, removal.writes) else MOVED
