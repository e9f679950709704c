"""Restores rows in LangGraph's SQLite layout, inside a write transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from ckpt_backends.changes.rows import Cell, Restored, Row, conflict
from ckpt_backends.errors import Unsupported
from ckpt_backends.sqlite.binding import TEXT, bind, quoted_name
from ckpt_backends.sqlite.layout import tables_of


def restore_rows(connection: sqlite3.Connection, rows: Iterable[Row]) -> Restored:
    """Add the rows that do not exist yet.

    Raises `StoreChanged` if a row exists with different contents, and `Unsupported` if a table
    lacks a column.
    """
    tables = tables_of(connection)
    added = there = 0
    for row in rows:
        missing = row.cells.keys() - tables.get(row.table, set())
        if missing:
            raise Unsupported(
                f"cannot restore: table '{row.table}' has no column '{min(missing)}'",
                hint="open the store once with the saver that wrote the archive",
            )
        names = ", ".join(map(quoted_name, row.cells))
        marks = ", ".join(map(_mark, row.cells.values()))
        bound = [_bound(cell) for cell in row.cells.values()]
        done = connection.execute(
            f"INSERT OR IGNORE INTO {quoted_name(row.table)} ({names}) VALUES ({marks})", bound
        )
        if done.rowcount:
            added += 1
        elif _is_there(connection, row, bound):
            there += 1
        else:
            raise conflict(row.table)
    return Restored(added, there)


def _is_there(connection: sqlite3.Connection, row: Row, bound: list[Cell]) -> bool:
    same = " AND ".join(f"{quoted_name(name)} IS {_mark(cell)}" for name, cell in row.cells.items())
    found = connection.execute(f"SELECT 1 FROM {quoted_name(row.table)} WHERE {same}", bound)
    return found.fetchone() is not None


def _mark(cell: Cell) -> str:
    return TEXT if isinstance(cell, str) else "?"


def _bound(cell: Cell) -> Cell:
    return bind(cell) if isinstance(cell, str) else cell
