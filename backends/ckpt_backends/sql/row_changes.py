"""Adds, copies and removes rows of some tables, over the dialect of an engine.

Names of tables and columns are part of a query; all cells are parameters.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from ckpt_backends.rows import Restored, Row, check_columns, conflict
from ckpt_backends.sql.database import Database, QueryRow, WritableDatabase

Where = Mapping[str, object]
"""By column (or expression), the cell that a row must have, or a list of such cells."""
_INSERT = "INSERT INTO {table} ({columns}) VALUES ({values})"


class RowChanges:
    """Changes the rows of some tables, inside a transaction of the database."""

    def __init__(
        self,
        database: WritableDatabase,
        names: Mapping[str, str],
        columns: Mapping[str, Collection[str]],
    ) -> None:
        """`names` has for each table its quoted name, `columns` the columns that can be written."""
        self._database = database
        self._names = names
        self._columns = columns

    def select(self, table: str, listed: str, where: Where, end: str = "") -> list[QueryRow]:
        """These expressions of some rows."""
        only, values = condition(self._database, where)
        query = f"SELECT {listed} FROM {self._names[table]} WHERE {only} {end}"
        return self._database.rows(query, values)

    def add(self, table: str, cells: Mapping[str, object]) -> None:
        """Add a row; cells without a column are left out."""
        kept = {name: cell for name, cell in cells.items() if name in self._columns[table]}
        self._insert(table, kept)

    def restore(
        self, rows: Iterable[Row], keys: Mapping[str, Collection[str]] | None = None
    ) -> Restored:
        """Add the archived rows that do not exist yet.

        `keys` has for each table the columns that identify a row; by default, a unique index of the
        table does. Raises `StoreChanged` if a row exists with different contents, and `Refused` or
        `Unsupported` if a table or a column is missing.
        """
        added = there = 0
        for row in rows:
            check_columns(row, self._columns, ())
            if self._is_new(row, keys):
                added += 1
            else:
                there += 1
        return Restored(added, there)

    def _is_new(self, row: Row, keys: Mapping[str, Collection[str]] | None) -> bool:
        """Add a row unless it exists. Returns whether it was added."""
        if keys is None:
            is_new = bool(self._insert(row.table, row.cells, self._database.insert_missing))
        elif is_new := not self._exists(row, row.cells.keys() & keys[row.table]):
            self._insert(row.table, row.cells)
        if not is_new and not self._exists(row, row.cells):
            raise conflict(row.table)
        return is_new

    def _exists(self, row: Row, columns: Collection[str]) -> bool:
        """Whether there is a row that has these cells of an archived one."""
        marks = {column: f"v{n}" for n, column in enumerate(sorted(columns))}
        same = " AND ".join(
            self._database.is_given(row.table, column, mark, row.cells[column])
            for column, mark in marks.items()
        )
        values = {
            mark: bound_cell(self._database, row.cells[column]) for column, mark in marks.items()
        }
        query = f"SELECT 1 FROM {self._names[row.table]} WHERE {same} LIMIT 1"
        return bool(self._database.rows(query, values))

    def copy(self, table: str, new: Mapping[str, object], where: Where) -> int:
        """Copy rows with some cells replaced. Returns the number of copied rows."""
        only, values = condition(self._database, where)
        columns = {name: self._database.quoted(name) for name in self._columns[table]}
        selected = columns.copy()
        for name in new.keys() & columns.keys():
            selected[name] = self._database.given(table, name, f"new_{name}", new[name])
            values[f"new_{name}"] = bound_cell(self._database, new[name])
        listed, chosen = ", ".join(columns.values()), ", ".join(selected.values())
        source = self._names[table]
        return self._database.change(
            f"INSERT INTO {source} ({listed}) SELECT {chosen} FROM {source} WHERE {only}", values
        )

    def remove(self, table: str, where: Where) -> int:
        """Remove rows. Returns the number of removed rows."""
        only, values = condition(self._database, where)
        return self._database.change(f"DELETE FROM {self._names[table]} WHERE {only}", values)

    def replace(self, stored: Row, new: Row) -> bool:
        """Replace cells of a row. Returns whether it was still as it was read."""
        named = {column: f"v{n}" for n, column in enumerate(stored.cells)}
        same = " AND ".join(
            self._database.is_given(stored.table, column, mark, stored.cells[column])
            for column, mark in named.items()
        )
        values = {
            mark: bound_cell(self._database, stored.cells[column]) for column, mark in named.items()
        }
        given = []
        for column, cell in new.cells.items():
            if cell != stored.cells[column]:
                mark = f"new_{named[column]}"
                placeholder = self._database.given(stored.table, column, mark, cell)
                given.append(f"{self._database.quoted(column)} = {placeholder}")
                values[mark] = bound_cell(self._database, cell)
        query = f"UPDATE {self._names[stored.table]} SET {', '.join(given)} WHERE {same}"
        return self._database.change(query, values) == 1

    def _insert(self, table: str, cells: Mapping[str, object], form: str = _INSERT) -> int:
        marks = {column: f"v{n}" for n, column in enumerate(cells)}
        query = form.format(
            table=self._names[table],
            columns=", ".join(map(self._database.quoted, cells)),
            values=", ".join(
                self._database.given(table, column, marks[column], cell)
                for column, cell in cells.items()
            ),
        )
        values = {marks[column]: bound_cell(self._database, cell) for column, cell in cells.items()}
        return self._database.change(query, values)


def condition(database: Database, where: Where, name: str = "w") -> tuple[str, dict[str, object]]:
    """The condition on rows, and its parameters; their names begin with `name`."""
    parts: list[str] = []
    values: dict[str, object] = {}
    for n, (column, cell) in enumerate(where.items()):
        mark = f"{name}{n}_"
        if isinstance(cell, list):
            part, bound = database.among(column, mark, cell)
            values.update(bound)
        else:
            is_text = isinstance(cell, str)
            part = database.same(column, mark) if is_text else f"{column} = {database.mark(mark)}"
            values[mark] = bound_cell(database, cell)
        parts.append(part)
    return " AND ".join(parts), values


def bound_cell(database: Database, cell: object) -> object:
    """A cell in the form in which the driver needs it as a parameter."""
    return database.bound(cell) if isinstance(cell, str) else cell
