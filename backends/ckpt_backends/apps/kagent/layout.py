"""Recognises kagent's tables by their columns, and knows whose threads they hold. Needs no driver.

The key begins with the user, and `ckpt` names threads by their ids alone. So either the URL names
the user, or no thread id may belong to two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from ckpt_backends.errors import Unsupported
from ckpt_backends.model import CheckpointKey, Record, TypedBytes
from ckpt_backends.rows import Cell, ChangeValue, PlacedValue, Row, ValueKind, no_table
from ckpt_backends.sql.base64_values import decoded, encoded, text_cell
from ckpt_backends.sql.database import Database
from ckpt_backends.sql.tables import (
    SqlTable,
    SqlTables,
    Tables,
    TableSaver,
    missing_columns,
    unknown_columns,
    unknown_tables,
)
from ckpt_backends.transfer.form import CannotHold
from ckpt_backends.url import StoreUrl

CHECKPOINTS, WRITES = "lg_checkpoint", "lg_checkpoint_write"
KEY = ("user_id", "thread_id", "checkpoint_ns", "checkpoint_id")
TIMES = ("created_at", "updated_at")
USUAL_USER = "admin@kagent.dev"
"""The user of a thread that is new, unless the URL names one: the saver's default."""
IS_LIVE = "(deleted_at IS NULL)"

_NEEDED: Mapping[str, Set[str]] = {
    CHECKPOINTS: {*KEY, *TIMES, "deleted_at", "parent_checkpoint_id", "version"}
    | {"metadata", "checkpoint", "checkpoint_type"},
    WRITES: {*KEY, *TIMES, "deleted_at", "write_idx", "task_id", "channel", "value", "value_type"},
}
_USERS = """(user_id = ANY(ARRAY(
    WITH RECURSIVE walk(one) AS (
        SELECT min(user_id) FROM {table} UNION ALL
        SELECT (SELECT min(user_id) FROM {table} WHERE user_id > one) FROM walk
        WHERE one IS NOT NULL)
    SELECT one FROM walk WHERE one IS NOT NULL)))"""
"""True of all rows. With it, the server seeks a thread of any user in the key, where it would read
all keys without."""
_OF_SEVERAL = """
    SELECT thread_id, min(user_id), max(user_id) FROM (
        SELECT user_id, thread_id FROM {checkpoints} WHERE {of_checkpoints}
        UNION ALL SELECT user_id, thread_id FROM {writes} WHERE {of_writes}) c
    WHERE {only} GROUP BY thread_id HAVING min(user_id) <> max(user_id) LIMIT 1
"""


def recognise(tables: Tables) -> TableSaver | None:
    """The saver of this layout if the tables look like it."""
    if CHECKPOINTS not in tables or WRITES not in tables:
        return None
    room = "ckpt_backends.apps.kagent"
    names = (CHECKPOINTS, WRITES)
    return TableSaver(f"{room}.store:open_tables", f"{room}.write:open_writable_tables", names)


