"""Changes the tables of LangGraph's savers, with one transaction for each change.

The engine's lock prevents two changes of the same thread at the same time. Savers need not take
that lock, so before the commit the transaction checks that no saver has added a checkpoint. Columns
are always named, because their order differs between releases of the savers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from operator import attrgetter
from typing import ClassVar

from ckpt_backends.changes import Change, Remaining, Remains, moved
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import CheckpointKey, Kind, Progress, Record, in_chunks, silent, time_of
from ckpt_backends.records import (
    CopyTarget,
    Heads,
    NamespaceState,
    RecordStore,
    Rows,
    ThreadState,
    Where,
    check_numbers,
)
from ckpt_backends.rows import Cell, Restored, Row, RowEdit, check_columns, conflict
from ckpt_backends.servers import CHANGES, checked
from ckpt_backends.sql.database import (
    Condition,
    Loaded,
    QueryRow,
    RowRefused,
    WritableDatabase,
    condition,
    text,
)
from ckpt_backends.sql.records import RECORDS
from ckpt_backends.sql.tables import SqlTable, SqlTables
from ckpt_backends.transfer.copying import record_size
from ckpt_backends.transfer.form import CannotHold
from ckpt_backends.url import StoreUrl

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

    def select(self, table: str, listed: str, where: Condition, end: str = "") -> list[QueryRow]:
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
        same, values = self._same(row.table, {name: row.cells[name] for name in columns})
        query = f"SELECT 1 FROM {self._names[row.table]} WHERE {same} LIMIT 1"
        return bool(self._database.rows(query, values))

    def _same(self, table: str, cells: Mapping[str, Cell]) -> tuple[str, dict[str, object]]:
        """The condition that a row has all these cells, and its parameters."""
        named = {f"v{n}": (column, cells[column]) for n, column in enumerate(cells)}
        same = (
            self._database.is_given(table, one, mark, cell) for mark, (one, cell) in named.items()
        )
        return " AND ".join(same), {
            mark: self._database.bound(cell) for mark, (_, cell) in named.items()
        }

    def copy(self, table: str, new: Mapping[str, object], where: Condition) -> int:
        """Copy rows with some cells replaced. Returns the number of copied rows."""
        only, values = condition(self._database, where)
        columns = {name: self._database.quoted(name) for name in self._columns[table]}
        selected = columns.copy()
        for name in new.keys() & columns.keys():
            selected[name] = self._database.given(table, name, f"new_{name}", new[name])
            values[f"new_{name}"] = self._database.bound(new[name])
        listed, chosen = ", ".join(columns.values()), ", ".join(selected.values())
        source = self._names[table]
        return self._database.change(
            f"INSERT INTO {source} ({listed}) SELECT {chosen} FROM {source} WHERE {only}", values
        )

    def remove(self, table: str, where: Condition) -> int:
        """Remove rows. Returns the number of removed rows."""
        only, values = condition(self._database, where)
        return self._database.change(f"DELETE FROM {self._names[table]} WHERE {only}", values)

    def replace(self, stored: Row, new: Row) -> bool:
        """Replace cells of a row. Returns whether it was still as it was read."""
        same, values = self._same(stored.table, stored.cells)
        given = []
        for n, (column, cell) in enumerate(new.cells.items()):
            if cell != stored.cells[column]:
                placeholder = self._database.given(stored.table, column, f"new{n}", cell)
                given.append(f"{self._database.quoted(column)} = {placeholder}")
                values[f"new{n}"] = self._database.bound(cell)
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
        values = {marks[column]: self._database.bound(cell) for column, cell in cells.items()}
        return self._database.change(query, values)


# Adds the records of threads to the tables of LangGraph's savers, many rows with one statement.


_BYTES, _ROWS = 4 << 20, 5000
"""Values and rows that are kept for each table before they are sent."""
_OF_ROW = 100
"""Approximate bytes of the keys of a row."""


_CELLS = {
    **{one: f"key.{one}" for one in CheckpointKey._fields},
    **{one: one for one in ("task_id", "idx", "task_path", "channel", "version")},
    **dict.fromkeys(("checkpoint", "blob", "value"), "value.data"),
    **{"parent_checkpoint_id": "parent", "type": "value.type", "metadata": "metadata.data"},
}
"""By the name of a column, what of a record is its cell."""


class UnsentRows:
    """Rows of one table that are not sent yet."""

    def __init__(self, database: WritableDatabase, table: SqlTable, columns: Sequence[str]) -> None:
        self.columns = columns
        self.size = 0
        self._database = database
        self._table = table
        self._rows: list[Loaded] = []

    def add(self, row: Loaded, size: int) -> None:
        """Add a row with this size of its values, and send all rows if they are enough."""
        self._rows.append(row)
        self.size += size + _OF_ROW
        if self.size > _BYTES or len(self._rows) >= _ROWS:
            self.send()

    def send(self) -> None:
        """Send the rows that were added. Raises `CannotHold` if the engine refuses one."""
        rows, self._rows, self.size = self._rows, [], 0
        if not rows:
            return
        try:
            self._database.load(self._table.name, self._table.sql, self.columns, rows)
        except RowRefused as error:
            raise CannotHold(f"{self._place(error.row)} cannot be stored: {error}") from None

    def _place(self, row: Loaded) -> str:
        cells = dict(zip(self.columns, row, strict=False))
        if "task_id" in cells:
            return f"the write to '{cells['channel']}' at checkpoint '{cells['checkpoint_id']}'"
        if "checkpoint_id" in cells:
            return f"checkpoint '{cells['checkpoint_id']}'"
        return f"version '{cells['version']}' of channel '{cells['channel']}'"


# The rows of threads inside a transaction.
#
# A saver stores a checkpoint without checking that the values it names still exist. So no saver
# may write to a thread between the check of the thread and its removal:
# `transaction(exclusive=True)` and `lock_rows` of the engine prevent that. The tables are locked
# in the order of the saver's `put`, to avoid deadlocks.


class SqlRows(Rows):
    """Rows in the tables of a saver."""

    def __init__(
        self,
        database: WritableDatabase,
        rows: RowChanges,
        tables: SqlTables,
        url: StoreUrl,
        check: Callable[[Sequence[str]], None],
    ) -> None:
        """`check` raises `CannotHold` if the saver would mix one of these threads with another."""
        self._database = database
        self._rows = rows
        self._tables = tables
        self._url = url
        self._check = check
        blobs = {Kind.VALUE: tables.blobs.name} if tables.blobs else {}
        checkpoints = {Kind.CHECKPOINT: tables.checkpoints.name}
        self.tables = {Kind.WRITE: tables.writes.name, **blobs, **checkpoints}
        self._in_order = {**blobs, **checkpoints, Kind.WRITE: tables.writes.name}

    def heads(self, thread_ids: Sequence[str]) -> Heads:
        found: dict[str, dict[str, NamespaceState]] = {}
        thread, ns = map(self._database.exact, ("thread_id", "checkpoint_ns"))
        for some in in_chunks(thread_ids):
            rows = self._rows.select(
                self.tables[Kind.CHECKPOINT],
                f"{thread} AS thread, {ns} AS ns, max(checkpoint_id), count(*)",
                {"thread_id": some},
                "GROUP BY thread, ns",
            )
            for one, space, head, number in rows:
                found.setdefault(text(one), {})[text(space)] = NamespaceState(text(head), number)
        return found

    def states(self, thread_ids: Sequence[str]) -> Mapping[str, ThreadState]:
        ids = list(filter(self._database.storable, thread_ids))
        found: dict[str, dict[Kind, int]] = {}
        newest: dict[str, str] = {}
        exact = self._database.exact
        for kind, table in self._in_order.items() if ids else ():
            own = f"max({exact(self._tables.own_id)})" if kind is Kind.CHECKPOINT else "NULL"
            rows = self._rows.select(
                table,
                f"{exact('thread_id')} AS thread, count(*), {own}",
                {"thread_id": ids},
                f"GROUP BY thread {self._database.lock_rows}",
            )
            for thread, number, last in rows:
                found.setdefault(text(thread), {})[kind] = number
                newest[text(thread)] = text(last) or newest.get(text(thread), "")
        return {one: ThreadState(time_of(newest[one]), rows) for one, rows in found.items()}

    def count(self, kind: Kind, where: Where) -> int:
        table = self.tables[kind]
        found = (self._rows.select(table, "count(*)", one) for one in self._conditions(kind, where))
        return sum(number for ((number,),) in found)

    def add(self, records: Iterable[Record]) -> None:
        unsent = self._unsent()
        hashed = cache(lambda ns: tuple(self._hashed(ns).values()))
        for record in records:
            if record.task_path and not self._tables.task_path:
                raise Unsupported(
                    f"'{self._url}' has no column for the task paths of writes",
                    hint="run setup() of the newest saver once; it adds the column",
                )
            rows, cells_of = unsent[record.kind]
            cells = cells_of(record)
            if record.kind is Kind.VALUE and record.value.type == "empty":
                cells = (*cells[:-1], None)
            rows.add((*cells, *hashed(record.key.checkpoint_ns)), record_size(record))
        for rows, _ in unsent.values():
            rows.send()

    def _unsent(self) -> dict[Kind, tuple[UnsentRows, Callable[[Record], Loaded]]]:
        """By kind, the rows of its table, and what takes their cells from a record.

        Checkpoints come last: they make the rest visible.
        """
        tables = {Kind.VALUE: self._tables.blobs} if self._tables.blobs else {}
        tables |= {Kind.WRITE: self._tables.writes, Kind.CHECKPOINT: self._tables.checkpoints}
        found: dict[Kind, tuple[UnsentRows, Callable[[Record], Loaded]]] = {}
        for kind, table in tables.items():
            names = [one for one in RECORDS[table.name].columns if one in table.columns]
            if kind is Kind.CHECKPOINT and self._tables.blobs:
                names.remove("type")  # bodies are JSON
            rows = UnsentRows(self._database, table, (*names, *self._hashed("")))
            found[kind] = rows, attrgetter(*map(_CELLS.__getitem__, names))
        return found

    def _hashed(self, checkpoint_ns: str) -> dict[str, object]:
        """The cells of a row that are computed from its namespace, unless the engine does it."""
        columns = self._tables.checkpoints.columns.keys() - {"checkpoint_ns"}
        found = self._tables.namespace(checkpoint_ns).items()
        return {name: cell for name, cell in found if name in columns}

    def copy(self, kind: Kind, where: Where, target: CopyTarget) -> int:
        new: dict[str, object] = {"thread_id": target.thread_id}
        if target.checkpoint_id is not None:
            new["checkpoint_id"] = target.checkpoint_id
        for name, value in (("checkpoint", target.body), ("metadata", target.metadata)):
            if value is not None:
                new[name] = value.data.decode() if self._tables.blobs else value.data
        if target.body is not None:
            new["type"] = target.body.type
        return self._changed(kind, where, lambda table, one: self._rows.copy(table, new, one))

    def remove(self, kind: Kind, where: Where) -> int:
        return self._changed(kind, where, self._rows.remove)

    def named(self, where: Where) -> Iterator[tuple[str, str]]:
        if self._tables.blobs is None:
            return
        versions = self._database.json_member("checkpoint", "channel_versions")
        for one in self._conditions(Kind.CHECKPOINT, where):
            for (found,) in self._rows.select(self.tables[Kind.CHECKPOINT], versions, one):
                named = json.loads(text(found) or "null")
                if isinstance(named, dict):
                    yield from ((channel, str(version)) for channel, version in named.items())

    def confirm(self, before: Heads, added: Mapping[tuple[str, str], int]) -> None:
        self._check(list(before))
        check_numbers(before, self.heads(list(before)), added)

    def _changed(
        self, kind: Kind, where: Where, change: Callable[[str, Mapping[str, object]], int]
    ) -> int:
        if kind not in self.tables:
            return 0
        return sum(change(self.tables[kind], one) for one in self._conditions(kind, where))

    def _conditions(self, kind: Kind, where: Where) -> Iterator[dict[str, object]]:
        """The cells of rows, in conditions that are short enough for one statement each."""
        storable = self._database.storable
        texts = (where.checkpoint_ns or "", where.channel or "")
        threads = list(filter(storable, where.thread_ids))
        if not (threads and all(map(storable, texts))):
            return
        found: dict[str, object] = {"thread_id": _one_or_all(threads)}
        if where.checkpoint_ns is not None:
            found |= self._tables.namespace(where.checkpoint_ns)
        if where.channel is not None:
            found["channel"] = where.channel
        column, wanted = "checkpoint_id", where.checkpoint_ids
        if kind is Kind.CHECKPOINT:
            column = self._tables.own_id
        elif kind is Kind.VALUE:
            column, wanted = "version", where.versions
        if wanted is None:
            yield found
            return
        for some in in_chunks(filter(storable, wanted)):
            place = {**found, column: _one_or_all(some)}
            if where.tasks is None:
                yield place
            else:
                yield from ({**place, "task_id": own, "idx": idx} for own, idx in where.tasks)


def _one_or_all(cells: list[str]) -> object:
    return cells[0] if len(cells) == 1 else cells


@checked(*CHANGES)
class WritableSqlStore(RecordStore):
    """A database with the tables of a saver, opened for changing."""

    _ROWS: ClassVar[type[SqlRows]] = SqlRows

    def __init__(self, database: WritableDatabase, url: StoreUrl, tables: SqlTables) -> None:
        self._database = database
        self._url = url
        self._tables = tables
        names = {table.name: table.sql for table in tables.all}
        self._rows = RowChanges(database, names, {one.name: one.columns for one in tables.all})

    @property
    def applies_together(self) -> bool:
        return True

    @contextmanager
    def _transaction(self, thread_ids: Sequence[str], *, exclusive: bool = False) -> Iterator[Rows]:
        locked = () if exclusive else thread_ids
        with self._database.transaction(locked, exclusive=exclusive):
            given = self._database, self._rows, self._tables, self._url, self._check_received
            yield self._ROWS(*given)

    def _check(self, change: Change) -> None:
        if self._tables.shallow:
            raise Unsupported(f"'{self._url}' keeps no history, so no checkpoint can be added")
        if change.checkpoints or change.copies:
            self._check_thread(change.thread_id)

    def restore(self, rows: Iterable[Row]) -> Restored:
        with self._database.transaction():
            return self._rows.restore(self._checked(rows))

    def replace(self, thread_id: str, edits: Iterable[RowEdit]) -> None:
        with self._database.holding_changes(), self._database.transaction([thread_id]):
            for one in edits:
                if not self._rows.replace(self._stored(one.stored), self._stored(one.new)):
                    raise moved(thread_id)

    def _checked(self, rows: Iterable[Row]) -> Iterator[Row]:
        known: set[Cell] = set()
        for row in rows:
            thread_id = row.cells.get("thread_id")
            if thread_id not in known:
                known.add(thread_id)
                self._check_thread(str(thread_id))
            yield self._stored(row)

    def finish_removal(self) -> str:
        return self._database.finish_removal()

    def vacuum(self) -> None:
        self._database.vacuum([table.sql for table in self._tables.all])

    def erase_remains(self, *, rewrite: bool = False, progress: Progress = silent) -> Remains:
        tables = [table.sql for table in self._tables.all]
        return erase_remains(self._database, tables, rewrite=rewrite, progress=progress)

    def close(self) -> None:
        self._database.close()

    def _check_received(self, thread_ids: Sequence[str]) -> None:
        """Raise `CannotHold` if the saver would mix one of these threads with another."""

    def _check_thread(self, thread_id: str) -> None:
        """Raise `Unsupported` if the saver would mix new rows of a thread with those of another."""

    def _stored(self, row: Row) -> Row:
        """An archived row with the cells that its table stores."""
        return row


# Erases what is left of removed threads in a database, and names tables that hold more of them.


def erase_remains(
    database: WritableDatabase, tables: Sequence[str], *, rewrite: bool, progress: Progress
) -> Remains:
    """Erase what was removed from these tables, given by their quoted names."""
    found = database.erase_remains(tables, rewrite=rewrite, progress=progress)
    own = {name.rpartition(".")[2] for name in tables}
    named = {database.quoted(name): name for name in database.tables_with_thread_ids()}
    others = sorted(name for quoted, name in named.items() if own.isdisjoint({quoted, name}))
    if not others:
        return found
    place = Remaining(
        "other tables with thread ids",
        f"{', '.join(others)}: they belong to the application, so ckpt does not change them",
    )
    return found._replace(places=(place, *found.places))
