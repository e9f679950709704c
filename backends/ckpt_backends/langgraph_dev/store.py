"""Reads the files of `langgraph dev` for Python; `javascript` reads the other one in the same way.

No file is unpickled. `codec.pickle` parses each file once without running its code, and long
values stay in the file until they are needed. Listings use only the keys.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from ckpt_backends.base import BaseStore
from ckpt_backends.errors import StoreUnavailable, Unsupported
from ckpt_backends.langgraph_dev import files as server
from ckpt_backends.langgraph_dev.declaration import BACKEND, CHECKPOINTS, LAYOUT
from ckpt_backends.langgraph_dev.files import (
    BLOBS,
    NAMES,
    WRITES,
    StoredCheckpoint,
    StoredValue,
    StoredWrite,
    Tables,
    WriteKey,
    named,
    stamps,
)
from ckpt_backends.model import (
    Blob,
    BlobKey,
    Checkpoint,
    CheckpointKey,
    Fault,
    StoreInfo,
    Thread,
    ThreadSize,
    TypedBytes,
    Usage,
    Write,
    is_wanted,
)
from ckpt_backends.protocol import CheckpointOptions, CheckpointQuery, WriteOptions, WriteQuery
from ckpt_backends.rows import Cell, Row, own_rows
from ckpt_backends.sql.tables import BLOBS as BLOB_TABLE
from ckpt_backends.sql.tables import CHECKPOINTS as CHECKPOINT_TABLE
from ckpt_backends.sql.tables import WRITES as WRITE_TABLE
from ckpt_backends.url import StoreUrl

# Converts the entries of `langgraph dev`'s files to rows, and rows to entries.
#
# A row has the table name and the columns that LangGraph's SQL savers use for the same data.


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


Entry = StoredCheckpoint | StoredWrite | StoredValue
EntryKey = tuple[Any, ...]
"""Thread, namespace, checkpoint id, and of a write the task id and idx; or a `ValueKey`."""
Keep = Callable[[TypedBytes], StoredValue]
"""Keeps the bytes of a value until the files are written."""


def row_of(table: str, key: EntryKey, entry: Entry, tables: Tables) -> Row:
    """An entry as a row."""

    def cells(tag: str, data: str, value: StoredValue) -> dict[str, Cell]:
        return {tag: value.type, data: tables.bytes(FILES[table], value)}

    match entry:
        case StoredCheckpoint():
            place: dict[str, Cell] = dict(zip(_KEY, key, strict=True))
            body = cells("type", "checkpoint", entry.body)
            metadata = cells("metadata_type", "metadata", entry.metadata)
            return Row(table, {**place, "parent_checkpoint_id": entry.parent, **body, **metadata})
        case StoredWrite():
            place = dict(zip((*_KEY, "task_id", "idx"), key, strict=True))
            place |= {"task_path": entry.task_path, "channel": entry.channel}
            return Row(table, {**place, **cells("type", "blob", entry.value)})
    place = dict(zip(("thread_id", "checkpoint_ns", "channel", "version"), key, strict=True))
    return Row(table, {**place, **cells("type", "blob", entry)})


def entry_of(row: Row, keep: Keep) -> tuple[EntryKey, Entry]:
    """A row as an entry, with its key. Raises `Unsupported` if the row is of another layout."""
    try:
        match row.table:
            case "checkpoints":
                return tuple(_text(row, name) for name in _KEY), StoredCheckpoint(
                    _stored(row, "type", "checkpoint", keep),
                    _stored(row, "metadata_type", "metadata", keep),
                    _optional(row, "parent_checkpoint_id"),
                )
            case "checkpoint_writes":
                idx = row.cells["idx"]
                if not isinstance(idx, int) or not is_storable(idx):
                    raise Unsupported(f"column 'idx' of a row of '{row.table}' holds no number")
                value = _stored(row, "type", "blob", keep)
                key = (*(_text(row, name) for name in (*_KEY, "task_id")), idx)
                return key, StoredWrite(_text(row, "channel"), value, _optional(row, "task_path"))
            case "checkpoint_blobs":
                version = row.cells["version"]
                if not isinstance(version, str | int | float) or not is_storable(version):
                    raise Unsupported(
                        f"column 'version' of a row of '{row.table}' holds no version"
                    )
                key = (*(_text(row, name) for name in (*_KEY[:2], "channel")), version)
                return key, _stored(row, "type", "blob", keep)
    except KeyError as error:
        raise Unsupported(f"cannot restore: a row of '{row.table}' lacks {error}") from error
    raise Unsupported(
        f"cannot restore: no table '{row.table}' in this layout",
        hint="import the archive into a store of the layout that it was exported from",
    )


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


def _stored(row: Row, tag: str, data: str, keep: Keep) -> StoredValue:
    found: Cell = row.cells[data]
    if not isinstance(found, bytes):
        raise Unsupported(f"column '{data}' of a row of '{row.table}' holds no bytes")
    return keep(TypedBytes(_text(row, tag), found))


# Entries of the files that no saver writes, and threads whose entries contradict each other.


_OF_VALUES = ("a checkpoint's writes", "a write", "a value")


def entry_faults(tables: Tables) -> Iterator[Fault]:
    """A fault for each entry of a file that has another form than the saver's."""
    _ = tables.checkpoints, tables.writes, tables.blobs  # parse the files
    for entry in tables.ignored:
        code = "value-unreadable" if entry.startswith(_OF_VALUES) else "body-unreadable"
        yield Fault(code, f"an entry that no saver writes: {entry}")


