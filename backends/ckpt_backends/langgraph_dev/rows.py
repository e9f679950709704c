"""Converts the entries of `langgraph dev`'s files to rows, and rows to entries.

A row has the table name and the columns that LangGraph's SQL savers use for the same data.
"""

from __future__ import annotations

from ckpt_backends.changes.rows import Cell, Row, conflict
from ckpt_backends.errors import Unsupported
from ckpt_backends.langgraph_dev.declaration import CHECKPOINTS
from ckpt_backends.langgraph_dev.files import BLOBS, WRITES
from ckpt_backends.langgraph_dev.layout import (
    BlobKey,
    StoredCheckpoint,
    StoredValue,
    StoredWrite,
    WriteKey,
)
from ckpt_backends.langgraph_dev.tables import Tables
from ckpt_backends.model import CheckpointKey
from ckpt_backends.sql.blob_tables import BLOBS as BLOB_TABLE
from ckpt_backends.sql.blob_tables import CHECKPOINTS as CHECKPOINT_TABLE
from ckpt_backends.sql.blob_tables import WRITES as WRITE_TABLE

FILES = {CHECKPOINT_TABLE: CHECKPOINTS, WRITE_TABLE: WRITES, BLOB_TABLE: BLOBS}
"""By table, the file that holds it."""
_KEY = ("thread_id", "checkpoint_ns", "checkpoint_id")
COLUMNS = {
    CHECKPOINT_TABLE: (
        *_KEY,
        *("parent_checkpoint_id", "type", "checkpoint", "metadata_type", "metadata"),
    ),
    WRITE_TABLE: (*_KEY, "task_id", "idx", "task_path", "channel", "type", "blob"),
    BLOB_TABLE: (*_KEY[:2], "channel", "version", "type", "blob"),
}
"""By table, its columns."""


def of_checkpoint(key: CheckpointKey, tables: Tables) -> Row:
    """A checkpoint as a row."""
    found = tables.checkpoints[key.thread_id][key.checkpoint_ns][key.checkpoint_id]
    return Row(
        CHECKPOINT_TABLE,
        {
            "thread_id": key.thread_id,
            "checkpoint_ns": key.checkpoint_ns,
            "checkpoint_id": key.checkpoint_id,
            "parent_checkpoint_id": found.parent,
            "type": found.body.type,
            "checkpoint": tables.bytes(CHECKPOINTS, found.body),
            "metadata_type": found.metadata.type,
            "metadata": tables.bytes(CHECKPOINTS, found.metadata),
        },
    )


def of_write(key: WriteKey, task: tuple[str, int], tables: Tables) -> Row:
    """A write as a row."""
    found = tables.writes[key][task]
    return Row(
        WRITE_TABLE,
        {
            **dict(zip(("thread_id", "checkpoint_ns", "checkpoint_id"), key, strict=True)),
            **dict(zip(("task_id", "idx"), task, strict=True)),
            "task_path": found.task_path,
            "channel": found.channel,
            "type": found.value.type,
            "blob": tables.bytes(WRITES, found.value),
        },
    )


def of_blob(key: BlobKey, tables: Tables) -> Row:
    """A value as a row."""
    found = tables.blobs[key]
    return Row(
        BLOB_TABLE,
        {
            **dict(zip(("thread_id", "checkpoint_ns", "channel", "version"), key, strict=True)),
            "type": found.type,
            "blob": tables.bytes(BLOBS, found),
        },
    )


def put(row: Row, tables: Tables) -> bool:
    """Add a row as an entry. Returns False if it already exists and is equal in every cell.

    Raises `StoreChanged` if it exists with different contents, and `Unsupported` if the row is of
    another layout.
    """
    try:
        match row.table:
            case "checkpoints":
                return _put_checkpoint(row, tables)
            case "checkpoint_writes":
                return _put_write(row, tables)
            case "checkpoint_blobs":
                return _put_blob(row, tables)
    except KeyError as error:
        raise Unsupported(f"cannot restore: a row of '{row.table}' lacks {error}") from error
    raise Unsupported(
        f"cannot restore: no table '{row.table}' in this layout",
        hint="import the archive into a store of the layout that it was exported from",
    )


def _put_checkpoint(row: Row, tables: Tables) -> bool:
    thread, ns, one = (_text(row, name) for name in _KEY)
    made = StoredCheckpoint(
        _stored(row, "type", "checkpoint"),
        _stored(row, "metadata_type", "metadata"),
        _optional(row, "parent_checkpoint_id"),
    )
    rows = tables.checkpoints.setdefault(thread, {}).setdefault(ns, {})
    if one in rows:
        return _is_there(of_checkpoint(CheckpointKey(thread, ns, one), tables), row)
    rows[one] = made
    return True


def _put_write(row: Row, tables: Tables) -> bool:
    thread, ns, one = (_text(row, name) for name in _KEY)
    idx = row.cells["idx"]
    if not isinstance(idx, int) or not is_storable(idx):
        raise Unsupported(f"column 'idx' of a row of '{row.table}' holds no number")
    task = (_text(row, "task_id"), idx)
    made = StoredWrite(
        _text(row, "channel"), _stored(row, "type", "blob"), _optional(row, "task_path")
    )
    rows = tables.writes.setdefault((thread, ns, one), {})
    if task in rows:
        return _is_there(of_write((thread, ns, one), task, tables), row)
    rows[task] = made
    return True


def _put_blob(row: Row, tables: Tables) -> bool:
    names = ("thread_id", "checkpoint_ns", "channel")
    thread, ns, channel = (_text(row, name) for name in names)
    version = row.cells["version"]
    if not isinstance(version, str | int | float) or not is_storable(version):
        raise Unsupported(f"column 'version' of a row of '{row.table}' holds no version")
    key = (thread, ns, channel, version)
    made = _stored(row, "type", "blob")
    if key in tables.blobs:
        return _is_there(of_blob(key, tables), row)
    tables.blobs[key] = made
    return True


def _is_there(found: Row, row: Row) -> bool:
    if found != row:
        raise conflict(row.table)
    return False


def _text(row: Row, name: str) -> str:
    found = row.cells[name]
    if not isinstance(found, str):
        raise Unsupported(f"column '{name}' of a row of '{row.table}' holds no text")
    return found


def is_storable(value: object) -> bool:
    """Whether the server could have stored a number: its pickles have integers of 32 bits here."""
    return not isinstance(value, int) or -(1 << 31) <= value < 1 << 31


def _optional(row: Row, name: str) -> str | None:
    return None if row.cells[name] is None else _text(row, name)


def _stored(row: Row, tag: str, data: str) -> StoredValue:
    found: Cell = row.cells[data]
    if not isinstance(found, bytes):
        raise Unsupported(f"column '{data}' of a row of '{row.table}' holds no bytes")
    return StoredValue(_text(row, tag), found)
