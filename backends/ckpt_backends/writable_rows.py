"""Changes a store row by row: the base class for adapters of simple layouts.

It is for layouts with one row for each checkpoint and one for each write, whose values are in the
bodies of checkpoints (`Capability.INLINE_VALUES`), and for engines with transactions. Other layouts
implement `WritableStore` themselves; SQL savers with several tables use `ckpt_backends.sql`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from ckpt_backends.base import BaseStore, BaseWritableStore
from ckpt_backends.changes import Change, CopyOfCheckpoint, Inside, Removal, Removed, gone, moved
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import Checkpoint, CheckpointKey, Write
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
from ckpt_backends.transfer.parts import Arrival, CheckpointPart, Part, ValuePart

_KEY = ("thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "idx")


class WritableRowStore(BaseWritableStore):
    """Derives all changes from five methods.

    While a transaction is open, `rows` of the store is read and rows are added or removed: `rows`
    needs a cursor of its own.

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
    def delete(self, row: Row) -> None:
        """Remove the row with this key; `row` has only the columns of the key."""

    @abstractmethod
    def checkpoint_row(self, checkpoint: Checkpoint) -> Row:
        """The row that the saver would store for a checkpoint, which has body and metadata."""

    @abstractmethod
    def write_row(self, write: Write) -> Row:
        """The row that the saver would store for a write, which has its value."""

    def close(self) -> None:
        self._store.close()

    def apply(self, change: Change) -> None:
        with self.transaction():
            self._check(change)
            self._remove(change)
            self._copy(change)
            for checkpoint in change.checkpoints:
                self.insert(self.checkpoint_row(checkpoint))
            for write in change.writes:
                self.insert(self.write_row(write))

    def receive(self, arrivals: Iterable[Arrival]) -> None:
        with self.transaction():
            for arrival in arrivals:
                self._check(Change(arrival.thread_id, arrival.heads))
                for part in arrival.parts:
                    self.insert(self._row_of(part))

    def _row_of(self, part: Part) -> Row:
        if isinstance(part, CheckpointPart):
            made = Checkpoint(part.key, part.parent, part.body, part.metadata)
            return self.checkpoint_row(made)
        if isinstance(part, ValuePart):
            raise Unsupported("this layout stores values in the bodies of checkpoints")
        task = part.task_id, part.task_path, part.idx, part.channel
        return self.write_row(Write(part.key, *task, len(part.value.data), part.value))

    def remove(self, removals: Sequence[Removal]) -> list[Removed]:
        with self.transaction():
            return [self._removed(one) for one in removals]

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
                        raise moved(Change(thread_id, {}))
                    names = [name for name in _KEY if name in row.cells]
                    self.delete(Row(row.table, {name: row.cells[name] for name in names}))
                    self.insert(one.new)
            if found:
                raise moved(Change(thread_id, {}))

    def _known(self, rows: Iterable[Row]) -> Iterator[Row]:
        for row in rows:
            check_columns(row, self._store.columns, _KEY)
            yield row

    def _check(self, change: Change) -> None:
        """Raise `StoreChanged` unless the thread is as it was when the change was planned."""
        heads: dict[str, str] = {}
        for one in self._store.checkpoints(change.thread_id):
            heads.setdefault(one.key.checkpoint_ns, one.key.checkpoint_id)
        if heads != dict(change.heads):
            raise moved(change)
        found = {one.key for one in self._store.checkpoints_at(change.relied_on)}
        for key in change.relied_on:
            if key not in found:
                raise gone(key)

    def _remove(self, change: Change) -> None:
        """Remove checkpoints and their writes, whose numbers must be as planned."""
        removed = change.removed or {}
        found: dict[CheckpointKey, list[Row]] = {key: [] for key in removed}
        for row in self._keys(change.thread_id) if removed else ():
            if (rows := found.get(_place(row))) is not None:
                rows.append(row)
        for key, rows in found.items():
            writes = sum(map(_is_write, rows))
            if writes != removed[key]:
                raise moved(change)
            if writes == len(rows):
                raise gone(key)
            for row in rows:
                self.delete(row)

    def _copy(self, change: Change) -> None:
        """Copy rows, reading the rows of each thread once."""
        copies = [self._copy_of(one, change.thread_id) for one in change.copies]
        copies += [_Copy(o.source, o.target, None, set(o.tasks)) for o in change.copies_of_writes]
        by_source: dict[CheckpointKey, list[_Copy]] = {}
        for one in copies:
            by_source.setdefault(one.source, []).append(one)
        for thread_id in {key.thread_id for key in by_source}:
            for row in self._store.rows(thread_id):
                for one in by_source.get(_place(row), ()):
                    if (new := one.of(row)) is not None:
                        self.insert(new)
        for one in copies:
            if one.is_unfinished:
                raise gone(one.source)

    def _copy_of(self, copy: CopyOfCheckpoint, thread_id: str) -> _Copy:
        target = copy.source._replace(thread_id=thread_id)
        cells: dict[str, Cell] = {"thread_id": thread_id}
        if copy.body is not None or copy.metadata is not None:
            found = self._store.checkpoints_at([copy.source], body=True, metadata=True)
            old = next(iter(found), None)
            if old is None:
                raise gone(copy.source)
            body, metadata = copy.body or old.body, copy.metadata or old.metadata
            new = old._replace(key=target, body=body, metadata=metadata)
            cells |= self.checkpoint_row(new).cells
        tasks = None if copy.writes is None else set(copy.writes)
        return _Copy(copy.source, target, cells, tasks)

    def _removed(self, removal: Removal) -> Removed:
        thread_id = removal.thread_id
        thread = self._store.thread(thread_id)
        keys = self._keys(thread_id)
        writes = sum(map(_is_write, keys))
        last_at, checkpoints = (None, 0) if thread is None else (thread.last_at, thread.checkpoints)
        if reason := removal.reason_to_skip(last_at, checkpoints, writes):
            return Removed(thread_id, skipped=reason)
        chosen = [row for row in keys if removal.inside is None or _is_in(row, removal.inside)]
        for row in chosen:
            self.delete(row)
        return Removed(thread_id, Counter(row.table for row in chosen))

    def _keys(self, thread_id: str) -> list[Row]:
        """The keys of all rows of a thread, without their values."""
        return [
            Row(row.table, {name: row.cells[name] for name in _KEY if name in row.cells})
            for row in self._store.rows(thread_id)
        ]


