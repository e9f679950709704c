"""The rows of a SQLite store as they are stored."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TypeAlias

Rows: TypeAlias = frozenset[tuple[object, ...]]


def rows_of(path: Path) -> Rows:
    """Return all rows of threads, each with its table; none if there is no store."""
    if not path.exists():
        return frozenset()
    found: set[tuple[object, ...]] = set()
    with closing(sqlite3.connect(path)) as connection:
        for table in ("checkpoints", "writes"):
            try:
                found |= {(table, *row) for row in connection.execute(f"SELECT * FROM {table}")}
            except sqlite3.OperationalError:  # it is not made yet
                continue
    return frozenset(found)
