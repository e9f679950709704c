"""The rows of a SQLite store as they are stored, and how a test changes them."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias

Rows: TypeAlias = frozenset[tuple[object, ...]]


def change(path: Path, statement: str, *values: object) -> list[Any]:
    """Run a statement on a store; return the rows that it gives."""
    with closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(statement, values).fetchall()


def rows_of(path: Path) -> Rows:
    """Return all rows of threads and of memory, each with its table; none if there is no store."""
    if not path.exists():
        return frozenset()
    found: set[tuple[object, ...]] = set()
    with closing(sqlite3.connect(path)) as connection:
        for table in ("checkpoints", "writes", "store"):
            try:
                found |= {(table, *row) for row in connection.execute(f"SELECT * FROM {table}")}
            except sqlite3.OperationalError:  # it is not made yet
                continue
    return frozenset(found)