def suspects(tables: Tables) -> Iterator[str]:
    """The ids of the threads that `Store.suspect_threads` promises."""
    for thread_id in {**tables.checkpoints, **tables.writes_of}:
        if _is_suspect(tables, thread_id):
            yield thread_id


def _is_suspect(tables: Tables, thread_id: str) -> bool:
    namespaces = tables.checkpoints.get(thread_id, {})
    for rows in namespaces.values():
        for own, row in rows.items():
            if row.parent is not None and (row.parent not in rows or row.parent >= own):
                return True
    return any(
        own not in namespaces.get(ns, {}) for _, ns, own in tables.writes_of.get(thread_id, ())
    )


_SHOWN = 3


class DevStore(BaseStore):
    """A folder of `langgraph dev`, opened for reading."""

    sums_sizes = True
    layout = LAYOUT
    engine = "pickle files"
    names: Collection[str] = NAMES

    def __init__(self, url: StoreUrl, folder: Path) -> None:
        self._url = url
        self._folder = folder
        self._open: Tables | None = self._opened()

    def _opened(self) -> Tables:
        """The tables as they are now, with the checkpoints parsed."""
        found = self._read()
        try:
            _ = found.checkpoints
        except BaseException:
            found.close()
            raise
        return found

    def _read(self) -> Tables:
        return Tables(self._folder)

    def _saver(self) -> str:
        apart = BLOBS in self._tables.files.opened
        return (
            f"langgraph-checkpoint {'2.1 or later' if apart else 'before 2.1'},"
            " InMemorySaver of langgraph dev"
        )

    def describe(self) -> StoreInfo:
        files = self._tables.files
        return StoreInfo(
            layout=self.layout,
            url=str(self._url),
            engine=self.engine,
            saver=self._saver(),
            capabilities=BACKEND.layouts[self.layout],
            tables=tuple(name for name in self.names if name in files.stamps),
            size=sum(size for _, _, size, _ in files.stamps.values()),
            notes=tuple(self.notes()),
        )

    def notes(self) -> Sequence[str]:
        found = []
        if reason := self._running():
            found.append(
                f"langgraph dev may be running ({reason}): checkpoints that it has not saved yet"
                " are missing here"
            )
        ignored = self._tables.ignored
        found += [f"ignored an entry that no saver writes: {one}" for one in ignored[:_SHOWN]]
        if more := len(ignored[_SHOWN:]):
            found.append(f"ignored {more} more entries")
        return found

    def _running(self) -> str:
        """Why the server probably runs; `''` if it does not."""
        return server.running(self._folder)

    def threads(self, *, limit: int | None = None) -> Iterator[Thread]:
        found = [
            (max(newest), thread_id)
            for thread_id, namespaces in self._tables.checkpoints.items()
            if (newest := [max(rows) for rows in namespaces.values() if rows])
        ]
        found.sort(key=lambda one: one[1])
        found.sort(key=lambda one: one[0], reverse=True)
        for _, thread_id in found[:limit]:
            yield self._thread(thread_id, self._tables.checkpoints[thread_id])

    def thread(self, thread_id: str) -> Thread | None:
        namespaces = self._tables.checkpoints.get(thread_id, {})
        return self._thread(thread_id, namespaces) if any(namespaces.values()) else None

    def _thread(
        self, thread_id: str, namespaces: Mapping[str, Mapping[str, StoredCheckpoint]]
    ) -> Thread:
        filled = {ns: rows for ns, rows in namespaces.items() if rows}
        ids = [one for rows in filled.values() for one in rows]
        return Thread(
            thread_id,
            max(filled[""]) if "" in filled else None,
            min(ids),
            max(ids),
            len(ids),
            len(filled),
        )

    def checkpoint_sizes(self, thread_id: str) -> Iterator[tuple[CheckpointKey, ThreadSize]]:
        for ns, in_ns in self._tables.checkpoints.get(thread_id, {}).items():
            for name, row in in_ns.items():
                size = row.body.size + row.metadata.size
                yield CheckpointKey(thread_id, ns, name), ThreadSize(1, 0, size)
        for place, _, write in self._writes_of(thread_id):
            yield CheckpointKey(*place), ThreadSize(0, 1, write.value.size)

    def usage(self, thread_id: str | None = None) -> Iterator[Usage]:
        tables = self._tables
        # Also threads that have only values or writes.
        asked = {*tables.checkpoints, *tables.writes_of, *tables.blobs_of}
        for one in sorted(asked) if thread_id is None else [thread_id]:
            yield from super().usage(one)

    def _lengths(
        self, thread_id: str
    ) -> Iterator[tuple[tuple[str, str, str, str | None, str], int]]:
        tables = self._tables
        for ns, in_ns in tables.checkpoints.get(thread_id, {}).items():
            for row in in_ns.values():
                for column, part in (("checkpoint", row.body), ("metadata", row.metadata)):
                    yield (CHECKPOINT_TABLE, column, ns, None, part.type), part.size
        for place in tables.blobs_of.get(thread_id, ()):
            _, ns, channel, _ = place
            blob = tables.blobs[place]
            yield (BLOB_TABLE, "blob", ns, channel, blob.type), blob.size
        for key, _, write in self._writes_of(thread_id):
            value = write.value
            yield (WRITE_TABLE, "blob", key[1], write.channel, value.type), value.size

    def namespaces(self, thread_id: str) -> list[str]:
        found = self._tables.checkpoints.get(thread_id, {})
        return sorted(ns for ns, rows in found.items() if rows)

    def checkpoints(
        self, thread_id: str, **options: Unpack[CheckpointOptions]
    ) -> Iterator[Checkpoint]:
        asked = CheckpointQuery(**options)
        found = self._tables.checkpoints.get(thread_id, {})
        wanted = None if asked.checkpoint_ids is None else set(asked.checkpoint_ids)
        space = asked.checkpoint_ns
        for ns in self.namespaces(thread_id) if space is None else [space]:
            rows = found.get(ns, {})
            for one in sorted(rows if wanted is None else rows.keys() & wanted, reverse=True):
                key = CheckpointKey(thread_id, ns, one)
                yield self._checkpoint(key, rows[one], asked)

    def _checkpoint(
        self, key: CheckpointKey, row: StoredCheckpoint, asked: CheckpointQuery
    ) -> Checkpoint:
        value = self._tables.value
        found = Checkpoint(
            key,
            row.parent,
            value(CHECKPOINTS, row.body) if asked.body else None,
            value(CHECKPOINTS, row.metadata) if asked.metadata else None,
        )
        if found.body is None or BLOBS not in self._tables.files.opened:
            return found
        blobs, missing = self._blobs(key, found.body, asked.values)
        return found._replace(blobs=blobs, missing=missing)

    def _blobs(
        self, key: CheckpointKey, body: TypedBytes, values: bool | Collection[str]
    ) -> tuple[dict[str, Blob], frozenset[str]]:
        """The values that a checkpoint names, by channel, and the channels without any entry."""
        tables = self._tables
        names = named(key, body)
        if names is None:
            return {}, frozenset()
        found = {}
        missing = set()
        for channel, place in names.places.items():
            stored = tables.blobs.get(place)
            if stored is None:
                missing.add(channel)
                continue
            if stored.type == "empty":
                continue
            blob = Blob(stored.type, stored.size)
            if is_wanted(channel, blob, values, is_old=names.is_old):
                blob = blob._replace(value=tables.value(BLOBS, stored))
            found[channel] = blob
        return found, frozenset(missing)

    def writes(self, thread_id: str, **options: Unpack[WriteOptions]) -> Iterator[Write]:
        asked = WriteQuery(**options)
        tables, values = self._tables, asked.values
        keys: Collection[WriteKey] = tables.writes_of.get(thread_id, ())
        ids = None if asked.checkpoint_ids is None else set(asked.checkpoint_ids)
        if ids is not None and asked.checkpoint_ns is not None:
            keys = tables.writes.keys() & {(thread_id, asked.checkpoint_ns, one) for one in ids}
        for key in sorted(keys):
            if asked.checkpoint_ns not in {None, key[1]} or (ids is not None and key[2] not in ids):
                continue
            rows = [
                (write.task_path or "", task_id, idx, write)
                for (task_id, idx), write in tables.writes[key].items()
                if asked.channels is None or write.channel in asked.channels
            ]
            for path, task_id, idx, write in sorted(rows, key=lambda row: row[:3]):
                is_read = values if isinstance(values, bool) else write.channel in values
                yield Write(
                    CheckpointKey(*key),
                    task_id,
                    path,
                    idx,
                    write.channel,
                    write.value.size,
                    tables.value(WRITES, write.value) if is_read else None,
                )

    def _writes_of(self, thread_id: str) -> Iterator[tuple[WriteKey, tuple[str, int], StoredWrite]]:
        for key in self._tables.writes_of.get(thread_id, ()):
            for task, write in self._tables.writes[key].items():
                yield key, task, write

    def blobs(self, thread_id: str) -> Iterator[tuple[BlobKey, int]]:
        tables = self._tables
        for key in tables.blobs_of.get(thread_id, ()):
            _, ns, channel, version = key
            yield BlobKey(ns, channel, str(version)), tables.blobs[key].size

    def rows(self, thread_id: str) -> Iterator[Row]:
        tables = self._tables
        for key in tables.blobs_of.get(thread_id, ()):
            yield row_of(BLOB_TABLE, key, tables.blobs[key], tables)
        for place, task, write in self._writes_of(thread_id):
            yield row_of(WRITE_TABLE, (*place, *task), write, tables)
        for ns, in_ns in tables.checkpoints.get(thread_id, {}).items():
            for own, found in in_ns.items():
                yield row_of(CHECKPOINT_TABLE, (thread_id, ns, own), found, tables)

    def own_rows(self, thread_id: str, rows: Iterable[Row]) -> Iterator[Row]:
        return own_rows(thread_id, rows, COLUMNS)

    def sources(self, key: CheckpointKey) -> list[str]:
        thread, ns, one = key.thread_id, key.checkpoint_ns, key.checkpoint_id
        places = {
            CHECKPOINTS: f"[{thread!r}][{ns!r}][{one!r}]",
            WRITES: f"[{thread!r}, {ns!r}, {one!r}]",
            BLOBS: f"[{thread!r}, {ns!r}, CHANNEL, VERSION]",
        }
        opened = self._tables.files.opened
        return [
            f"{self._folder / name} {place}" for name, place in places.items() if name in opened
        ]

    def faults(self) -> Iterator[Fault]:
        return entry_faults(self._tables)

    def suspect_threads(self) -> Iterator[str]:
        return suspects(self._tables)

    def refresh(self) -> None:
        if stamps(self._folder, self.names) == self._tables.files.stamps:
            return
        fresh = self._opened()
        self.close()
        self._open = fresh

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    @property
    def _tables(self) -> Tables:
        if self._open is None:
            raise StoreUnavailable(f"'{self._url}' is closed")
        return self._open
