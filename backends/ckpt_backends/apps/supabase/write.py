"""Changes SupabaseSaver's tables. New rows are those that the saver sends to PostgREST."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from ckpt_backends.apps.supabase.layout import (
    CHECKPOINTS,
    KEY,
    MADE_AT,
    TASK,
    json_of,
    tables_of,
    unknown_in,
)
from ckpt_backends.model import Kind, Record, TypedBytes
from ckpt_backends.sql.database import Condition, Loaded, WritableDatabase
from ckpt_backends.sql.tables import Tables, not_changed, why_only_read
from ckpt_backends.sql.write import RowChanges, SqlRows, UnsentRows, WritableSqlStore
from ckpt_backends.url import StoreUrl

_CHECKPOINT = (*KEY, "parent_checkpoint_id", "checkpoint", "metadata")
_WRITE = (*KEY, *TASK, "write")


def open_writable_tables(
    database: WritableDatabase, columns: Tables, url: StoreUrl, schema: str
) -> WritableSupabaseStore:
    """Open a database with these tables for changing. Raises `UnknownLayout`."""
    if unknown := unknown_in(columns, url):
        raise not_changed(str(url), why_only_read(unknown, ()))
    return WritableSupabaseStore(database, columns, url, schema)


class SupabaseChanges(RowChanges):
    """Changes rows; a body is copied as JSON with its type."""

    def copy(self, table: str, new: Mapping[str, object], where: Condition) -> int:
        cells = dict(new)
        body, metadata = cells.pop("checkpoint", None), cells.get("metadata")
        if isinstance(body, bytes):
            cells["checkpoint"] = json_of(TypedBytes(str(cells["type"]), body))
        if isinstance(metadata, bytes):
            cells["metadata"] = metadata.decode()
        if table == CHECKPOINTS and "checkpoint_id" in cells:
            cells[MADE_AT] = datetime.now(UTC)  # it is a new one
        return super().copy(table, cells, where)


class SupabaseRows(SqlRows):
    """Rows in SupabaseSaver's tables."""

    def _unsent(self) -> dict[Kind, tuple[UnsentRows, Callable[[Record], Loaded]]]:
        tables, database = self._tables, self._database
        return {
            Kind.WRITE: (UnsentRows(database, tables.writes, _WRITE), _write),
            Kind.CHECKPOINT: (UnsentRows(database, tables.checkpoints, _CHECKPOINT), _checkpoint),
        }


class WritableSupabaseStore(WritableSqlStore):
    """SupabaseSaver's tables, opened for changing."""

    _ROWS = SupabaseRows

    def __init__(
        self, database: WritableDatabase, columns: Tables, url: StoreUrl, schema: str
    ) -> None:
        tables = tables_of(database, columns, schema, can_add=True)
        super().__init__(database, url, tables)
        names = {one.name: one.sql for one in tables.all}
        self._rows = SupabaseChanges(database, names, {one.name: one.columns for one in tables.all})


def _checkpoint(record: Record) -> Loaded:
    return (*record.key, record.parent, json_of(record.value).encode(), record.metadata.data)


def _write(record: Record) -> Loaded:
    task = record.task_id, record.task_path, record.idx, record.channel
    return (*record.key, *task, json_of(record.value).encode())
