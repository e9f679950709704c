"""Changes a store row by row: the base class for adapters of simple layouts.

It is for layouts with one row for each checkpoint and one for each write, whose values are in the
bodies of checkpoints (`Capability.INLINE_VALUES`), and for engines with transactions. Other layouts
with transactions derive from `records.RecordStore`, as the SQL savers with several tables do in
`ckpt_backends.sql`; others implement `WritableStore` themselves.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager

from ckpt_backends.base import BaseStore
from ckpt_backends.changes import moved
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import CheckpointKey, Kind, Record
from ckpt_backends.records import (
    CopyTarget,
    Heads,
    NamespaceState,
    RecordStore,
    Rows,
    ThreadState,
    Where,
)
from ckpt_backends.rows import (
    Cell,
    Restored,
    Row,
    RowEdit,
    Standing,
    check_columns,
    restored,
    standing_of,
)

_KEY = ("thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "idx")


class WritableRowStore(RecordStore):
    """Derives all changes from four methods.

    While a transaction is open, `rows` of the store is read and rows are added: `rows` needs a
    cursor of its own.

    Rows have the columns `thread_id`, `checkpoint_ns` and `checkpoint_id`; rows of writes also have
    `task_id` and `idx`. These are the keys of the rows.
    """

    def __init__(self, store: BaseStore) -> None:
        """`store` reads on the connection that writes, so that it sees the open transaction."""
        self._store = store

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """A transaction for writing: committed at the end, rolled back after an error.

        Nobody else can write before it ends. Raises `StoreUnavailable` if the lock cannot be
        acquired in a few seconds.
        """

    @abstractmethod
    def insert(self, row: Row) -> None:
        """Add a row; its table and columns are among `columns` of the store."""

    @abstractmethod
    def delete(self, table: str, where: Mapping[str, Sequence[Cell]]) -> int:
        """Remove the rows that have one of the given cells in each of these columns of the key.

        Returns their number.
        """

    @abstractmethod
    def row_of(self, part: Record) -> Row:
        """The row that the saver would store for a checkpoint or a write."""

    def close(self) -> None:
        self._store.close()

    @contextmanager
    def _transaction(
        self,
        thread_ids: Sequence[str],  # noqa: ARG002 - nobody else can write at all
        *,
        exclusive: bool = False,  # noqa: ARG002
    ) -> Iterator[Rows]:
        with self.transaction():
            yield _Rows(self, self._store)

    def restore(self, rows: Iterable[Row]) -> Restored:
        counts: Counter[Standing] = Counter()
        with self.transaction():
            known = self._known(rows)
            for row, standing in standing_of(known, self._store.rows, self._store.row_key):
                counts[standing] += 1
                if standing is Standing.MISSING:
                    self.insert(row)
        return restored(counts)

    def replace(self, thread_id: str, edits: Iterable[RowEdit]) -> None:
        found = {self._store.row_key(one.stored): one for one in edits}
        with self.transaction():
            for row in self._store.rows(thread_id) if found else ():
                one = found.pop(self._store.row_key(row), None)
                if one is not None:
                    if row != one.stored:
                        raise moved(thread_id)
                    key = {name: [row.cells[name]] for name in _KEY if name in row.cells}
                    self.delete(row.table, key)
                    self.insert(one.new)
            if found:
                raise moved(thread_id)

    def _known(self, rows: Iterable[Row]) -> Iterator[Row]:
        for row in rows:
            check_columns(row, self._store.columns, _KEY)
            yield row


class _Rows(Rows):
    """The rows of a store that nobody else changes meanwhile."""

    def __init__(self, changes: WritableRowStore, store: BaseStore) -> None:
        self._changes = changes
        self._store = store
        kinds = {
            Kind.WRITE if "task_id" in columns else Kind.CHECKPOINT: table
            for table, columns in store.columns.items()
        }
        self.tables = {kind: kinds[kind] for kind in (Kind.WRITE, Kind.CHECKPOINT)}

    def heads(self, thread_ids: Sequence[str]) -> Heads:
        found: dict[str, dict[str, NamespaceState]] = {}
        for thread_id in thread_ids:
            for one in self._store.checkpoints(thread_id):
                spaces = found.setdefault(thread_id, {})
                first = spaces.get(one.key.checkpoint_ns, NamespaceState(one.key.checkpoint_id, 0))
                number = first.checkpoints + 1
                spaces[one.key.checkpoint_ns] = first._replace(checkpoints=number)
        return found

    def states(self, thread_ids: Sequence[str]) -> Mapping[str, ThreadState]:
        found = {}
        for thread_id in thread_ids:
            thread = self._store.thread(thread_id)
            rows = {Kind.WRITE: sum(1 for _ in self._store.writes(thread_id))}
            if thread is None:
                found[thread_id] = ThreadState(None, rows)
            else:
                found[thread_id] = ThreadState(
                    thread.last_at, {**rows, Kind.CHECKPOINT: thread.checkpoints}
                )
        return found

    def count(self, kind: Kind, where: Where) -> int:
        read = self._store.writes if kind is Kind.WRITE else self._store.checkpoints
        return sum(
            1
            for thread_id in where.thread_ids
            for _ in read(
                thread_id, checkpoint_ns=where.checkpoint_ns, checkpoint_ids=where.checkpoint_ids
            )
        )

    def add(self, parts: Iterable[Record]) -> None:
        for part in parts:
            if part.kind is Kind.VALUE:
                raise Unsupported("this layout stores values in the bodies of checkpoints")
            self._changes.insert(self._changes.row_of(part))

    def copy(self, kind: Kind, where: Where, target: CopyTarget) -> int:
        number = 0
        for thread_id in where.thread_ids:
            for row in self._store.rows(thread_id):
                ns, own, *task = (row.cells.get(name) for name in _KEY[1:])
                if row.table == self.tables[kind] and where.takes(ns, own, tuple(task)):
                    number += 1
                    self._changes.insert(self._copied(row, target))
        return number

    def _copied(self, row: Row, target: CopyTarget) -> Row:
        cells: dict[str, Cell] = {"thread_id": target.thread_id}
        if target.checkpoint_id is not None:
            cells["checkpoint_id"] = target.checkpoint_id
        if target.body is not None or target.metadata is not None:
            key = CheckpointKey(*(str(row.cells[name]) for name in _KEY[:3]))
            (old,) = self._store.checkpoints_at([key], body=True, metadata=True)
            body, metadata = target.body or old.body, target.metadata or old.metadata
            assert body is not None  # noqa: S101
            assert metadata is not None  # noqa: S101
            new = key._replace(thread_id=target.thread_id)
            made = Record.checkpoint(new, old.parent_checkpoint_id, body, metadata)
            cells |= self._changes.row_of(made).cells
        return Row(row.table, {**row.cells, **cells})

    def remove(self, kind: Kind, where: Where) -> int:
        if kind not in self.tables:
            return 0
        found: dict[str, Sequence[Cell]] = {"thread_id": where.thread_ids}
        if where.checkpoint_ns is not None:
            found["checkpoint_ns"] = [where.checkpoint_ns]
        if where.checkpoint_ids is not None:
            found["checkpoint_id"] = list(where.checkpoint_ids)
        return self._changes.delete(self.tables[kind], found)