class KagentTables:
    """The tables in a schema, with the rows of the user whom the URL names, or of all."""

    def __init__(self, database: Database, columns: Tables, url: StoreUrl, schema: str) -> None:
        """Raises `UnknownLayout` if a column is missing."""
        if missing := missing_columns(columns, _NEEDED):
            raise unknown_tables(str(url), missing)
        self.user = url.params.get("user_id")
        self.unknown = unknown_columns(columns, {}, _NEEDED)
        self._database = database
        self._columns = columns
        self._schema = schema
        self._sql = {name: f"{database.quoted(schema)}.{name}" for name in _NEEDED}

    def of_user(self, table: str) -> str:
        """The condition for rows of the user, or of any user."""
        if self.user is None:
            return _USERS.format(table=self._sql[table])
        return f"(user_id = {self._database.literal(self.user)})".replace("%", "%%")

    def stored(self) -> SqlTables:
        """The tables as they are stored, for changes."""
        return self._tables(self._sql)

    def live(self) -> SqlTables:
        """The rows that exist for kagent, with the columns of LangGraph's savers, for reading."""
        also = {CHECKPOINTS: "checkpoint_type AS type"}
        also[WRITES] = "value_type AS type, write_idx AS idx"
        views = {
            name: f"(SELECT *, {also[name]} FROM {sql} WHERE {IS_LIVE} AND {self.of_user(name)})"
            for name, sql in self._sql.items()
        }
        return self._tables(views)

    def _tables(self, sql: Mapping[str, str]) -> SqlTables:
        def table(name: str, *sized: str) -> SqlTable:
            columns = {one: self._database.archived(name, one) for one in self._columns[name]}
            sizes = {one: f"octet_length(c.{one})" for one in sized}
            return SqlTable(name, sql[name], columns, sizes)

        return SqlTables(
            layout="kagent",
            names=tuple(f"{self._schema}.{name}" for name in self._sql),
            checkpoints=table(CHECKPOINTS, "checkpoint", "metadata"),
            writes=table(WRITES, "value"),
            task_path=False,
            can_add=not self.unknown,
        )

    def users(self, thread_id: str) -> list[str]:
        """The users who have rows of a thread, softly deleted ones included."""
        given = self._database.text("thread")
        parts = [
            f"SELECT user_id FROM {sql} WHERE thread_id = {given} AND {self.of_user(name)}"
            for name, sql in self._sql.items()
        ]
        values = {"thread": self._database.bound(thread_id)}
        return [user for (user,) in self._database.rows(" UNION ".join(parts), values)]

    def check_users(self, thread_ids: Sequence[str] | None = None) -> None:
        """Raise `Unsupported` if one of these threads, or of all, belongs to two users."""
        if self.user is not None:
            return
        only, values = "true", dict[str, object]()
        if thread_ids is not None:
            only, values = self._database.among("c.thread_id", "t", thread_ids)
        query = _OF_SEVERAL.format(
            checkpoints=self._sql[CHECKPOINTS],
            writes=self._sql[WRITES],
            of_checkpoints=self.of_user(CHECKPOINTS),
            of_writes=self.of_user(WRITES),
            only=only,
        )
        for thread_id, one, other in self._database.rows(query, values):
            raise Unsupported(
                f"thread '{thread_id}' belongs to several users, such as '{one}' and '{other}'",
                hint="name one in the URL: ?user_id=NAME",
            )


# The records of a thread in kagent's rows, and their values.


_VALUES = {
    CHECKPOINTS: (
        (ValueKind.BODY, "checkpoint", "checkpoint_type"),
        (ValueKind.METADATA, "metadata", ""),
    ),
    WRITES: ((ValueKind.WRITE, "value", "value_type"),),
}
"""By table, the columns of values and of their types; metadata is JSON."""


def records_of(layout: str, rows: Iterable[Row]) -> Iterator[Record]:  # noqa: ARG001
    """The records that the rows of one thread hold. Raises `CannotHold` for damaged ones."""
    for row in rows:
        cells = row.cells
        key = CheckpointKey(*(text_cell(cells, name) for name in KEY[1:]))
        value, *metadata = (_value(cells, column, tag) for _, column, tag in _columns(row))
        if metadata:
            parent = cells.get("parent_checkpoint_id")
            yield Record.checkpoint(
                key, None if parent is None else str(parent), value, metadata[0]
            )
            continue
        idx = cells.get("write_idx")
        if not isinstance(idx, int):
            raise CannotHold(f"a write at checkpoint '{key.checkpoint_id}' has no number")
        yield Record.write(
            key, text_cell(cells, "task_id"), "", idx, text_cell(cells, "channel"), value
        )


def edited_row(layout: str, row: Row, change: ChangeValue) -> Row:  # noqa: ARG001
    """The row with the values that `change` returns; the same row if they are equal."""
    cells = dict(row.cells)
    place = "\0".join([row.table, *(str(cells.get(name)) for name in (*KEY, "write_idx"))])
    for kind, column, tag in _columns(row):
        found = _value(row.cells, column, tag)
        channel = str(cells.get("channel", ""))
        made = change(PlacedValue(kind, found, f"{place}\0{column}", channel))
        if made is not found:
            cells[column] = encoded(made.data)
            if tag:
                cells[tag] = made.type
    return row if cells == row.cells else Row(row.table, cells)


def _columns(row: Row) -> tuple[tuple[ValueKind, str, str], ...]:
    if row.table not in _VALUES:
        raise no_table(row.table)
    return _VALUES[row.table]


def _value(cells: Mapping[str, Cell], column: str, tag: str) -> TypedBytes:
    found = decoded(text_cell(cells, tag) if tag else "json", text_cell(cells, column))
    if found.problem:
        raise CannotHold(f"the column '{column}' of a row cannot be read: {found.problem}")
    return found
