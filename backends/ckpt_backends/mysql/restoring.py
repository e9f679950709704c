"""Restores rows in LangGraph's layouts on MySQL and MariaDB, inside a transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ckpt_backends.changes.rows import Cell, Restored, Row, conflict
from ckpt_backends.errors import Unsupported
from ckpt_backends.mysql import sql_write as sql
from ckpt_backends.mysql.connect import MySQLConnection
from ckpt_backends.mysql.layout import HASH, MySQLLayout, MySQLTable, quoted_name
from ckpt_backends.mysql.sql import exact


def restore_rows(connection: MySQLConnection, layout: MySQLLayout, rows: Iterable[Row]) -> Restored:
    """Add the rows that do not exist yet.

    Raises `StoreChanged` if a row exists with different contents, and `Unsupported` if a table
    lacks a column.
    """
    tables = {table.name: table for table in layout.tables}
    added = there = 0
    for row in rows:
        table = tables.get(row.table)
        missing = row.cells.keys() - (table.columns.keys() if table else set())
        if table is None or missing:
            raise Unsupported(
                f"table '{row.table}' has no column '{min(missing)}' here",
                hint="the archive comes from a newer saver: run setup() of that release once",
            )
        cells = _stored(row.cells, table, layout)
        marks = {f"v{place}": cell for place, cell in enumerate(cells.values())}
        columns = ", ".join(map(quoted_name, cells))
        values = ", ".join(f"%({mark})s" for mark in marks)
        query = sql.ADD_ROW.format(table=table.sql, columns=columns, values=values)
        if connection.change(query, marks):
            added += 1
            continue
        same = " AND ".join(
            f"{_compared(name, cell)} <=> %(v{place})s"
            for place, (name, cell) in enumerate(cells.items())
        )
        compared = {
            mark: cell.encode() if isinstance(cell, str) else cell for mark, cell in marks.items()
        }
        ((found,),) = connection.rows(sql.IS_THERE.format(table=table.sql, same=same), compared)
        if not found:
            raise conflict(row.table)
        there += 1
    return Restored(added, there)


def _stored(
    cells: Mapping[str, Cell], table: MySQLTable, layout: MySQLLayout
) -> Mapping[str, Cell]:
    """The cells of a row for inserting it into this table.

    Depending on the release, the server or the saver computes the hash of the namespace. So
    generated columns are left out, and a missing hash is added.
    """
    found = {name: cell for name, cell in cells.items() if not table.columns[name].generated}
    if HASH in table.stored and HASH not in found:
        found[HASH] = layout.ns_key(str(cells["checkpoint_ns"]))
    return found


def _compared(name: str, cell: Cell) -> str:
    """The expression of a column for comparing it with a cell. Text is compared by its bytes."""
    column = f"c.{quoted_name(name)}"
    return exact(column) if isinstance(cell, str) else column
