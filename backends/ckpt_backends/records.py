"""Changes of a store, written once over the rows of its engine.

A store on an engine with transactions derives from `RecordStore` and gives it `Rows`: how the rows
of a thread are counted, added, copied and removed inside a transaction. What is added comes as
records (`Record`); rows to copy or to remove are named by conditions, and the engine finds them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from itertools import groupby
from typing import NamedTuple, Protocol, TypeAlias

from ckpt_backends.base import BaseStore, BaseWritableStore
from ckpt_backends.changes import Change, CopyOfCheckpoint, Inside, Removal, Removed, gone, moved
from ckpt_backends.codec import decode
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import CheckpointKey, Kind, Record, TypedBytes, in_chunks
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
from ckpt_backends.transfer.copying import Arrival


class Where(NamedTuple):
    """Which rows of some threads are meant: those that satisfy all conditions but None."""

    thread_ids: Sequence[str]
    checkpoint_ns: str | None = None
    checkpoint_ids: Collection[str] | None = None
    tasks: Collection[tuple[str, int]] | None = None
    """Of one checkpoint, the writes with these task ids and idx."""
    channel: str | None = None
    versions: Collection[str] | None = None

    @classmethod
    def at(cls, key: CheckpointKey) -> Where:
        """One checkpoint, or its writes."""
        return cls([key.thread_id], key.checkpoint_ns, [key.checkpoint_id])

    def takes(self, ns: object, checkpoint_id: object, task: tuple[object, ...] = ()) -> bool:
        """Whether a checkpoint, or the write of a task, is meant; its thread is not looked at."""
        return (
            self.checkpoint_ns in (None, ns)
            and (self.checkpoint_ids is None or checkpoint_id in self.checkpoint_ids)
            and (self.tasks is None or task in self.tasks)
        )

    def takes_value(self, ns: str, channel: str, version: str) -> bool:
        """Whether a value is meant; its thread is not looked at."""
        return (
            self.checkpoint_ns in (None, ns)
            and self.channel in (None, channel)
            and (self.versions is None or version in self.versions)
        )


class CopyTarget(NamedTuple):
    """What copies of rows have in place of what the originals have."""

    thread_id: str
    checkpoint_id: str | None = None
    body: TypedBytes | None = None
    metadata: TypedBytes | None = None


class NamespaceState(NamedTuple):
    """The newest checkpoint of a namespace, and the number of all."""

    head: str
    checkpoints: int
    """0 in a layout without values of their own whose engine confirms a change in another way."""


Heads: TypeAlias = Mapping[str, Mapping[str, NamespaceState]]
"""By thread and namespace, the checkpoints that exist; without what has none."""


class ThreadState(NamedTuple):
    """The state of a thread, which a removal expects."""

    last_at: datetime | None = None
    """Time of its newest checkpoint; None if ids contain no time."""
    rows: Mapping[Kind, int] = {}


class Rows(Protocol):
    """The rows of threads inside one transaction."""

    tables: Mapping[Kind, str]
    """The tables of the layout, in the order in which rows are removed: checkpoints last."""

    @abstractmethod
    def heads(self, thread_ids: Sequence[str]) -> Heads:
        """The checkpoints of these threads."""

    @abstractmethod
    def states(self, thread_ids: Sequence[str]) -> Mapping[str, ThreadState]:
        """The states of threads that have rows. From now on they are locked, if the engine can."""

    @abstractmethod
    def count(self, kind: Kind, where: Where) -> int:
        """The number of these rows."""

    @abstractmethod
    def add(self, records: Iterable[Record]) -> None:
        """Add rows. Raises `CannotHold` or `Unsupported` for one that cannot be stored."""

    @abstractmethod
    def copy(self, kind: Kind, where: Where, target: CopyTarget) -> int:
        """Copy rows byte for byte, but for the target. Returns their number."""

    @abstractmethod
    def remove(self, kind: Kind, where: Where) -> int:
        """Remove rows without reading them. Returns their number."""

    def named(self, where: Where) -> Iterable[tuple[str, str]]:  # noqa: ARG002
        """The values that checkpoints name, as channel and version, if they are stored apart."""
        return ()

    def confirm(
        self,
        before: Heads,  # noqa: ARG002
        added: Mapping[tuple[str, str], int],  # noqa: ARG002
    ) -> None:
        """Raise `StoreChanged` if somebody else has added a checkpoint to a thread meanwhile.

        `before` has the heads of the threads at first, `added` by thread and namespace the number
        of checkpoints that were added. An engine that excludes others need not look.
        """
        return


class RecordStore(BaseWritableStore):
    """A store that is changed through `Rows`."""

    @abstractmethod
    def _transaction(
        self, thread_ids: Sequence[str], *, exclusive: bool = False
    ) -> AbstractContextManager[Rows]:
        """A transaction that changes these threads: committed at the end, unless there is an error.

        `exclusive` keeps others from adding rows to the threads that are read in it. Raises
        `StoreUnavailable` if a lock cannot be acquired in a few seconds.
        """

    def _check(self, change: Change) -> None:
        """Raise `Unsupported` for a change that the layout cannot hold."""

    def apply(self, change: Change) -> None:
        self.apply_all([change])

    def apply_all(self, changes: Sequence[Change]) -> None:
        for one in changes:
            self._check(one)
        with self._transaction([one.thread_id for one in changes]) as rows:
            before = _expected(rows, {one.thread_id: one.heads for one in changes})
            number: Counter[tuple[str, str]] = Counter()
            for one in changes:
                _check_there(rows, one)
                _take_back(rows, one)
                removed, had = one.removed or {}, before[one.thread_id].values()
                if len(removed) == sum(each.checkpoints for each in had) > 0:
                    # The last checkpoint of the thread was removed, so all its values go, too.
                    rows.remove(Kind.VALUE, Where([one.thread_id]))
                # What is added may take after the copies: in some layouts, the user of a thread.
                _copy(rows, one)
                number.update((one.thread_id, key.checkpoint_ns) for key in one.added)
                number.subtract((one.thread_id, key.checkpoint_ns) for key in removed)
            rows.add(record for one in changes for record in one.records)
            rows.confirm(before, number)

    def receive(self, arrivals: Iterable[Arrival]) -> None:
        found = list(arrivals)
        number: Counter[tuple[str, str]] = Counter()
        with self._transaction([one.thread_id for one in found]) as rows:
            before = _expected(rows, {one.thread_id: one.heads for one in found})
            rows.add(_counted(found, number))
            rows.confirm(before, number)

    def remove(self, removals: Sequence[Removal]) -> list[Removed]:
        with self._transaction([one.thread_id for one in removals], exclusive=True) as rows:
            done: list[Removed] = []
            for some in in_chunks(removals):
                states = rows.states([one.thread_id for one in some])
                done += removed_threads(rows, some, states)
            return done


def check_numbers(before: Heads, after: Heads, added: Mapping[tuple[str, str], int]) -> None:
    """Raise `StoreChanged` unless threads have as many checkpoints as were there and were added."""
    for thread_id, had in before.items():
        has = after.get(thread_id, {})
        for ns in {*had, *has}:
            old, new = (one[ns].checkpoints if ns in one else 0 for one in (had, has))
            if new != old + added.get((thread_id, ns), 0):
                raise moved(thread_id)


def copied_from(one: Record) -> str | None:
    """The id of the original that a copy names in its metadata (`forked_from`); None if none."""
    fields = decode(one.metadata)
    name = fields.get("forked_from") if isinstance(fields, dict) else None
    return name if isinstance(name, str) else None


def removed_threads(
    rows: Rows, removals: Sequence[Removal], states: Mapping[str, ThreadState]
) -> Iterator[Removed]:
    """Remove what is planned of each thread that, by these states, has not changed."""
    whole: list[str] = []
    for one in removals:
        state = states.get(one.thread_id, ThreadState())
        checkpoints, writes = (state.rows.get(kind, 0) for kind in (Kind.CHECKPOINT, Kind.WRITE))
        if reason := one.reason_to_skip(state.last_at, checkpoints, writes):
            yield Removed(one.thread_id, skipped=reason)
            continue
        if one.inside is None:
            whole.append(one.thread_id)
            number = state.rows
        else:
            number = _removed_inside(rows, one.thread_id, one.inside)
        counts = {table: number.get(kind, 0) for kind, table in rows.tables.items()}
        yield Removed(one.thread_id, counts)
    for kind in rows.tables if whole else ():
        rows.remove(kind, Where(whole))


def _removed_inside(rows: Rows, thread_id: str, inside: Inside) -> Mapping[Kind, int]:
    """Remove some checkpoints of a thread with their writes, and some values."""
    number: Counter[Kind] = Counter()
    versions: dict[tuple[str, str], list[str]] = {}
    for blob in inside.blobs:
        versions.setdefault((blob.checkpoint_ns, blob.channel), []).append(blob.version)
    checkpoints = [Where([thread_id], ns, frozenset(ids)) for ns, ids in inside.checkpoints.items()]
    for where in checkpoints:
        number[Kind.WRITE] += rows.remove(Kind.WRITE, where)
    for (ns, channel), some in versions.items():
        where = Where([thread_id], ns, channel=channel, versions=frozenset(some))
        number[Kind.VALUE] += rows.remove(Kind.VALUE, where)
    for where in checkpoints:
        number[Kind.CHECKPOINT] += rows.remove(Kind.CHECKPOINT, where)
    return number


def _expected(
    rows: Rows, heads: Mapping[str, Mapping[str, str]]
) -> dict[str, Mapping[str, NamespaceState]]:
    """The heads of some threads. Raises `StoreChanged` unless they are as expected."""
    found = rows.heads(list(heads))
    before = {thread_id: found.get(thread_id, {}) for thread_id in heads}
    for thread_id, wanted in heads.items():
        if {ns: one.head for ns, one in before[thread_id].items()} != dict(wanted):
            raise moved(thread_id)
    return before


def _counted(arrivals: Sequence[Arrival], number: Counter[tuple[str, str]]) -> Iterator[Record]:
    """The records of all arrivals. Counts their checkpoints."""
    for one in arrivals:
        for record in one.records:
            if record.kind is Kind.CHECKPOINT:
                number[record.key.thread_id, record.key.checkpoint_ns] += 1
            yield record


def _check_there(rows: Rows, change: Change) -> None:
    """Raise `StoreChanged` if a checkpoint is gone that the change relies on.

    Those that are heads were seen already.
    """
    for key in change.relied_on:
        is_head = key.thread_id == change.thread_id and (
            change.heads.get(key.checkpoint_ns) == key.checkpoint_id
        )
        if not is_head and not rows.count(Kind.CHECKPOINT, Where.at(key)):
            raise gone(key)


def _take_back(rows: Rows, change: Change) -> None:
    """Remove what the change names."""
    for key, writes in (change.removed or {}).items():
        if rows.remove(Kind.WRITE, Where.at(key)) != writes:
            raise moved(change.thread_id)
        if rows.remove(Kind.CHECKPOINT, Where.at(key)) != 1:
            raise gone(key)
    for ns, channel, version in change.removed_blobs:
        where = Where([change.thread_id], ns, channel=channel, versions=[version])
        rows.remove(Kind.VALUE, where)


def _copy(rows: Rows, change: Change) -> None:
    """Copy checkpoints of one other thread with their writes and values, and single writes."""
    to, copies = CopyTarget(change.thread_id), change.copies
    for where, some in _places(one for one in copies if not (one.body or one.metadata)):
        if rows.copy(Kind.CHECKPOINT, where, to) != len(some):
            raise gone(some[0].source)
    for one in copies:
        if one.body or one.metadata:
            changed = to._replace(body=one.body, metadata=one.metadata)
            if rows.copy(Kind.CHECKPOINT, Where.at(one.source), changed) != 1:
                raise gone(one.source)
    for where, _ in _places(one for one in copies if one.writes is None):
        rows.copy(Kind.WRITE, where, to)
    for one in copies:
        _copy_tasks(rows, one.source, to, one.writes or ())
    for other in change.copies_of_writes:
        to = CopyTarget(other.target.thread_id, other.target.checkpoint_id)
        _copy_tasks(rows, other.source, to, other.tasks)
    _copy_values(rows, change)


def _copy_tasks(
    rows: Rows, source: CheckpointKey, to: CopyTarget, tasks: Sequence[tuple[str, int]]
) -> None:
    where = Where.at(source)._replace(tasks=tasks)
    if tasks and rows.copy(Kind.WRITE, where, to) != len(tasks):
        raise gone(source)


def _copy_values(rows: Rows, change: Change) -> None:
    """Copy the values that the copied checkpoints name, each once."""
    named: dict[tuple[str, str], set[str]] = {}
    for where, some in _places(change.copies):
        for channel, version in rows.named(where._replace(thread_ids=[change.thread_id])):
            named.setdefault((some[0].source.checkpoint_ns, channel), set()).add(version)
    for (ns, channel), versions in named.items():
        source = [change.copies[0].source.thread_id]
        where = Where(source, ns, channel=channel, versions=versions)
        rows.copy(Kind.VALUE, where, CopyTarget(change.thread_id))


def _places(copies: Iterable[CopyOfCheckpoint]) -> Iterator[tuple[Where, list[CopyOfCheckpoint]]]:
    """The copies in lists of one namespace, each with the condition on its originals."""
    ordered = sorted(copies, key=lambda one: one.source)
    for (thread_id, ns), group in groupby(ordered, lambda one: one.source[:2]):
        for chunk in in_chunks(group):
            yield Where([thread_id], ns, {one.source.checkpoint_id for one in chunk}), chunk


# Changes a store row by row: the base class for adapters of simple layouts.
#
# It is for layouts with one row for each checkpoint and one for each write, whose values are in the
# bodies of checkpoints (`Capability.INLINE_VALUES`), and for engines with transactions. Other
# layouts with transactions derive from `RecordStore` itself, as the SQL savers with several tables
# do in `ckpt_backends.sql`; others implement `WritableStore`.


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
    def row_of(self, record: Record) -> Row:
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

    def add(self, records: Iterable[Record]) -> None:
        for record in records:
            if record.kind is Kind.VALUE:
                raise Unsupported("this layout stores values in the bodies of checkpoints")
            self._changes.insert(self._changes.row_of(record))

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
