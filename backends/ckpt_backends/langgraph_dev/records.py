"""What the entries and rows of `langgraph dev` hold.

A row has the table name and the columns that LangGraph's SQL savers use for the same data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, groupby
from typing import Any, cast

from ckpt_backends.errors import Unsupported
from ckpt_backends.langgraph_dev.declaration import FORM, JAVASCRIPT_LAYOUT, OLD_FORM
from ckpt_backends.langgraph_dev.files import Entry, EntryKey, StoredCheckpoint, StoredWrite, Tables
from ckpt_backends.model import CheckpointKey, Kind, Record, TypedBytes
from ckpt_backends.rows import Cell, Row
from ckpt_backends.sql.tables import BLOBS as BLOB_TABLE
from ckpt_backends.sql.tables import CHECKPOINTS as CHECKPOINT_TABLE
from ckpt_backends.sql.tables import WRITES as WRITE_TABLE
from ckpt_backends.transfer.bodies import version_text
from ckpt_backends.transfer.convert import Conversion
from ckpt_backends.transfer.sealing import AsStored

_CHECKPOINT = ("thread_id", "checkpoint_ns", "checkpoint_id")
_KEYS = {
    CHECKPOINT_TABLE: _CHECKPOINT,
    WRITE_TABLE: (*_CHECKPOINT, "task_id", "idx"),
    BLOB_TABLE: (*_CHECKPOINT[:2], "channel", "version"),
}
_VALUES = {
    CHECKPOINT_TABLE: {"checkpoint": "type", "metadata": "metadata_type"},
    WRITE_TABLE: {"blob": "type"},
    BLOB_TABLE: {"blob": "type"},
}
"""By table, the columns of values, each with that of its type."""
_OTHERS = {CHECKPOINT_TABLE: ("parent_checkpoint_id",), WRITE_TABLE: ("task_path", "channel")}
COLUMNS = {
    table: (*key, *_OTHERS.get(table, ()), *chain.from_iterable(_VALUES[table].items()))
    for table, key in _KEYS.items()
}
"""By table, its columns."""
_KINDS: dict[str, tuple[Any, str]] = {
    "idx": (int, "number"),
    "version": (str | int | float, "version"),
    **dict.fromkeys(("checkpoint", "metadata", "blob"), (bytes, "bytes")),
}
"""By column, the type of its cells; all others are texts."""


def row_of(table: str, key: EntryKey, entry: Entry, tables: Tables) -> Row:
    """An entry as a row."""
    cells: dict[str, Cell] = dict(zip(_KEYS[table], key, strict=True))
    match entry:
        case StoredCheckpoint():
            cells["parent_checkpoint_id"] = entry.parent
            values = [entry.body, entry.metadata]
        case StoredWrite():
            cells |= {"task_path": entry.task_path, "channel": entry.channel}
            values = [entry.value]
        case _:
            values = [entry]
    for (column, tag), value in zip(_VALUES[table].items(), values, strict=True):
        cells |= {tag: value.type, column: tables.bytes(table, value)}
    return Row(table, cells)


def entry_of(row: Row, keep: Callable[[TypedBytes], Any]) -> tuple[EntryKey, Any]:
    """A row as an entry, with its key. Raises `Unsupported` if the row is of another layout.

    `keep` keeps the bytes of a value until the files are written.
    """
    if row.table not in _KEYS:
        raise Unsupported(
            f"cannot restore: no table '{row.table}' in this layout",
            hint="import the archive into a store of the layout that it was exported from",
        )
    try:
        key = tuple(_cell(row, name) for name in _KEYS[row.table])
        first, *other = [
            keep(TypedBytes(_cell(row, tag), _cell(row, column)))
            for column, tag in _VALUES[row.table].items()
        ]
        if row.table == CHECKPOINT_TABLE:
            return key, StoredCheckpoint(first, other[0], _optional(row, "parent_checkpoint_id"))
        if row.table == WRITE_TABLE:
            return key, StoredWrite(_cell(row, "channel"), first, _optional(row, "task_path"))
        return key, first
    except KeyError as error:
        raise Unsupported(f"cannot restore: a row of '{row.table}' lacks {error}") from error


def _cell(row: Row, name: str) -> Any:
    found = row.cells[name]
    kind, word = _KINDS.get(name, (str, "text"))
    if not isinstance(found, kind) or not is_storable(found):
        raise Unsupported(f"column '{name}' of a row of '{row.table}' holds no {word}")
    return found


def _optional(row: Row, name: str) -> str | None:
    return None if row.cells[name] is None else _cell(row, name)


def is_storable(value: object) -> bool:
    """Whether the server could have stored a number: its pickles have integers of 32 bits here."""
    return not isinstance(value, int) or -(1 << 31) <= value < 1 << 31


def records_of(layout: str, rows: Iterable[Row]) -> Iterator[Record]:
    """The records that the rows of some threads hold, one thread after the other.

    LangGraph.js stores values in bodies, as its SQLite saver does. Rows of langgraph-checkpoint
    before 2.1 have them there, too; their records have the form that later releases store. Raises
    `CannotHold` if there is no such form.
    """
    if layout == JAVASCRIPT_LAYOUT:
        yield from _in_order(map(_part, rows))
        return
    for _, of_thread in groupby(rows, lambda row: row.cells["thread_id"]):
        yield from _of_thread(of_thread)


def _of_thread(rows: Iterator[Row]) -> Iterator[Record]:
    first = next(rows)
    parts = map(_part, chain([first], rows))
    # Values come first, and each thread of a later release has some.
    if first.table == BLOB_TABLE:
        yield from parts
    else:
        yield from Conversion(OLD_FORM, FORM, AsStored()).of_thread(parts)


def _in_order(records: Iterable[Record]) -> Iterator[Record]:
    """The records with the writes of each checkpoint by their task paths, without these.

    No other saver of LangGraph.js stores paths: the library knows those of a step's tasks. Only the
    order matters, for a DeltaChannel; see `Form.keeps_write_order`.
    """
    for key, some in groupby(records, lambda one: one.key if one.kind is Kind.WRITE else None):
        if key is None:
            yield from some
        else:
            writes = cast("Iterable[Record]", some)
            for one in sorted(writes, key=lambda one: (one.task_path, one.task_id, one.idx)):
                yield one._replace(task_path="")


def _part(row: Row) -> Record:
    key, entry = entry_of(row, lambda value: value)
    if row.table == CHECKPOINT_TABLE:
        return Record.checkpoint(CheckpointKey(*key), entry.parent, entry.body, entry.metadata)
    if row.table == WRITE_TABLE:
        *place, task_id, idx = key
        path = entry.task_path or ""
        return Record.write(CheckpointKey(*place), task_id, path, idx, entry.channel, entry.value)
    thread_id, ns, channel, version = key
    return Record.apart(thread_id, ns, channel, version_text(version), entry)
