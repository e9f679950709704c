"""Changes the tables of LangGraph's savers, with one transaction for each change.

The engine's lock prevents two changes of the same thread at the same time. Savers need not take
that lock, so before the commit the transaction checks that no saver has added a checkpoint. Columns
are always named, because their order differs between releases of the savers.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby

from ckpt_backends.base import BaseWritableStore
from ckpt_backends.changes import (
    Change,
    CopyOfCheckpoint,
    Inside,
    Remaining,
    Remains,
    Removal,
    Removed,
    gone,
    moved,
)
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import CheckpointKey, Progress, TypedBytes, in_chunks, silent, time_of
from ckpt_backends.rows import Cell, Restored, Row, RowEdit
from ckpt_backends.servers import CHANGES, checked
from ckpt_backends.sql.database import Loaded, RowRefused, WritableDatabase, text
from ckpt_backends.sql.queries import SqlTable, SqlTables
from ckpt_backends.sql.row_changes import RowChanges
from ckpt_backends.transfer.form import CannotHold
from ckpt_backends.transfer.parts import Arrival, CheckpointPart, Part, WritePart
from ckpt_backends.url import StoreUrl

# Removes threads, or parts of threads, from the tables of a saver, inside a transaction.
#
# A saver stores a checkpoint without checking that the values it names still exist. So no saver
# may write to a thread between the check of the thread and its removal:
# `transaction(exclusive=True)` and `lock_rows` of the engine prevent that. The tables are locked
# in the order of the saver's `put`, to avoid deadlocks.


_NONE = (0, "")
"""The state of a thread without rows in a table."""
_Place = tuple[str, Mapping[str, str], Sequence[str]]
"""A namespace, the rest of a condition, and the cells of which a row must have one."""


def remove_threads(
    database: WritableDatabase, rows: RowChanges, tables: SqlTables, removals: Sequence[Removal]
) -> list[Removed]:
    """Remove the planned rows of each thread that has not changed."""
    remover = _Remover(database, rows, tables)
    return [one for chunk in in_chunks(removals) for one in remover.remove(chunk)]


class _Remover:
    """Removes rows of threads from the tables of a saver."""

    def __init__(self, database: WritableDatabase, rows: RowChanges, tables: SqlTables) -> None:
        self._database = database
        self._rows = rows
        self._tables = tables
        self._checkpoints, self._writes = tables.checkpoints.name, tables.writes.name
        self._blobs = tables.blobs.name if tables.blobs else ""
        blobs = [self._blobs] if tables.blobs else []
        self._to_lock = (*blobs, self._checkpoints, self._writes)
        self._to_remove = (self._writes, *blobs, self._checkpoints)

    def remove(self, removals: Sequence[Removal]) -> Iterator[Removed]:
        """Remove some threads, or parts of them."""
        ids = [one.thread_id for one in removals if self._database.storable(one.thread_id)]
        states = {table: self._states(table, ids) for table in self._to_lock}
        whole = []
        for one in removals:
            found = {table: states[table].get(one.thread_id, _NONE) for table in self._to_remove}
            checkpoints, newest = found[self._checkpoints]
            writes, _ = found[self._writes]
            if reason := one.reason_to_skip(time_of(newest), checkpoints, writes):
                yield Removed(one.thread_id, skipped=reason)
            elif one.inside is not None:
                yield Removed(one.thread_id, self._remove_inside(one.thread_id, one.inside))
            else:
                counts = {table: number for table, (number, _) in found.items()}
                if any(counts.values()):
                    whole.append(one.thread_id)
                yield Removed(one.thread_id, counts)
        for table in self._to_remove if whole else ():
            self._rows.remove(table, {"thread_id": whole})

    def _states(self, table: str, thread_ids: list[str]) -> dict[str, tuple[int, str]]:
        """By thread, its number of rows and its newest checkpoint. Locks these rows."""
        if not thread_ids:
            return {}
        exact, is_head = self._database.exact, table == self._checkpoints
        newest = f"max({exact(self._tables.own_id)})" if is_head else "NULL"
        found = self._rows.select(
            table,
            f"{exact('thread_id')} AS thread, count(*), {newest}",
            {"thread_id": thread_ids},
            f"GROUP BY thread {self._database.lock_rows}",
        )
        return {text(thread): (number, text(last)) for thread, number, last in found}

    def _remove_inside(self, thread_id: str, inside: Inside) -> Mapping[str, int]:
        """Remove some checkpoints of a thread with their writes, and some values."""
        tables, storable = self._tables, self._database.storable
        removed = dict.fromkeys(self._to_remove, 0)
        versions: dict[tuple[str, str], list[str]] = {}
        for blob in inside.blobs:
            versions.setdefault((blob.checkpoint_ns, blob.channel), []).append(blob.version)
        by_ns: list[_Place] = [(ns, {}, ids) for ns, ids in inside.checkpoints.items()]
        by_channel: list[_Place] = [
            (ns, {"channel": channel}, some) for (ns, channel), some in versions.items()
        ]
        for table, column, places in (
            (self._writes, "checkpoint_id", by_ns),
            (self._blobs, "version", by_channel),
            (self._checkpoints, tables.own_id, by_ns),
        ):
            for ns, channel, wanted in places:
                if all(map(storable, (ns, *channel.values()))):
                    where = {"thread_id": thread_id, **tables.namespace(ns), **channel}
                    for chunk in in_chunks(filter(storable, wanted)):
                        removed[table] += self._rows.remove(table, {**where, column: chunk})
        return removed


# Adds the parts of threads to the tables of LangGraph's savers, many rows with one statement.


_BYTES, _ROWS = 4 << 20, 5000
"""Values and rows that are kept for each table before they are sent."""
_OF_ROW = 100
"""Approximate bytes of the keys of a row."""
_KEY = ("thread_id", "checkpoint_ns")


class _TableRows:
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


class Loading:
    """Adds parts to the tables of a saver."""

    def __init__(self, database: WritableDatabase, tables: SqlTables, url: StoreUrl) -> None:
        self.added: Counter[tuple[str, str]] = Counter()
        """By thread and namespace, the number of checkpoints that were added."""
        self._url = url
        hashed = [
            name
            for name in tables.namespace("")
            if name not in _KEY and name in tables.checkpoints.columns
        ]
        self._hash = _hashes(tables) if hashed else None
        typed = () if tables.blobs else ("type",)
        body = ("parent_checkpoint_id", *typed, "checkpoint", "metadata")
        self._has_body_type = bool(typed)
        self._has_paths = tables.task_path
        path = ("task_path",) if tables.task_path else ()
        task = ("task_id", "idx", "channel", "type", next(iter(tables.writes.sizes)), *path)

        def rows_of(table: SqlTable, *columns: str) -> _TableRows:
            return _TableRows(database, table, (*_KEY, *columns, *hashed))

        self._checkpoints = rows_of(tables.checkpoints, "checkpoint_id", *body)
        self._writes = rows_of(tables.writes, "checkpoint_id", *task)
        self._blobs = None
        if tables.blobs:
            self._blobs = rows_of(tables.blobs, "channel", "version", "type", "blob")

    def add(self, parts: Iterable[Part]) -> None:
        """Add parts. Raises `CannotHold` for one that the engine refuses, and `Unsupported`."""
        for part in parts:
            if isinstance(part, WritePart):
                self._add_write(part)
            elif isinstance(part, CheckpointPart):
                self._add_checkpoint(part)
            else:
                data = None if part.value.type == "empty" else part.value.data
                place = part.thread_id, part.checkpoint_ns, part.channel, part.version
                row = self._hashed((*place, part.value.type, data), part.checkpoint_ns)
                assert self._blobs is not None  # noqa: S101 - the form has values apart
                self._blobs.add(row, len(part.value.data))

    def finish(self) -> None:
        """Send what was not sent yet: checkpoints last, which make the rest visible."""
        for rows in (self._blobs, self._writes, self._checkpoints):
            if rows is not None:
                rows.send()

    def _add_checkpoint(self, part: CheckpointPart) -> None:
        key, body, metadata = part.key, part.body, part.metadata
        ns = key.checkpoint_ns
        typed = (body.type,) if self._has_body_type else ()
        place = key.thread_id, ns, key.checkpoint_id, part.parent
        row = self._hashed((*place, *typed, body.data, metadata.data), ns)
        self.added[key.thread_id, ns] += 1
        self._checkpoints.add(row, len(body.data) + len(metadata.data))

    def _add_write(self, part: WritePart) -> None:
        key, value = part.key, part.value
        if self._has_paths:
            path: tuple[str, ...] = (part.task_path,)
        elif part.task_path:
            raise Unsupported(
                f"'{self._url}' has no column for the task paths of writes",
                hint="run setup() of the newest saver once; it adds the column",
            )
        else:
            path = ()
        row = (*key, part.task_id, part.idx, part.channel, value.type, value.data, *path)
        self._writes.add(self._hashed(row, key.checkpoint_ns), len(value.data))

    def _hashed(self, row: Loaded, checkpoint_ns: str) -> Loaded:
        """A row with the hash of its namespace, if the table has one."""
        return row if self._hash is None else (*row, *self._hash(checkpoint_ns))


def _hashes(tables: SqlTables) -> Callable[[str], tuple[object, ...]]:
    """What a row has after its other cells: the hash of its namespace."""
    return cache(lambda ns: tuple(tables.namespace(ns).values()))


@checked(*CHANGES)
class WritableSqlStore(BaseWritableStore):
    """A database with the tables of a saver, opened for changing."""

    def __init__(self, database: WritableDatabase, url: StoreUrl, tables: SqlTables) -> None:
        self._database = database
        self._url = url
        self._tables = tables
        names = {table.name: table.sql for table in tables.all}
        self._rows = RowChanges(database, names, {one.name: one.columns for one in tables.all})
        self._checkpoints, self._writes = tables.checkpoints.name, tables.writes.name
        self._blobs = tables.blobs.name if tables.blobs else ""

    def apply(self, change: Change) -> None:
        if self._tables.shallow:
            raise Unsupported(f"'{self._url}' keeps no history, so no checkpoint can be added")
        with self._database.transaction(change.thread_id):
            heads = self._heads(change.thread_id)
            if {ns: head for ns, (head, _) in heads.items()} != dict(change.heads):
                raise moved(change)
            for key in change.relied_on:
                if not self._rows.select(self._tables.checkpoints.name, "1", self._at(key)):
                    raise gone(key)
            if change.checkpoints or change.copies:
                self._check_thread(change.thread_id)
            self._remove(change)
            self._add(change)
            self._copy(change.thread_id, change.copies)
            for copy in change.copies_of_writes:
                self._copy_tasks(copy.source, copy.target, copy.tasks)
            number = sum(count for _, count in heads.values())
            number += len(change.checkpoints) + len(change.copies) - len(change.removed or {})
            if sum(count for _, count in self._heads(change.thread_id).values()) != number:
                raise moved(change)

    def remove(self, removals: Sequence[Removal]) -> list[Removed]:
        with self._database.transaction(exclusive=True):
            return remove_threads(self._database, self._rows, self._tables, removals)

    def restore(self, rows: Iterable[Row]) -> Restored:
        with self._database.transaction():
            return self._rows.restore(self._checked(rows))

    def receive(self, arrivals: Iterable[Arrival]) -> None:
        found = list(arrivals)
        ids = [one.thread_id for one in found]
        with self._database.transaction():
            before = self._heads_of(ids)
            for arrival in found:
                heads = {ns: head for ns, (head, _) in before[arrival.thread_id].items()}
                if heads != dict(arrival.heads):
                    raise moved(Change(arrival.thread_id, arrival.heads))
            loading = Loading(self._database, self._tables, self._url)
            for arrival in found:
                loading.add(arrival.parts)
            loading.finish()
            self._check_received(ids)
            after = self._heads_of(ids)
            for one in found:
                had = before[one.thread_id]
                for ns, (_, number) in after[one.thread_id].items():
                    added = loading.added[one.thread_id, ns]
                    if number != had.get(ns, ("", 0))[1] + added:
                        raise moved(Change(one.thread_id, one.heads))

    def replace(self, thread_id: str, edits: Iterable[RowEdit]) -> None:
        with self._database.holding_changes(), self._database.transaction(thread_id):
            for one in edits:
                if not self._rows.replace(self._stored(one.stored), self._stored(one.new)):
                    raise moved(Change(thread_id, {}))

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

    def _body(self, body: TypedBytes | None, metadata: TypedBytes | None) -> dict[str, object]:
        """The cells of a checkpoint's body and metadata, of those that are given."""
        return {
            name: value.data.decode()
            for name, value in (("checkpoint", body), ("metadata", metadata))
            if value is not None
        }

    def _value(self, value: TypedBytes | None) -> dict[str, object]:
        """The cells of a value."""
        assert value is not None  # noqa: S101
        return {"type": value.type, "blob": None if value.type == "empty" else value.data}

    def _stored(self, row: Row) -> Row:
        """An archived row with the cells that its table stores."""
        return row

    def _at(self, key: CheckpointKey) -> dict[str, object]:
        return {
            "thread_id": key.thread_id,
            **self._tables.namespace(key.checkpoint_ns),
            "checkpoint_id": key.checkpoint_id,
        }

    def _heads(self, thread_id: str) -> dict[str, tuple[str, int]]:
        """By namespace, the id of the newest checkpoint and the number of checkpoints."""
        return self._heads_of([thread_id])[thread_id]

    def _heads_of(self, thread_ids: Sequence[str]) -> dict[str, dict[str, tuple[str, int]]]:
        """By thread, what `_heads` returns."""
        heads: dict[str, dict[str, tuple[str, int]]] = {one: {} for one in thread_ids}
        thread, ns = map(self._database.exact, ("thread_id", "checkpoint_ns"))
        for some in in_chunks(thread_ids):
            rows = self._rows.select(
                self._checkpoints,
                f"{thread} AS thread, {ns} AS ns, max(checkpoint_id), count(*)",
                {"thread_id": some},
                "GROUP BY thread, ns",
            )
            for one, found, head, number in rows:
                heads[text(one)][text(found)] = text(head), number
        return heads

    def _remove(self, change: Change) -> None:
        thread = {"thread_id": change.thread_id}
        for key, writes in (change.removed or {}).items():
            if self._rows.remove(self._writes, self._at(key)) != writes:
                raise moved(change)
            if self._rows.remove(self._checkpoints, self._at(key)) != 1:
                raise gone(key)
        if not self._blobs:
            return
        for ns, channel, version in change.removed_blobs:
            where = {**thread, **self._tables.namespace(ns), "channel": channel, "version": version}
            self._rows.remove(self._blobs, where)
        if change.removed and not self._heads(change.thread_id):
            # The last checkpoint of the thread was removed, so remove all its values.
            self._rows.remove(self._blobs, thread)

    def _add(self, change: Change) -> None:
        for one in change.checkpoints:
            parent = {"parent_checkpoint_id": one.parent_checkpoint_id}
            cells = {**self._new(one.key), **parent, **self._body(one.body, one.metadata)}
            self._rows.add(self._checkpoints, cells)
        for blob in change.blobs if self._blobs else ():
            place = self._new(CheckpointKey(change.thread_id, blob.checkpoint_ns, ""))
            named = {"channel": blob.channel, "version": blob.version}
            self._rows.add(self._blobs, {**place, **named, **self._value(blob.value)})
        columns = self._tables.writes.columns
        for write in change.writes:
            task: dict[str, object] = {
                **({"task_path": write.task_path} if "task_path" in columns else {}),
                **{"task_id": write.task_id, "idx": write.idx, "channel": write.channel},
            }
            self._rows.add(
                self._writes, {**self._new(write.key), **task, **self._value(write.value)}
            )

    def _new(self, key: CheckpointKey) -> dict[str, object]:
        """The cells of a new row."""
        return {**self._at(key), "checkpoint_ns": key.checkpoint_ns}

    def _copy(self, thread_id: str, copies: Sequence[CopyOfCheckpoint]) -> None:
        """Copy checkpoints of another thread with the values that they name and their writes.

        All checkpoints must be of the same thread.
        """
        new = {"thread_id": thread_id}
        for where, some in self._places(one for one in copies if not (one.body or one.metadata)):
            if self._rows.copy(self._checkpoints, new, where) != len(some):
                raise gone(some[0].source)
        for one in copies:
            if one.body or one.metadata:
                cells = {**new, **self._body(one.body, one.metadata)}
                if self._rows.copy(self._checkpoints, cells, self._at(one.source)) != 1:
                    raise gone(one.source)
        for where, _ in self._places(one for one in copies if one.writes is None):
            self._rows.copy(self._writes, new, where)
        for one in copies:
            target = CheckpointKey(thread_id, one.source.checkpoint_ns, one.source.checkpoint_id)
            self._copy_tasks(one.source, target, one.writes or ())
        if self._blobs:
            self._copy_blobs(thread_id, copies)

    def _copy_blobs(self, thread_id: str, copies: Sequence[CopyOfCheckpoint]) -> None:
        named: dict[tuple[str, str], set[str]] = {}
        for where, some in self._places(copies):
            of_new = {**where, "thread_id": thread_id}
            versions = self._database.json_member("checkpoint", "channel_versions")
            for (found,) in self._rows.select(self._checkpoints, versions, of_new):
                for channel, version in _items(found):
                    place = some[0].source.checkpoint_ns, channel
                    named.setdefault(place, set()).add(version)
        for (ns, channel), wanted in named.items():
            for chunk in in_chunks(sorted(wanted)):
                where = {
                    "thread_id": copies[0].source.thread_id,
                    **self._tables.namespace(ns),
                    "channel": channel,
                    "version": chunk,
                }
                self._rows.copy(self._blobs, {"thread_id": thread_id}, where)

    def _copy_tasks(
        self, source: CheckpointKey, target: CheckpointKey, tasks: Sequence[tuple[str, int]]
    ) -> None:
        """Copy single writes of a checkpoint to another one in the same namespace."""
        new = {"thread_id": target.thread_id, "checkpoint_id": target.checkpoint_id}
        for task_id, idx in tasks:
            where = {**self._at(source), "task_id": task_id, "idx": idx}
            if self._rows.copy(self._writes, new, where) != 1:
                raise gone(source)

    def _places(
        self, copies: Iterable[CopyOfCheckpoint]
    ) -> Iterator[tuple[Mapping[str, object], list[CopyOfCheckpoint]]]:
        """The copies in lists of one namespace, each with the condition on its originals."""
        ordered = sorted(copies, key=lambda one: one.source)
        for ns, group in groupby(ordered, lambda one: one.source.checkpoint_ns):
            for chunk in in_chunks(group):
                ids = [one.source.checkpoint_id for one in chunk]
                at = {"thread_id": chunk[0].source.thread_id, **self._tables.namespace(ns)}
                yield {**at, "checkpoint_id": ids}, chunk


def _items(found: object) -> Iterator[tuple[str, str]]:
    """The channels of a JSON object with their versions."""
    versions = json.loads(text(found) or "null")
    if isinstance(versions, dict):
        yield from ((channel, str(version)) for channel, version in versions.items())


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
