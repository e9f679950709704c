"""Recognises SupabaseSaver's tables by their columns, and reads their rows. Needs no driver."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Set

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

CHECKPOINTS, WRITES = "langgraph_checkpoints", "langgraph_checkpoint_writes"
KEY = CheckpointKey._fields
TASK = ("task_id", "task_path", "idx", "channel")
MADE_AT = "created_at"
_NEEDED: Mapping[str, Set[str]] = {
    CHECKPOINTS: {*KEY, "parent_checkpoint_id", "checkpoint", "metadata", MADE_AT},
    WRITES: {*KEY, *TASK, "write", MADE_AT},
}
_READ = {
    CHECKPOINTS: ("checkpoint", (*KEY, "parent_checkpoint_id", "metadata::text AS metadata")),
    WRITES: ("write", (*KEY, *TASK)),
}
"""By table, the column of its values, and the other ones that queries need."""


def recognise(tables: Tables) -> TableSaver | None:
    """The saver of this layout if the tables look like it."""
    if CHECKPOINTS not in tables or WRITES not in tables:
        return None
    room, names = "ckpt_backends.apps.supabase", (CHECKPOINTS, WRITES)
    return TableSaver(f"{room}.store:open_tables", f"{room}.write:open_writable_tables", names)


def unknown_in(columns: Tables, url: StoreUrl) -> tuple[str, ...]:
    """The columns that the saver does not create. Raises `UnknownLayout` if one is missing."""
    if missing := missing_columns(columns, _NEEDED):
        raise unknown_tables(str(url), missing)
    return unknown_columns(columns, {}, _NEEDED)


def tables_of(database: Database, columns: Tables, schema: str, *, can_add: bool) -> SqlTables:
    """The tables in a schema; queries see types and base64 texts in place of the JSON with them."""

    def table(name: str, *more: str) -> SqlTable:
        sql = f"{database.quoted(schema)}.{name}"
        value, others = _READ[name]
        cells = [
            f"coalesce({value} ->> '{member}', '') AS {column}"
            for member, column in (("type", "type"), ("data", value))
        ]
        stored = {one: database.archived(name, one) for one in sorted(columns[name])}
        sizes = {one: f"octet_length(c.{one})" for one in (value, *more)}
        return SqlTable(
            name, sql, stored, sizes, f"(SELECT {', '.join((*others, *cells))} FROM {sql})"
        )

    return SqlTables(
        layout="supabase",
        names=tuple(f"{schema}.{name}" for name in _NEEDED),
        checkpoints=table(CHECKPOINTS, "metadata"),
        writes=table(WRITES),
        task_path=True,
        can_add=can_add,
    )


# The records of a thread in these rows, and their values.


def json_of(value: TypedBytes) -> str:
    """The JSON that stores a value."""
    return json.dumps({"type": value.type, "data": encoded(value.data)})


def records_of(layout: str, rows: Iterable[Row]) -> Iterator[Record]:  # noqa: ARG001
    """The records that the rows of one thread hold. Raises `CannotHold` for damaged ones."""
    for row in rows:
        cells = row.cells
        key, value = CheckpointKey(*(text_cell(cells, name) for name in KEY)), _value(row)
        if row.table == CHECKPOINTS:
            parent = cells.get("parent_checkpoint_id")
            metadata = TypedBytes("json", text_cell(cells, "metadata").encode())
            yield Record.checkpoint(key, None if parent is None else str(parent), value, metadata)
            continue
        task_id, path, channel = (text_cell(cells, one) for one in TASK if one != "idx")
        idx = cells.get("idx")
        if not isinstance(idx, int):
            raise CannotHold(f"a write of task '{task_id}' has no number")
        yield Record.write(key, task_id, path, idx, channel, value)


def edited_row(layout: str, row: Row, change: ChangeValue) -> Row:  # noqa: ARG001
    """The row with the values that `change` returns; the same row if they are equal."""
    cells: dict[str, Cell] = dict(row.cells)
    place = "\0".join([row.table, *(str(cells.get(name)) for name in (*KEY, "task_id", "idx"))])
    is_write, found = row.table == WRITES, _value(row)
    kind = ValueKind.WRITE if is_write else ValueKind.BODY
    made = change(PlacedValue(kind, found, place, str(cells.get("channel", ""))))
    if made is not found:
        cells[_READ[row.table][0]] = json_of(made)
    if not is_write:
        metadata = TypedBytes("json", text_cell(cells, "metadata").encode())
        given = PlacedValue(ValueKind.METADATA, metadata, f"{place}\0metadata", "")
        if (told := change(given)) is not metadata:
            cells["metadata"] = told.data.decode()
    return row if cells == row.cells else Row(row.table, cells)


def _value(row: Row) -> TypedBytes:
    """The body of a checkpoint, or the value of a write. Raises `CannotHold` if it is damaged."""
    if row.table not in _READ:
        raise no_table(row.table)
    column, _ = _READ[row.table]
    stored = json.loads(text_cell(row.cells, column))
    tag, text = (stored.get(one) if isinstance(stored, dict) else None for one in ("type", "data"))
    if not isinstance(tag, str) or not isinstance(text, str):
        raise CannotHold(f"the column '{column}' of a row has no typed value")
    found = decoded(tag, text)
    if found.problem:
        raise CannotHold(f"the column '{column}' of a row cannot be read: {found.problem}")
    return found
