"""Restores rows in LangGraph's PostgreSQL layouts, inside a transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ckpt_backends.changes.rows import Cell, Restored, Row, conflict
from ckpt_backends.errors import Unsupported
from ckpt_backends.postgres import sql_write as sql
from ckpt_backends.postgres.connect import PostgresConnection
from ckpt_backends.postgres.layout import PostgresTable, quoted_name


def restore_rows(
    connection: PostgresConnection, tables: Mapping[str, PostgresTable], rows: Iterable[Row]
) -> Restored:
    """Add the rows that do not exist yet.

    Raises `StoreChanged` if a row exists with different contents, and `Unsupported` if a table
    lacks a column.
    """
    added = there = 0
    for row in rows:
        table = tables.get(row.table)
        missing = row.cells.keys() - (table.columns.keys() if table else set())
        if table is None or missing:
            raise Unsupported(
                f"table '{row.table}' has no column '{min(missing)}' here",
                hint="the archive comes from a newer saver: run setup() of that release once",
            )
        name = table.sql.replace("%", "%%")
        cast = {
            column: f"%({mark})s::{_written(cell, table.columns[column])}"
            for mark, (column, cell) in _marked(row.cells)
        }
        bound = {mark: cell for mark, (_, cell) in _marked(row.cells)}
        columns = ", ".join(quoted_name(column).replace("%", "%%") for column in cast)
        values = ", ".join(cast.values())
        if connection.change(sql.ADD_ROW.format(table=name, columns=columns, values=values), bound):
            added += 1
            continue
        same = " AND ".join(
            f"{_comparable(quoted_name(column).replace('%', '%%'), table.columns[column])}"
            f" IS NOT DISTINCT FROM {_comparable(value, table.columns[column])}"
            for column, value in cast.items()
        )
        ((found,),) = connection.rows(sql.IS_THERE.format(table=name, same=same), bound)
        if not found:
            raise conflict(row.table)
        there += 1
    return Restored(added, there)


def _marked(cells: Mapping[str, Cell]) -> Iterable[tuple[str, tuple[str, Cell]]]:
    """Each cell with a safe name for its parameter; a column may have any name."""
    return [(f"v{place}", item) for place, item in enumerate(cells.items())]


def _written(cell: Cell, kind: str) -> str:
    """The cast of a cell to the type of its column."""
    return f"text::{kind}" if isinstance(cell, str) else kind


def _comparable(value: str, kind: str) -> str:
    """The expression to compare a value.

    Types of extensions are compared as text, so that no operator of an extension is called.
    """
    return f"{value}::text" if "." in kind else value
