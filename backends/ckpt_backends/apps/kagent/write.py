"""Changes kagent's tables. New rows are those of kagent's service, and of the thread's user."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache

from ckpt_backends.apps.kagent.layout import IS_LIVE, KEY, TIMES, USUAL_USER, KagentTables
from ckpt_backends.codec import decode_checkpoint
from ckpt_backends.errors import Refused, Unsupported
from ckpt_backends.model import CheckpointKey, Kind, Record, TypedBytes
from ckpt_backends.records import Rows
from ckpt_backends.rows import Row
from ckpt_backends.sql.base64_values import encoded
from ckpt_backends.sql.database import Condition, QueryRow, WritableDatabase
from ckpt_backends.sql.tables import Tables, not_changed, why_only_read
from ckpt_backends.sql.write import RowChanges, SqlRows, UnsentRows, WritableSqlStore
from ckpt_backends.transfer.form import CannotHold
from ckpt_backends.url import StoreUrl

_BODY = ("parent_checkpoint_id", "metadata", "checkpoint", "checkpoint_type", "version")
_CHECKPOINT = (*KEY, *TIMES, *_BODY)
_WRITE = (*KEY, *TIMES, "write_idx", "task_id", "channel", "value_type", "value")
_NAMES = {"idx": "write_idx", "type": "checkpoint_type"}
"""By the name of a column of LangGraph's savers, that of kagent."""


def open_writable_tables(
    database: WritableDatabase, columns: Tables, url: StoreUrl, schema: str
) -> WritableKagentStore:
    """Open a database with these tables for changing. Raises `UnknownLayout` and `Unsupported`."""
    tables = KagentTables(database, columns, url, schema)
    if tables.unknown:
        raise not_changed(str(url), why_only_read(tables.unknown, ()))
    tables.check_users()
    return WritableKagentStore(database, url, tables)


class KagentChanges(RowChanges):
    """Changes rows of the user whom the URL names, or of any user.

    Rows that are softly deleted are neither read nor copied, but are removed with their thread.
    """

    def __init__(self, database: WritableDatabase, tables: KagentTables) -> None:
        stored = tables.stored().all
        names = {one.name: one.sql for one in stored}
        super().__init__(database, names, {one.name: one.columns for one in stored})
        self._tables = tables

    def select(self, table: str, listed: str, where: Condition, end: str = "") -> list[QueryRow]:
        return super().select(table, listed, {**self._own(table, where), IS_LIVE: True}, end)

    def copy(self, table: str, new: Mapping[str, object], where: Condition) -> int:
        cells = {
            _NAMES.get(name, name): encoded(cell) if isinstance(cell, bytes) else cell
            for name, cell in new.items()
        }
        return super().copy(table, cells, {**self._own(table, where), IS_LIVE: True})

    def remove(self, table: str, where: Condition) -> int:
        return super().remove(table, self._own(table, where))

    def _own(self, table: str, where: Condition) -> dict[str, object]:
        found = {_NAMES.get(name, name): cell for name, cell in where.items()}
        return {**found, self._tables.of_user(table): True}

    def user(self, thread_id: str) -> str | None:
        """The user of a thread, whom the URL may name; None if the thread is new."""
        return self._tables.user or next(iter(self._tables.users(thread_id)), None)


class KagentRows(SqlRows):
    """Rows in kagent's tables."""

    _rows: KagentChanges

    def add(self, records: Iterable[Record]) -> None:
        user, now = cache(self._rows.user), datetime.now(UTC)
        checkpoints = UnsentRows(self._database, self._tables.checkpoints, _CHECKPOINT)
        writes = UnsentRows(self._database, self._tables.writes, _WRITE)
        taken: set[tuple[CheckpointKey, int]] = set()
        for record in records:
            if record.kind is Kind.VALUE:
                raise Unsupported("this layout stores values in the bodies of checkpoints")
            place = (user(record.key.thread_id) or USUAL_USER, *record.key, now, now)
            if record.kind is Kind.WRITE:
                if (record.key, record.idx) in taken:
                    raise CannotHold(
                        f"two tasks wrote number {record.idx} at checkpoint"
                        f" '{record.key.checkpoint_id}', and kagent stores one write of each number"
                    )
                taken.add((record.key, record.idx))
                value = encoded(record.value.data)
                task = record.idx, record.task_id, record.channel, record.value.type
                writes.add((*place, *task, value), len(value))
            else:
                metadata, body = encoded(record.metadata.data), encoded(record.value.data)
                version = _format(record.value)
                row = (*place, record.parent, metadata, body, record.value.type, version)
                checkpoints.add(row, len(metadata) + len(body))
        # Checkpoints make the rest visible.
        writes.send()
        checkpoints.send()


class WritableKagentStore(WritableSqlStore):
    """kagent's tables, opened for changing."""

    _ROWS = KagentRows

    def __init__(self, database: WritableDatabase, url: StoreUrl, tables: KagentTables) -> None:
        super().__init__(database, url, tables.stored())
        self._rows: KagentChanges = KagentChanges(database, tables)
        self._found = tables

    @contextmanager
    def _transaction(self, thread_ids: Sequence[str], *, exclusive: bool = False) -> Iterator[Rows]:
        with super()._transaction(thread_ids, exclusive=exclusive) as rows:
            self._found.check_users(thread_ids)
            yield rows

    def _stored(self, row: Row) -> Row:
        user = str(row.cells.get("user_id"))
        if (known := self._rows.user(str(row.cells.get("thread_id")))) not in {None, user}:
            raise Refused(f"a row belongs to user '{user}', and the thread to user '{known}'")
        return row


def _format(body: TypedBytes) -> int:
    """The format of a checkpoint; 1, the default of the column, if it cannot be read."""
    found = decode_checkpoint(body)
    version = found.get("v") if isinstance(found, dict) else None
    return version if isinstance(version, int) else 1
