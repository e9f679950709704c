"""Erases removed rows from a SQLite file, its write-ahead log and its journal.

Rows are overwritten with zeros when they are removed (`secure_delete`). Pages that an application
freed without that are left out when VACUUM writes the file anew.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from ckpt_backends.changes.progress import Progress
from ckpt_backends.changes.remains import BACKUPS, FREED_BLOCKS, Remaining, Remains
from ckpt_backends.sqlite.journals import log_of, truncate_log

_SAMPLES = ("sqlite_stat3", "sqlite_stat4")
"""Tables in which ANALYZE stores keys of some rows."""


def erase_remains(connection: sqlite3.Connection, path: Path, progress: Progress) -> Remains:
    """Write the file anew and empty its log. Raises `sqlite3.Error` if it cannot be read."""
    ((mode,),) = connection.execute("PRAGMA journal_mode").fetchall()
    ((secure,),) = connection.execute("PRAGMA secure_delete").fetchall()
    done = ["secure_delete=ON"] if secure == 1 else []
    places: list[Remaining] = []
    for statement in ["ANALYZE", "VACUUM"] if _has_samples(connection) else ["VACUUM"]:
        progress(statement)
        try:
            connection.execute(statement)
            done.append(statement)
        except sqlite3.Error as error:
            reason = f"{statement} failed: {error}"
            places.append(Remaining(f"'{path.name}'", reason, is_reachable=True))
    if mode == "wal":
        # VACUUM has written to the log, too.
        statement = "wal_checkpoint(TRUNCATE)"
        progress(statement)
        if why := truncate_log(connection):
            where = f"'{path.name}' and '{log_of(path).name}'"
            places.append(Remaining(where, f"{statement} failed: {why}", is_reachable=True))
        else:
            done.append(statement)
    return Remains(tuple(done), (*places, FREED_BLOCKS, BACKUPS))


def _has_samples(connection: sqlite3.Connection) -> bool:
    marks = ", ".join("?" * len(_SAMPLES))
    query = f"SELECT 1 FROM sqlite_master WHERE name IN ({marks})"
    return bool(connection.execute(query, _SAMPLES).fetchall())