@dataclass
class _Copy:
    """One checkpoint to copy, or only some of its writes."""

    source: CheckpointKey
    target: CheckpointKey
    cells: Mapping[str, Cell] | None
    """Cells of the new checkpoint that replace the original's; None to copy no checkpoint."""
    tasks: set[tuple[str, int]] | None
    """The writes to copy that were not copied yet, as (task id, idx); None for all writes."""
    is_checkpoint_copied: bool = False

    def of(self, row: Row) -> Row | None:
        """The copy of a row of the source; None if this row is not copied."""
        if not _is_write(row):
            self.is_checkpoint_copied = True
            return None if self.cells is None else Row(row.table, {**row.cells, **self.cells})
        task = (str(row.cells["task_id"]), int(str(row.cells["idx"])))
        if self.tasks is not None:
            if task not in self.tasks:
                return None
            self.tasks.remove(task)
        place = {"thread_id": self.target.thread_id, "checkpoint_id": self.target.checkpoint_id}
        return Row(row.table, {**row.cells, **place})

    @property
    def is_unfinished(self) -> bool:
        """Whether the store lacks something of the source."""
        return bool(self.tasks) or not (self.cells is None or self.is_checkpoint_copied)


def _is_write(row: Row) -> bool:
    return "task_id" in row.cells


def _place(row: Row) -> CheckpointKey:
    return CheckpointKey(*(str(row.cells[name]) for name in _KEY[:3]))


def _is_in(row: Row, inside: Inside) -> bool:
    key = _place(row)
    return key.checkpoint_id in inside.checkpoints.get(key.checkpoint_ns, ())
